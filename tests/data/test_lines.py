"""Lines of UTF-8 files: line ends, compression, memory, and the error code and line of every defect."""

import gzip
import lzma
import tracemalloc
from pathlib import Path

import pytest

from regard.data import records
from regard.data.records import csv_rows, file_ending, read_lines
from regard.errors import UserError


def write(path: Path, content: str | bytes) -> Path:
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(
        gzip.compress(raw) if path.suffix == ".gz" else lzma.compress(raw) if path.suffix == ".xz" else raw
    )
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.xz"])
def test_a_line_ends_at_a_line_feed_only(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "Zwei\u2028Zeilen\x85\r\n\ntwo\x0b lines\x1c\n日本")
    assert list(read_lines(path)) == ["Zwei\u2028Zeilen\x85", "", "two\x0b lines\x1c", "日本"]


def test_a_byte_order_mark_is_dropped_only_at_the_start(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "\ufeffone\n\ufefftwo\r\r\n")
    assert list(read_lines(path)) == ["one", "\ufefftwo\r"]


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        (b"ok\nM\xe4nner\n", "not-utf8", ":2"),
        ("x\ty\n".encode("utf-16"), "not-utf8", ":1"),
        (b"", "no-data", ""),
    ],
)
def test_defects_have_a_code_and_a_line(tmp_path: Path, content: bytes, code: str, line: str) -> None:
    path = write(tmp_path / "a.txt", content)
    with pytest.raises(UserError) as error:
        list(read_lines(path))
    assert (error.value.code, error.value.where) == (code, f"{path}{line}")
    assert error.value.remedy


def test_the_error_for_other_encodings_names_byte_and_offset(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"ok\tok\nM\xe4nner\tmen\n")
    with pytest.raises(UserError, match="line 2 is not UTF-8: byte 0xe4 at offset 7"):
        list(read_lines(path))


@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_damaged_archives_have_a_code(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"a.tsv{ending}", "".join(f"{number}\t{number * 7919}\n" for number in range(20_000)))
    raw = path.read_bytes()
    flipped = bytearray(raw)
    flipped[len(raw) // 2] ^= 0xFF
    for damaged in (raw[: len(raw) // 2], bytes(flipped), b"no archive at all"):
        path.write_bytes(damaged)
        with pytest.raises(UserError) as error:
            list(read_lines(path))
        assert error.value.code in ("damaged-file", "not-utf8") and str(path) in error.value.where


def test_a_missing_file_is_named_with_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path / "a.en", "x\n")
    with pytest.raises(UserError) as error:
        list(read_lines(tmp_path / "a.de"))
    assert error.value.code == "missing-file" and "a.en" in error.value.remedy


def test_a_line_of_unlimited_length_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_LINE_BYTES", 1000)
    path = write(tmp_path / "a.txt", "fine\n" + "x" * 2000)
    with pytest.raises(UserError) as error:
        list(read_lines(path))
    assert (error.value.code, error.value.where) == ("bad-line", f"{path}:2")


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "some words of a sentence and of its translation\n" * 100_000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_lines(path)) == 100_000
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()


def test_csv_cells_may_span_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", '"a, b","say ""hi"""\n"two\nlines",x\n\nlast,row\n')
    rows = list(csv_rows(read_lines(path), path))
    expected = [(1, ["a, b", 'say "hi"'], 1), (2, ["two\nlines", "x"], 2), (4, [], 1), (5, ["last", "row"], 1)]
    assert [tuple(row) for row in rows] == expected
    write(path, 'a,b\n"open,' + "x" * 200_000)
    with pytest.raises(UserError) as error:
        list(csv_rows(read_lines(path), path))
    assert (error.value.code, error.value.where) == ("bad-line", f"{path}:2")


def test_the_ending_of_a_name() -> None:
    names = {"a.tsv": ".tsv", "b/a.CSV.gz": ".csv", "a.xz": "", "a.ptb.xz": ".ptb", "data": ""}
    assert {name: file_ending(name) for name in names} == names
