"""Every format is read as records with their locations, and every defect has a code and a location."""

import gzip
import json
import lzma
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from regard.config import SettingError
from regard.data.digests import Digests
from regard.data.fields import CHOICES, LABELLED_TEXT, LINES, PAIRS, QUESTIONS, SENTENCES, TAGGED_WORDS, TREES, Fields
from regard.data.formats import (
    FORMATS,
    check_source,
    identify,
    read_examples,
    read_records,
    read_table,
)
from regard.data.sources import Format, Source
from regard.errors import UserError
from regard.trees import parsed, tree_example, words

TEXTS = [("Ein Hund.", "A dog."), ("Zwei\u2028Zeilen\x85", "two\x0b lines\x1c"), ("日本", "Japan"), ("", "nothing")]
Pair = tuple[str, str]


def pairs(root: Path, **values: Any) -> list[Pair]:
    return [(pair["src"], pair["tgt"]) for pair in read_examples([Source(**values)], root, PAIRS)]


def lines_of(root: Path, fields: Fields = PAIRS, **values: Any) -> list[object]:
    return [record.location.number for record, _ in read_records(Source(**values), root, fields)]


def write(path: Path, content: str | bytes) -> None:
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(
        gzip.compress(raw) if path.suffix == ".gz" else lzma.compress(raw) if path.suffix == ".xz" else raw
    )


def refused(root: Path, content: str | bytes, fields: Fields, **values: Any) -> tuple[str, str]:
    """Code and location of the error that a file causes."""
    write(root / values["file"], content)
    with pytest.raises(UserError) as error:
        list(read_examples([Source(**values)], root, fields))
    assert error.value.remedy
    return error.value.code, error.value.where.replace(f"{root}/", "")


# ---- examples of any task


@pytest.mark.parametrize("fields", [PAIRS, TREES, LINES, SENTENCES, TAGGED_WORDS, CHOICES])
def test_examples_are_read_as_they_are(fields: Fields, tmp_path: Path) -> None:
    examples = [{"text": "a", "first": True, fields.target or "more": ["x"]}, {"text": "b", fields.target or "more": 1}]
    write(tmp_path / "a.jsonl", "".join(json.dumps(example) + "\n" for example in examples))
    source = Source(file="a.jsonl", format="examples")
    check_source(source, fields)
    assert list(read_examples([source], tmp_path, fields)) == examples
    assert refused(tmp_path, "[1]\n", fields, file="b.jsonl", format="examples") == ("bad-record", "b.jsonl:1")


# ---- pairs


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_two_aligned_files(tmp_path: Path, ending: str) -> None:
    write(tmp_path / f"a.de{ending}", "\n".join(src for src, _ in TEXTS) + "\n")
    write(tmp_path / f"a.en{ending}", "\r\n".join(tgt for _, tgt in TEXTS))
    source: dict[str, Any] = {"src": f"a.de{ending}", "tgt": f"a.en{ending}"}
    assert pairs(tmp_path, **source) == TEXTS
    assert lines_of(tmp_path, **source) == [1, 2, 3, 4]


@pytest.mark.parametrize(("src_count", "tgt_count"), [(3, 5), (5, 3), (1, 2)])
def test_files_of_unequal_length(tmp_path: Path, src_count: int, tgt_count: int) -> None:
    write(tmp_path / "a.de", "x\n" * src_count)
    write(tmp_path / "a.en", "x\n" * tgt_count)
    with pytest.raises(UserError, match=rf"a\.de has {src_count} lines but .*a\.en has {tgt_count}") as error:
        pairs(tmp_path, src="a.de", tgt="a.en")
    assert error.value.code == "unaligned-files"


@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a.tsv.gz", "a.txt.xz"])
def test_columns_separated_by_tabs(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, "".join(f"{src}\t{tgt}\n" for src, tgt in TEXTS))
    assert pairs(tmp_path, file=name) == TEXTS
    assert pairs(tmp_path, file=name, src_column=2, tgt_column=1) == [(tgt, src) for src, tgt in TEXTS]


def test_named_columns_headers_and_quotation_marks_of_pairs(tmp_path: Path) -> None:
    write(tmp_path / "a.tsv", 'id\ten\tde\n1\t"open\tzu\n')
    assert pairs(tmp_path, file="a.tsv", src_column="de", tgt_column="en") == [("zu", '"open')]
    assert pairs(tmp_path, file="a.tsv", src_column="de", tgt_column=1) == [("zu", "1")]
    assert pairs(tmp_path, file="a.tsv", header=True) == [("1", '"open')]
    assert lines_of(tmp_path, file="a.tsv", src_column="de", tgt_column="en") == [2]
    write(tmp_path / "b.tsv", '"a\tb"\tc\n')
    assert pairs(tmp_path, file="b.tsv", quoted=True) == [("a\tb", "c")]
    with pytest.raises(UserError) as error:
        pairs(tmp_path, file="a.tsv", src_column="fr", tgt_column="en")
    assert error.value.where == f"{tmp_path}/a.tsv:2" and "id, en, de" in str(error.value)


def test_rows_of_pairs_may_have_further_cells_if_all_have_them(tmp_path: Path) -> None:
    write(tmp_path / "a.tsv", "a\tb\tsomebody\nc\td\t\n")
    assert pairs(tmp_path, file="a.tsv") == [("a", "b"), ("c", "d")]
    write(tmp_path / "a.tsv", "a\tb\nc\td\tsomebody\n")
    with pytest.raises(UserError) as error:
        pairs(tmp_path, file="a.tsv")
    assert (error.value.code, error.value.where) == ("bad-line", f"{tmp_path / 'a.tsv'}:2")


def test_csv_cells_of_pairs_may_span_lines(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", 'src,tgt\n"a, b","say ""hi"""\n"two\nlines",x\n\nlast,row\n')
    expected = [("a, b", 'say "hi"'), ("two\nlines", "x"), ("last", "row")]
    named: dict[str, Any] = {"file": "a.csv", "src_column": "src", "tgt_column": "tgt"}
    assert pairs(tmp_path, **named) == expected and lines_of(tmp_path, **named) == [2, 3, 6]
    assert pairs(tmp_path, file="a.csv") == expected, "the first row is a header"
    assert pairs(tmp_path, file="a.csv", header=False) == [("src", "tgt"), *expected]


def test_json_pairs(tmp_path: Path) -> None:
    records = [{"src": src, "tgt": tgt, "score": 1} for src, tgt in TEXTS]
    write(tmp_path / "a.jsonl.gz", "".join(json.dumps(record) + "\n" for record in records) + "\n")
    assert pairs(tmp_path, file="a.jsonl.gz") == TEXTS
    write(tmp_path / "a.json", '{"de": "ja", "en": "yes"}')
    assert pairs(tmp_path, file="a.json", format="jsonl", src_column="de", tgt_column="en") == [("ja", "yes")]
    write(tmp_path / "a.json", '{"de": ["ja"], "en": ["yes"]}')
    assert pairs(tmp_path, file="a.json", src_column="de", tgt_column="en") == [("ja", "yes")]
    write(tmp_path / "b.json", json.dumps({"data": records}))
    assert pairs(tmp_path, file="b.json", format="json", records="data") == TEXTS


@pytest.mark.parametrize(
    ("name", "content", "code", "where"),
    [
        ("a.tsv", "one\ttwo\nalone\n", "bad-line", "a.tsv:2"),
        ("a.csv", "a,b\nc\n", "bad-line", "a.csv:2"),
        ("a.csv", 'a,b\n"open,' + "x" * 200_000, "bad-line", "a.csv:2"),
        ("a.tsv", b"ok\tok\nM\xe4nner\tmen\n", "not-utf8", "a.tsv:2"),
        ("a.tsv", b"", "no-data", "a.tsv"),
        ("a.jsonl", '{"src": "a", "tgt": "b"}\n{"src": "a"', "bad-json", "a.jsonl:2"),
        ("a.jsonl", '{"src": "a"}', "bad-record", "a.jsonl:1"),
        ("a.jsonl", '{"src": "a", "tgt": 3}', "bad-record", "a.jsonl:1"),
        ("a.jsonl", '{"src": "\\ud83d", "tgt": "b"}', "bad-text", "a.jsonl:1"),
        ("a.jsonl", "\n \n", "no-data", "a.jsonl"),
        ("a.csv", "\n\n", "no-data", "a.csv"),
        ("a.jsonl", "[" * 100_000, "bad-json", "a.jsonl:1"),
    ],
)
def test_defects_of_pairs(tmp_path: Path, name: str, content: str | bytes, code: str, where: str) -> None:
    assert refused(tmp_path, content, PAIRS, file=name) == (code, where)


def test_reading_pairs_takes_constant_memory(tmp_path: Path) -> None:
    write(tmp_path / "a.tsv", "some words of a sentence\tand of its translation\n" * 100_000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_examples([Source(file="a.tsv")], tmp_path, PAIRS)) == 100_000
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()


def test_builtin_corpora_are_sources_like_files() -> None:
    source = Source(builtin="dates", split="valid")
    assert len(list(read_records(source, Path(), PAIRS))) == 1000
    sides = [
        list(read_examples([Source(builtin="numbers", split="valid", side=s)], Path(), LINES)) for s in ("src", "tgt")
    ]
    assert {"text": "sieben"} in sides[1] and sides[0][sides[1].index({"text": "sieben"})] == {"text": "seven"}


# ---- trees


BRACKETS = """
( (S (NP-SBJ (PRP We)) (VP (VBP try) (S (NP-SBJ (-NONE- *-1)) (VP (TO to))))
  (. .)) )
(TOP (X (-LRB- -LRB-) (NN x)))
"""


@pytest.mark.parametrize("name", ["some.ptb", "some.mrg.xz"])
def test_trees(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, BRACKETS + "( (NP-SBJ (-NONE- *)) )\n")
    examples = list(read_examples([Source(file=name)], tmp_path, TREES))
    assert len(examples) == 2, "a tree of nothing but traces is left out"
    assert lines_of(tmp_path, TREES, file=name) == [2, 4]
    assert examples[0]["src"] == "We try to ."
    assert examples[0]["tgt"] == "(S (NP XX )NP (VP XX (S (VP XX )VP )S )VP XX )S"
    (tree,) = parsed([examples[1]["tree"]])
    assert words(tree) == ["-LRB-", "x"] and examples[1]["src"] == "( x" and tree_example(tree) == examples[1]
    assert pairs(tmp_path, file=name) == [(example["src"], example["tgt"]) for example in examples]
    tags = list(read_examples([Source(file=name, leaves="tags")], tmp_path, TREES))
    assert tags[1]["tgt"] == "(X -LRB- NN )X"
    assert refused(tmp_path, "(S (NP x)\n", TREES, file="a.ptb") == ("bad-tree", "a.ptb:1")


# ---- options


@pytest.mark.parametrize(
    ("fields", "values", "key", "code"),
    [
        (PAIRS, {"file": "a.docx"}, "file", "invalid-setting"),
        (PAIRS, {"file": "a.xz"}, "file", "invalid-setting"),
        (PAIRS, {"src": "a", "tgt": "b", "src_column": 1}, "src_column", "unused-setting"),
        (PAIRS, {"file": "a.tsv", "text": 1}, "text", "unused-setting"),
        (PAIRS, {"file": "a.tsv", "split": "train"}, "split", "unused-setting"),
        (PAIRS, {"file": "a.tsv", "turns": 2}, "turns", "unused-setting"),
        (PAIRS, {"file": "a.tsv", "leaves": "tags"}, "leaves", "unused-setting"),
        (PAIRS, {"file": "a.ptb", "src_column": 1}, "src_column", "unused-setting"),
        (PAIRS, {"file": "a.tsv", "format": "squad"}, "format", "invalid-setting"),
        (PAIRS, {"builtin": "dates", "split": "test", "side": "src"}, "side", "unused-setting"),
        (PAIRS, {"file": "a", "format": "dialogues", "src_column": 1}, "src_column", "unused-setting"),
        (TREES, {"file": "a.tsv"}, "file", "invalid-setting"),
        (TREES, {"builtin": "dates", "split": "test"}, "builtin", "invalid-setting"),
        (LINES, {"builtin": "dates", "split": "test"}, "side", "missing-setting"),
        (LINES, {"src": "a", "tgt": "b"}, "src", "invalid-setting"),
        (LINES, {"file": "a.txt", "boundary": "file"}, "boundary", "unused-setting"),
        (SENTENCES, {"file": "a.txt", "header": False}, "header", "unused-setting"),
        (SENTENCES, {"builtin": "dates", "split": "test"}, "builtin", "invalid-setting"),
        (LABELLED_TEXT, {"file": "data"}, "file", "invalid-setting"),
        (LABELLED_TEXT, {"file": "a.csv", "header": False}, "header", "invalid-setting"),
        (LABELLED_TEXT, {"file": "a.csv", "header": False, "text": "body"}, "text", "invalid-setting"),
        (LABELLED_TEXT, {"file": "a.csv", "records": "train"}, "records", "unused-setting"),
        (LABELLED_TEXT, {"file": "a.csv", "words": 1}, "words", "unused-setting"),
        (LABELLED_TEXT, {"file": "a.jsonl", "header": False}, "header", "unused-setting"),
        (LABELLED_TEXT, {"file": "a.csv", "contexts_file": "b"}, "contexts_file", "unused-setting"),
        (QUESTIONS, {"file": "a.json", "format": "squad", "labels_file": "b"}, "labels_file", "unused-setting"),
        (QUESTIONS, {"file": "a.json", "format": "squad", "question": "q"}, "question", "unused-setting"),
        (QUESTIONS, {"file": "a.tsv", "format": "qamr"}, "contexts_file", "missing-setting"),
        (QUESTIONS, {"file": "a.words", "format": "squad-tokens"}, "file", "invalid-setting"),
        (TAGGED_WORDS, {"file": "a.conll", "tags": "ner"}, "tags", "invalid-setting"),
        (CHOICES, {"file": "a.jsonl", "pair": "b"}, "pair", "unused-setting"),
    ],
)
def test_a_source_that_cannot_be_read_is_refused_at_once(
    fields: Fields, values: dict[str, Any], key: str, code: str
) -> None:
    with pytest.raises(SettingError) as error:
        check_source(Source(**values), fields)
    assert (error.value.key, error.value.code) == (key, code)


def test_an_unknown_file_extension_names_those_that_are_read() -> None:
    with pytest.raises(SettingError, match=r"unknown file extension; use \.\w+, .*, or set `format` to one of"):
        check_source(Source(file="data"), LABELLED_TEXT)


def test_every_format_of_a_source_has_a_reader() -> None:
    assert {*Format.__args__, "aligned", "builtin"} == set(FORMATS)  # type: ignore[attr-defined]


# ---- identity


def test_the_identity_changes_with_the_content_and_how_it_is_read(tmp_path: Path) -> None:
    write(tmp_path / "a.tsv", "a\tb\n")
    write(tmp_path / "b.tsv", "a\tb\n")
    write(tmp_path / "c.tsv", "a\tc\n")

    def of(fields: Fields = PAIRS, **values: Any) -> str:
        return identify([Source(**values)], tmp_path, fields, Digests())

    assert of(file="a.tsv") == of(file="b.tsv"), "the name does not matter"
    swapped = of(file="a.tsv", src_column=2, tgt_column=1)
    others = [of(file="c.tsv"), swapped, of(LINES, file="a.tsv"), of(file="a.tsv", header=True)]
    assert len({of(file="a.tsv"), *others}) == 5
    dialogues: dict[str, Any] = {"file": "a.tsv", "format": "dialogues"}
    assert of(**dialogues) == of(turns=1, **dialogues) != of(turns=2, **dialogues)
    assert of(builtin="dates", split="valid") != of(builtin="dates", split="test")
    with pytest.raises(UserError) as error:
        of(file="none.tsv")
    assert error.value.code == "missing-file"


# ---- tables to predict from


def test_a_table_is_read_without_its_targets(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "id,en\n7,yes\n8,no\n")
    rows = list(read_table(tmp_path / "a.csv", PAIRS, Source(file="train.csv", columns={"src": "en", "tgt": "de"})))
    assert [(record.value, list(record.header), example) for record, example in rows] == [
        (["7", "yes"], ["id", "en"], {"src": "yes"}),
        (["8", "no"], ["id", "en"], {"src": "no"}),
    ]
    assert refused(tmp_path, "id,en\n7,yes\n", PAIRS, file="b.csv", src_column="en", tgt_column="de") == (
        "bad-record",
        "b.csv:2",
    )
    write(tmp_path / "c.tsv", "text\tkind\ngood\t1\n")
    source = Source(file="train.tsv", columns={"label": "kind"}, names={"1": "yes"})
    assert [example for _, example in read_table(tmp_path / "c.tsv", LABELLED_TEXT, source)] == [
        {"text": "good", "label": "yes"}
    ]
    assert [example for _, example in read_table(tmp_path / "c.tsv", LABELLED_TEXT)] == [{"text": "good"}]


@pytest.mark.parametrize("kind", ["zero", "pipe"])
def test_devices_and_pipes_are_not_data(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "train.tsv"
    path.symlink_to("/dev/zero") if kind == "zero" else os.mkfifo(path)
    source = Source(file=str(path))
    for action in (
        lambda: next(read_examples([source], Path(), PAIRS)),
        lambda: identify([source], Path(), PAIRS, Digests()),
        lambda: Digests().open(path),
    ):
        with pytest.raises(UserError) as error:
            action()
        assert (error.value.code, error.value.where) == ("not-a-file", str(path))


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5_000])
@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_json_that_python_cannot_parse_is_a_defect(tmp_path: Path, name: str, text: str) -> None:
    write(tmp_path / name, text)
    with pytest.raises(UserError) as error:
        list(read_records(Source(file=name), tmp_path, LABELLED_TEXT))
    assert error.value.code == "bad-json" and error.value.where.startswith(str(tmp_path / name))
