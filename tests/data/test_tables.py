"""Tables: the delimiter, the header and the columns are found by rules, reported, and refused if they are unclear."""

from pathlib import Path
from typing import Any

import pytest

from regard.config import build
from regard.data.fields import LABELLED_TEXT, PAIRS, Fields
from regard.data.formats import describe_sources, read_examples
from regard.data.settings import adopt_settings, build_source
from regard.data.sources import Source
from regard.data.tables import PROBE_LINES, find_sides, guess_delimiter, is_header, show
from regard.errors import UserError


def read(folder: Path, content: str | bytes, fields: Fields = PAIRS, **options: Any) -> list[tuple[str, ...]]:
    name = options.setdefault("file", "a.csv")
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return [tuple(example.values()) for example in read_examples([Source(**options)], folder, fields)]


def code_of(folder: Path, content: str, fields: Fields = PAIRS, **options: Any) -> str:
    with pytest.raises(UserError) as error:
        read(folder, content, fields, **options)
    assert error.value.remedy
    return error.value.code


def notes(folder: Path, fields: Fields = PAIRS, **options: Any) -> list[str]:
    return describe_sources([Source(file=options.pop("file", "a.csv"), **options)], folder, fields)


# ---- delimiter


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_of_a_csv_is_found(tmp_path: Path, delimiter: str) -> None:
    rows = [["src", "tgt"], ['"yes, sir"', '"oui; | monsieur"'], ['"two\nlines"', '"say ""x"""']]
    content = "".join(delimiter.join(row) + "\n" for row in rows)
    expected = [("yes, sir", "oui; | monsieur"), ("two\nlines", 'say "x"')]
    assert read(tmp_path, content) == read(tmp_path, content, delimiter=delimiter) == expected
    (note,) = notes(tmp_path)
    assert (show(delimiter) in note) is (delimiter != ","), "another delimiter than the comma is reported"


def test_a_csv_as_excel_writes_it_in_europe(tmp_path: Path) -> None:
    """UTF-8 with a byte order mark, semicolons, CRLF, quotes only where they are needed."""
    content = '\ufeffNr;Deutsch;Englisch\r\n1;"Ja; gut";Yes, good\r\n2;"Zwei\r\nZeilen";"a ""b"""\r\n'
    named: dict[str, Any] = {"src_column": "Deutsch", "tgt_column": "Englisch"}
    expected = [("Ja; gut", "Yes, good"), ("Zwei\nZeilen", 'a "b"')]
    assert read(tmp_path, content, **named) == expected
    assert read(tmp_path, content, src_column=2, tgt_column=3, header=True) == expected
    assert len(notes(tmp_path, **named)) == 1
    assert read(tmp_path, "\ufeffText;Klasse\r\ngut, sehr;ja\r\n", LABELLED_TEXT, text="Text", label="Klasse") == [
        ("gut, sehr", "ja")
    ]


def test_commas_in_a_file_of_semicolons_and_the_reverse(tmp_path: Path) -> None:
    assert read(tmp_path, "Yes, sir;Oui\nNo;Non, merci\n") == [("Yes, sir", "Oui"), ("No", "Non, merci")]
    assert read(tmp_path, "Yes, sir;Oui, oui\n") == [("Yes, sir", "Oui, oui")], "a space follows a comma in a sentence"
    assert read(tmp_path, "a; b,c\nd,e\n") == [("a; b", "c"), ("d", "e")]
    assert read(tmp_path, "a;b,c;d\n") == [("a;b", "c;d")], "of two that fit equally well the comma is taken"
    assert read(tmp_path, "a;b,c;d\n", delimiter=";", src_column=1, tgt_column=3) == [("a", "d")]
    assert read(tmp_path, "a;b\tc\n", file="a.tsv") == [("a;b", "c")], "a .tsv has tabs"
    assert read(tmp_path, "a;b\tc\n", file="a.tsv", delimiter=";") == [("a", "b\tc")]


def test_only_the_beginning_of_a_table_decides() -> None:
    assert guess_delimiter([]) == ","
    assert guess_delimiter(["a b"]) == ","
    assert guess_delimiter(["a;b", "c;d", "e,f"]) == ";", "most rows"
    assert guess_delimiter(["a,b;c", "d;e"], complete=False) == ",", "the last row may be cut"
    assert guess_delimiter(['"a,b', 'c";d'], quoted=True) == ";"
    assert guess_delimiter(['"a,b', 'c";d'], quoted=False) == ","
    assert guess_delimiter(['"' + "x" * 200_000]) == ",", "what is not a table at all"


def test_a_long_table_is_read_to_its_end(tmp_path: Path) -> None:
    rows = [(f"a{n}", f"b{n}") for n in range(3 * PROBE_LINES)]
    assert read(tmp_path, "".join(f"{src};{tgt}\n" for src, tgt in rows)) == rows


def test_the_delimiter_is_one_character() -> None:
    for wrong in ("", ";;", '"', "\n"):
        with pytest.raises(UserError) as error:
            build(Source, {"file": "a.csv", "delimiter": wrong}, "recipe")
        assert error.value.where == "delimiter"
    assert code_of_other_format() == ("unused-setting", "delimiter")


def code_of_other_format() -> tuple[str, str]:
    with pytest.raises(UserError) as error:
        build_source({"file": "a.jsonl", "delimiter": ";"}, PAIRS, "recipe")
    return error.value.code, error.value.where


# ---- header and columns of pairs


@pytest.mark.parametrize(
    ("cells", "header"),
    [
        (["src", "tgt"], True),
        (["Source", "Target"], True),
        ([" EN ", "de"], True),
        (["English", "French"], True),
        (["en_US", "pt-BR"], True),
        (["id", "en"], True),
        (["en", "en"], False),  # a name is not given twice
        (["no", "nein"], False),
        (["source", "Quelle"], False),
        (["Hello", "Hallo"], False),
        (["id", "English sentence", "Phrase"], True),
        (["en", "de", "licence"], True),
        (["en", "Hallo", "x"], False),
        (["a", "b", "c"], False),
        (["source"], True),  # a file to translate
        (["target"], False),
        (["en"], False),
        ([], False),
    ],
)
def test_the_first_row_of_pairs_is_a_header_by_its_words(cells: list[str], header: bool) -> None:
    assert is_header(cells) is header


def test_a_header_is_not_a_pair(tmp_path: Path) -> None:
    assert read(tmp_path, "en,de\nyes,ja\n") == [("yes", "ja")]
    assert read(tmp_path, "en\tde\nyes\tja\n", file="a.tsv") == [("yes", "ja")]
    assert read(tmp_path, "en,de\nyes,ja\n", header=False) == [("en", "de"), ("yes", "ja")]
    assert read(tmp_path, "a,b\nyes,ja\n", header=True) == [("yes", "ja")]
    assert read(tmp_path, "id,en,de\n1,yes,ja\n", src_column=2, tgt_column=3) == [("yes", "ja")]
    assert read(tmp_path, "\n\nen,de\nyes,ja\n") == [("yes", "ja")]
    assert read(tmp_path, "\n\nen\tde\nyes\tja\n", file="a.tsv") == [("yes", "ja")]


def test_the_columns_of_pairs_are_found_by_their_names(tmp_path: Path) -> None:
    assert find_sides(["id", "Target", "Source"]) == ("Source", "Target")
    assert find_sides(["id", "source"]) is None and find_sides(["tgt"]) is None
    assert read(tmp_path, "id,target,source\n1,ja,yes\n") == [("yes", "ja")]
    assert read(tmp_path, "tgt\tsrc\nja\tyes\n", file="a.tsv") == [("yes", "ja")]
    assert read(tmp_path, "tgt\tsrc\nja\tyes\n", file="a.tsv", src_column=1, tgt_column=2) == [("ja", "yes")]
    assert "'source'" in notes(tmp_path)[0]


def test_unclear_columns_of_pairs_are_an_error_and_never_guessed(tmp_path: Path) -> None:
    many = "id,English sentence,Phrase,origin\n1,yes,oui,x\n"
    assert code_of(tmp_path, many) == "ambiguous-columns"
    with pytest.raises(UserError):
        notes(tmp_path)
    assert code_of(tmp_path, "yes,ja,x\n") == "ambiguous-columns"
    assert code_of(tmp_path, "yes,ja,x\n", header=False) == "ambiguous-columns"
    assert code_of(tmp_path, "Yes,sir;Oui,oui\n") == "ambiguous-columns", "3 columns, if commas separate them"
    assert code_of(tmp_path, "id\ten\tde\n1\tyes\tja\n", file="a.tsv") == "ambiguous-columns"
    named: dict[str, Any] = {"src_column": "English sentence", "tgt_column": "Phrase"}
    assert read(tmp_path, many, **named) == [("yes", "oui")]
    assert read(tmp_path, many, src_column=2, tgt_column=3) == [("yes", "oui")]


def test_a_tsv_may_have_further_columns_which_is_reported(tmp_path: Path) -> None:
    content = "Go.\tVa !\tCC-BY 2.0\nHi.\tSalut !\tCC-BY 2.0\n"
    assert read(tmp_path, content, file="a.tsv") == [("Go.", "Va !"), ("Hi.", "Salut !")]
    assert len(notes(tmp_path, file="a.tsv")) == 1
    assert notes(tmp_path, file="a.tsv", src_column=1, tgt_column=2) == []


def test_what_is_certain_is_not_reported(tmp_path: Path) -> None:
    read(tmp_path, "yes\tja\n", file="a.tsv")
    assert notes(tmp_path, file="a.tsv") == []
    read(tmp_path, "text,label\ngood,yes\n", LABELLED_TEXT)
    assert notes(tmp_path, LABELLED_TEXT) == []
    read(tmp_path, "text;label\ngood;yes\n", LABELLED_TEXT)
    assert len(notes(tmp_path, LABELLED_TEXT)) == 1 and notes(tmp_path, LABELLED_TEXT, delimiter=";") == []
    read(tmp_path, "Frage,Antwort\nyes,ja\n")
    assert len(notes(tmp_path)) == 1, "no header: a person sees whether the first row is one"
    assert notes(tmp_path, header=True) == notes(tmp_path, header=False) == []
    assert describe_sources([Source(builtin="dates", split="test"), Source(src="a", tgt="b")], tmp_path, PAIRS) == []


# ---- columns of other files


def test_another_file_is_read_like_those_of_the_recipe() -> None:
    named: dict[str, Any] = {"src_column": "en", "tgt_column": "de"}
    numbers: dict[str, Any] = {"src_column": 2, "tgt_column": 3, "header": False, "where": {"id": 1}}
    csv, tsv = Source(file="a.csv.xz", delimiter=";", **named), Source(file="b.tsv", **numbers)
    assert adopt_settings("x.csv", [tsv, csv], PAIRS) == {"delimiter": ";", **named}
    assert adopt_settings("x.tsv.gz", [csv, tsv], PAIRS) == {"src_column": 2, "tgt_column": 3, "header": False}
    assert adopt_settings("x.tsv", [Source(src="a", tgt="b"), csv], PAIRS) == named, "the columns, not the delimiter"
    assert adopt_settings("x.jsonl", [csv], PAIRS) == named
    assert adopt_settings("x.csv", [tsv], PAIRS) == {"src_column": 2, "tgt_column": 3}
    assert adopt_settings("x.jsonl", [tsv, csv], PAIRS) == named, "JSON has no numbered columns"
    assert adopt_settings("x.jsonl", [tsv], PAIRS) == {} == adopt_settings("x.ptb", [csv], PAIRS)
    labelled = Source(file="a.csv", columns={"text": "body"}, names={"1": "good"}, labels_file="l")
    assert adopt_settings("b.jsonl", [labelled], LABELLED_TEXT) == {"text": "body", "names": {"1": "good"}}
    assert adopt_settings("b.csv", [labelled], LABELLED_TEXT) == {"text": "body", "names": {"1": "good"}}


def test_both_sides_in_one_column_are_refused() -> None:
    for wrong in ({"src_column": 2}, {"tgt_column": 1}, {"src_column": "a", "tgt_column": "a"}):
        with pytest.raises(UserError) as error:
            build_source({"file": "a.tsv", **wrong}, PAIRS, "recipe")
        assert (error.value.code, error.value.where) == ("invalid-setting", "tgt_column")
    build_source({"file": "a.tsv", "src_column": 2, "tgt_column": 1}, PAIRS, "recipe")
