"""Every form a corpus comes in is read alike, and every defect is named by file and line."""

import gzip
import json
import lzma
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from regard.config import build
from regard.data import corpora
from regard.data.corpora import Corpus, Pair, read_lines, read_pairs
from regard.data.settings import DataSettings
from regard.errors import UserError

PAIRS = [("Ein Hund.", "A dog."), ("Zwei\u2028Zeilen\x85", "two\x0b lines\x1c"), ("日本", "Japan"), ("", "nothing")]


def read(root: Path, **values: Any) -> list[Pair]:
    return list(read_pairs(Corpus.model_validate(values), root))


def sides(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.src, pair.tgt) for pair in pairs]


def write(path: Path, content: str | bytes) -> None:
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(
        gzip.compress(raw) if path.suffix == ".gz" else lzma.compress(raw) if path.suffix == ".xz" else raw
    )


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_two_aligned_files(tmp_path: Path, ending: str) -> None:
    write(tmp_path / f"a.de{ending}", "\n".join(src for src, _ in PAIRS) + "\n")
    write(tmp_path / f"a.en{ending}", "\r\n".join(tgt for _, tgt in PAIRS))
    pairs = read(tmp_path, src=f"a.de{ending}", tgt=f"a.en{ending}")
    assert sides(pairs) == PAIRS
    assert [pair.line for pair in pairs] == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a.tsv.gz", "a.txt.xz"])
def test_tabs(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, "".join(f"{src}\t{tgt}\n" for src, tgt in PAIRS))
    assert sides(read(tmp_path, file=name)) == PAIRS
    assert sides(read(tmp_path, file=name, src_column=1, tgt_column=0)) == [(tgt, src) for src, tgt in PAIRS]


def test_named_columns_and_quotation_marks_in_tabs(tmp_path: Path) -> None:
    write(tmp_path / "a.tsv", 'id\ten\tde\n1\t"open\tzu\n')
    assert read(tmp_path, file="a.tsv", src_column="de", tgt_column="en") == [Pair("zu", '"open', 2)]
    assert read(tmp_path, file="a.tsv", src_column="de", tgt_column=0) == [Pair("zu", "1", 2)]
    with pytest.raises(UserError, match=r"a\.tsv has no column 'fr'") as caught:
        read(tmp_path, file="a.tsv", src_column="fr", tgt_column="en")
    assert "id, en, de" in str(caught.value)
    write(tmp_path / "b.csv", "\n")
    with pytest.raises(UserError, match=r"b\.csv has no column 'de'"):
        read(tmp_path, file="b.csv", src_column="de", tgt_column="en")
    write(tmp_path / "c.tsv", "de\ten\n")
    with pytest.raises(UserError, match=r"c\.tsv holds no pair"):
        read(tmp_path, file="c.tsv", src_column="de", tgt_column="en")


def test_csv_fields_may_span_lines(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", 'src,tgt\n"a, b","say ""hi"""\n"two\nlines",x\n\nlast,row\n')
    expected = [Pair("a, b", 'say "hi"', 2), Pair("two\nlines", "x", 3), Pair("last", "row", 6)]
    assert read(tmp_path, file="a.csv", src_column="src", tgt_column="tgt") == expected
    assert read(tmp_path, file="a.csv")[1:] == expected


def test_json_lines(tmp_path: Path) -> None:
    lines = [json.dumps({"src": src, "tgt": tgt, "score": 1}) for src, tgt in PAIRS]
    write(tmp_path / "a.jsonl.gz", "\n".join(lines) + "\n\n")
    assert sides(read(tmp_path, file="a.jsonl.gz")) == PAIRS
    write(tmp_path / "a.json", '{"de": "ja", "en": "yes"}')
    assert read(tmp_path, file="a.json", src_column="de", tgt_column="en") == [Pair("ja", "yes", 1)]


def test_a_byte_order_mark_is_dropped_at_the_start_alone(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "\ufeffone\n\ufefftwo\r\r\n")
    assert list(read_lines(tmp_path / "a.txt")) == ["one", "\ufefftwo\r"]


@pytest.mark.parametrize(("src_count", "tgt_count"), [(3, 5), (5, 3), (1, 2)])
def test_unequal_files_say_both_counts(tmp_path: Path, src_count: int, tgt_count: int) -> None:
    write(tmp_path / "a.de", "x\n" * src_count)
    write(tmp_path / "a.en", "x\n" * tgt_count)
    with pytest.raises(UserError, match=rf"a\.de has {src_count} lines but .*a\.en has {tgt_count}"):
        read(tmp_path, src="a.de", tgt="a.en")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "one\ttwo\nalone\n", r"a\.tsv, line 2 has 1 column\n"),
        ("a.csv", "a,b\nc\n", r"a\.csv, line 2 has 1 column\n"),
        ("a.csv", 'a,b\n"open,' + "x" * 200_000, r"a\.csv, line 2 is not valid CSV"),
        ("a.tsv", b"ok\tok\nM\xe4nner\tmen\n", r"a\.tsv, line 2 is not UTF-8: byte 0xe4 at offset 7"),
        ("a.tsv", "x\ty\n".encode("utf-16"), r"a\.tsv, line 1 is not UTF-8"),
        ("a.tsv", b"", r"a\.tsv is empty"),
        ("a.jsonl", '{"src": "a", "tgt": "b"}\n{"src": "a"', r"a\.jsonl, line 2 is not JSON"),
        ("a.jsonl", '{"src": "a"}', r"a\.jsonl, line 1 has no text under the key 'tgt'"),
        ("a.jsonl", '{"src": "a", "tgt": 3}', r"line 1 has no text under the key 'tgt'"),
        ("a.jsonl", '["a", "b"]', r"line 1 has no text under the key 'src'"),
        ("a.jsonl", '{"src": "\\ud83d", "tgt": "b"}', r"a\.jsonl, line 1 holds half of a surrogate pair"),
        ("a.jsonl", "\n \n", r"a\.jsonl holds no pair"),
        ("a.csv", "\n\n", r"a\.csv holds no pair"),
        ("a.jsonl", "[" * 100_000, r"a\.jsonl, line 1 is not JSON"),
    ],
)
def test_defects_are_named(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    write(tmp_path / name, content)
    with pytest.raises(UserError, match=message) as caught:
        read(tmp_path, file=name)
    assert caught.value.remedy


@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_damaged_archives_are_named(tmp_path: Path, ending: str) -> None:
    whole = tmp_path / f"a.tsv{ending}"
    write(whole, "".join(f"{number}\t{number * 7919}\n" for number in range(20_000)))
    raw = whole.read_bytes()
    flipped = bytearray(raw)
    flipped[len(raw) // 2] ^= 0xFF
    for damaged in (raw[: len(raw) // 2], bytes(flipped), b"no archive at all"):
        whole.write_bytes(damaged)
        with pytest.raises(UserError, match=r"a\.tsv\.\w\w.*(cannot be read to its end|is not UTF-8)"):
            read(tmp_path, file=whole.name)


def test_missing_files_are_named(tmp_path: Path) -> None:
    write(tmp_path / "a.en", "x\n")
    with pytest.raises(UserError, match=r"a\.de: no such file") as caught:
        read(tmp_path, src="a.de", tgt="a.en")
    assert "a.en" in caught.value.remedy


def test_an_endless_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "LONGEST_LINE", 1000)
    write(tmp_path / "a.txt", "fine\n" + "x" * 2000)
    with pytest.raises(UserError, match=r"a\.txt, line 2 is longer than 1000 bytes"):
        list(read_lines(tmp_path / "a.txt"))


def test_reading_takes_no_memory(tmp_path: Path) -> None:
    write(tmp_path / "a.tsv", "some words of a sentence\tand of its translation\n" * 100_000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_pairs(Corpus(file="a.tsv"), tmp_path)) == 100_000
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "either src and tgt"),
        ({"src": "a", "tgt": "b", "file": "c.tsv"}, "either src and tgt"),
        ({"file": "c.tsv", "builtin": "dates", "part": "train"}, "either src and tgt"),
        ({"src": "a"}, "tgt is missing"),
        ({"tgt": "a"}, "src is missing"),
        ({"builtin": "dates"}, "builtin and part go together"),
        ({"file": "a.tsv", "part": "test"}, "builtin and part go together"),
        ({"src": "a", "tgt": "b", "src_column": 1}, "columns of file"),
        ({"file": "a.docx"}, "must end in"),
        ({"file": "a.xz"}, "must end in"),
        ({"file": "a.jsonl", "src_column": 0}, "are keys"),
        ({"file": "a.tsv", "src_column": -1}, "counted from 0"),
        ({"builtin": "prose", "part": "train"}, "'dates', 'numbers' or 'trees'"),
    ],
)
def test_contradictions_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Corpus.model_validate(values)


def test_one_table_is_a_list_of_one() -> None:
    table = {"file": "a.tsv"}
    settings = build(DataSettings, {"root": "~/x", "train": table, "valid": [table, table]}, "recipe")
    assert settings.train == [Corpus(file="a.tsv")]
    assert len(settings.valid) == 2
    assert settings.test == []
    assert settings.folder == Path("~/x").expanduser()


def test_a_corpus_is_named_by_what_it_is_read_from() -> None:
    assert str(Corpus(src="a", tgt="b")) == "a + b"
    assert str(Corpus(file="a.tsv")) == "a.tsv"
    assert str(Corpus(builtin="dates", part="test")) == "dates (test)"
