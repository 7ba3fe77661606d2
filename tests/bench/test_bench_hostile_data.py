"""Hostile data files: none is read wrong, and the judge notices a reader that is lenient."""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from benchmarks import hostile_data
from benchmarks.hostile_data import TEXT_KINDS, TYPED_KINDS, make_case, parse_csv, run

from regard.data import tables
from regard.data.records import CsvRow

for name in ("pandas", "pyarrow", "openpyxl", "lxml"):
    pytest.importorskip(name)


def test_hostile_files_are_read_right_or_refused() -> None:
    verdicts, by_kind, wrong = run(400, seed=7)
    assert not wrong
    assert verdicts["right"] > 80 and verdicts["refused"] > 80
    assert all(by_kind[kind, "right"] and by_kind[kind, "refused"] for kind in (*TEXT_KINDS, *TYPED_KINDS))


def test_files_depend_on_their_number_and_the_seed_only() -> None:
    assert make_case(3, 1).content == make_case(3, 1).content != make_case(3, 2).content


def test_a_lenient_reader_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def lenient(lines: Iterable[str], path: Path, delimiter: str = ",", joins: bool = False) -> Iterator[CsvRow]:
        return (CsvRow(number, row) for number, row in enumerate(csv.reader(lines, delimiter=delimiter), 1))

    monkeypatch.setattr(hostile_data, "TEXT_KINDS", ("csv",))
    monkeypatch.setattr(hostile_data, "TYPED_KINDS", ())
    assert not run(60, seed=7)[2]
    monkeypatch.setattr(tables, "csv_rows", lenient)
    assert run(60, seed=7)[2]


def test_the_csv_parser_of_the_judge() -> None:
    assert parse_csv('a,"b ""c""\nd"\r\n\n5" x,', ",") == [["a", 'b "c"\nd'], ['5" x', ""]]
    for damaged in ('a,"b', '"a" b,c\n'):
        with pytest.raises(ValueError):
            parse_csv(damaged, ",")
