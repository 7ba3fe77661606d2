"""One class for every source: one location, columns from 1, canonical when written."""

from pathlib import Path
from typing import Any

import pytest

from regard.config import build
from regard.data.fields import LABELLED_TEXT
from regard.data.settings import (
    AnsweringDataSettings,
    LabelledDataSettings,
    PairDataSettings,
    build_source,
)
from regard.data.sources import Source
from regard.errors import UserError


def refused(values: dict[str, Any], settings: Any = Source) -> tuple[str, str]:
    with pytest.raises(UserError) as error:
        build(settings, values, "recipe")
    return error.value.code, error.value.where


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({}, ""),
        ({"src": "a", "tgt": "b", "file": "c.tsv"}, ""),
        ({"file": "c.tsv", "builtin": "dates", "split": "train"}, ""),
        ({"src": "a"}, "tgt"),
        ({"tgt": "a"}, "src"),
        ({"builtin": "dates"}, "split"),
        ({"builtin": "prose", "split": "train"}, "builtin"),
        ({"builtin": "dates", "split": "dev"}, "split"),
        ({"builtin": "dates", "split": "test", "format": "csv"}, "format"),
        ({"file": "a.tsv", "src_column": 0}, "src_column"),
        ({"file": "a.tsv", "tgt_column": -1}, "tgt_column"),
        ({"file": "a.csv", "text": [1, 0]}, "text"),
        ({"file": "a.csv", "format": "xls"}, "format"),
        ({"file": "a", "format": "dialogues", "turns": 0}, "turns"),
    ],
)
def test_contradictions_are_refused(values: dict[str, Any], where: str) -> None:
    assert refused(values) == ("invalid-setting", where)


def test_column_zero_is_refused_with_a_hint() -> None:
    with pytest.raises(UserError, match="from 1"):
        build(Source, {"file": "a.tsv", "src_column": 0}, "recipe")


def test_a_source_knows_all_its_files(tmp_path: Path) -> None:
    def names(**source: Any) -> list[str]:
        return [str(path.relative_to(tmp_path)) for path in Source(**source).files(tmp_path)]

    assert names(src="a.en", tgt="a.de") == ["a.en", "a.de"]
    assert names(file="a.csv") == ["a.csv"]
    assert names(file="a.jsonl", labels_file="a.lst") == ["a.jsonl", "a.lst"]
    assert names(file="q.tsv", format="qamr", contexts_file="s.tsv") == ["q.tsv", "s.tsv"]
    tokens = names(file="v.context/val.context.xz", format="squad-tokens")
    assert tokens == ["v.context/val.context.xz", "v.context/val.question.xz", "v.context/val.span.xz"]
    assert names(builtin="dates", split="test") == []
    assert Source(file="~/x").files(tmp_path) == [Path("~/x").expanduser()]
    assert Source(file="~nobody-of-this-name/x").files(tmp_path) == [tmp_path / "~nobody-of-this-name/x"]


def test_the_compression_of_files_can_be_left_out() -> None:
    source = Source(src="a.en.xz", tgt="a.de.gz")
    assert source.uncompressed() == Source(src="a.en", tgt="a.de")
    labelled = Source(file="a.jsonl", labels_file="a.lst.xz", columns={"text": "b.gz"})
    assert labelled.uncompressed() == Source(file="a.jsonl", labels_file="a.lst", columns={"text": "b.gz"})


def test_a_source_is_named_by_what_it_is_read_from() -> None:
    assert str(Source(src="a", tgt="b")) == "a + b"
    assert str(Source(file="a.tsv")) == "a.tsv"
    assert str(Source(builtin="dates", split="test")) == "dates (test)"
    assert str(Source(builtin="numbers", split="test", side="tgt")) == "numbers (test, tgt)"
    assert str(Source(file="talk.txt.xz", format="dialogues", split="valid")) == "talk.txt.xz (valid)"
    assert str(Source(file="a.json", records="oos", where={"x": 1})) == "a.json (oos, x = 1)"


def test_equal_sources_are_written_alike() -> None:
    plain, explicit = Source(file="a", format="documents"), {"boundary": "blank", "sentences": "lines"}
    assert Source(file="a", format="documents", **explicit).model_dump() == plain.model_dump()  # type: ignore[arg-type]
    assert plain.model_dump() == {"file": "a", "format": "documents"}
    assert Source(file="a", format="dialogues", turns=1).model_dump() == {"file": "a", "format": "dialogues"}


def test_columns_have_a_short_form() -> None:
    short = build(Source, {"file": "a.csv", "text": ["b", "c"], "src_column": 2, "word": "Wort"}, "recipe")
    assert short == Source(file="a.csv", columns={"text": ["b", "c"], "src": 2, "word": "Wort"})
    dumped: dict[str, Any] = {"file": "a.csv", "text": ["b", "c"], "src_column": 2, "word": "Wort"}
    assert short.model_dump() == dumped and Source(**dumped) == short
    assert short.column("word") == "Wort" and short.column("pair") == "pair"
    clash = Source(file="a.csv", columns={"split": 3})
    assert clash.model_dump() == {"file": "a.csv", "split_column": 3} and Source(**clash.model_dump()) == clash


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"delimeter": ";"}, "unknown-setting"),
        ({"columns": {"txt": 1}}, "unknown-setting"),
        ({"columns": {"words": 1}}, "unused-setting"),
        ({"quotd": True}, "unknown-setting"),
        ({"label": [1, 2]}, "invalid-setting"),
        ({"columns": {"text": 0}}, "invalid-setting"),
    ],
)
def test_wrong_columns_are_refused(values: dict[str, Any], code: str) -> None:
    with pytest.raises(UserError) as error:
        build_source({"file": "a.csv", **values}, LABELLED_TEXT, "recipe")
    inner = values.get("columns", values)
    assert (error.value.code, error.value.where) == (code, next(iter(inner)))


def test_the_name_of_a_file_is_a_source() -> None:
    values = {"train": "a.tsv", "valid": ["b.tsv", {"file": "c.tsv"}]}
    settings = build(PairDataSettings, values, "recipe")
    assert settings.train == [Source(file="a.tsv")]
    assert settings.valid == [Source(file="b.tsv"), Source(file="c.tsv")]
    for wrong in (3, [3], ["a.tsv", True], None):
        assert refused({"train": wrong}, PairDataSettings) == ("invalid-setting", "train")


def test_one_table_is_a_list_of_one() -> None:
    table = {"file": "a.tsv"}
    settings = build(PairDataSettings, {"root": "~/x", "train": table, "valid": [table, table]}, "recipe")
    assert settings.train == [Source(file="a.tsv")]
    assert len(settings.valid) == 2 and settings.test == []
    assert settings.folder == Path("~/x").expanduser()


def test_settings_that_contradict_themselves_are_refused() -> None:
    one = {"file": "a.csv"}
    assert build(LabelledDataSettings, {"train": one, "hold_out": 0.1}, "").train == [Source(file="a.csv")]
    for wrong, problem in (
        ({"train": one, "valid": one, "hold_out": 0.1}, ("unused-setting", "hold_out")),
        ({"train": one, "test": one, "hold_out": 0.1, "hold_out_test": 0.1}, ("unused-setting", "hold_out_test")),
        ({"train": one, "hold_out": 0.5, "hold_out_test": 0.5}, ("invalid-setting", "hold_out")),
    ):
        assert refused(wrong, LabelledDataSettings) == problem
    windows = {"max_length": 128, "max_question": 64}
    assert refused({**windows, "stride": 62}, AnsweringDataSettings) == ("invalid-setting", "stride")
    assert refused({**windows, "max_question": 125}, AnsweringDataSettings) == ("invalid-setting", "max_question")
    assert build(AnsweringDataSettings, {**windows, "stride": 61}, "").stride == 61


def test_a_source_of_the_command_line_is_checked() -> None:
    assert build_source({"file": "a.csv", "text": 1}, LABELLED_TEXT, "--file").columns == {"text": 1}
    with pytest.raises(UserError) as error:
        build_source({"file": "a.csv", "words": 1}, LABELLED_TEXT, "--file")
    assert (error.value.code, error.value.where) == ("unused-setting", "words")
