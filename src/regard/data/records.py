"""Lines of UTF-8 files, and records: rows of a table, values of JSON, lines of a text; each with its location."""

import csv
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from regard.data.sources import Column, Source
from regard.errors import UserError
from regard.files import open_binary

MAX_LINE_BYTES = 1 << 26  # a longer line is not text, and a thousand of them would not fit in memory

Opener = Callable[[Path], BinaryIO]
"""Opens a data file for reading bytes; it decompresses .gz and .xz."""


def read_lines(path: Path, opener: Opener = open_binary) -> Iterator[str]:
    """The lines of a UTF-8 file; there is at least one."""
    line = None
    with opener(path) as stream:
        for line in decode_lines(stream, path):
            yield line
    if line is None:
        raise UserError(f"{path} is empty", "write at least one line", code="no-data", where=path)


def decode_lines(stream: BinaryIO, name: str | Path) -> Iterator[str]:
    """The lines of a UTF-8 stream without their line ends; a byte order mark at the start is dropped."""
    offset = 0
    for number, raw in enumerate(_raw_lines(stream, name), 1):
        if len(raw) > MAX_LINE_BYTES:
            problem = f"is longer than {MAX_LINE_BYTES} bytes"
            raise Location(name, number).error(problem, "check that it is a text file")
        line = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            position = offset + len(raw) - len(line) + error.start
            problem = f"is not UTF-8: byte {line[error.start]:#04x} at offset {position}"
            remedy = "convert the file: iconv -f LATIN1 -t UTF-8 (or -f UTF-16, or the encoding it has)"
            raise Location(name, number).error(problem, remedy, "not-utf8") from error
        offset += len(raw)


def _raw_lines(stream: BinaryIO, path: str | Path) -> Iterator[bytes]:
    try:
        while line := stream.readline(MAX_LINE_BYTES + 1):
            yield line
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        remedy = "the file is truncated or corrupt; copy or download it again"
        raise Location(path).error(f"cannot be read to its end: {error}", remedy, "damaged-file") from error


def csv_rows(lines: Iterable[str], path: Path, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Rows of quoted cells with the line each begins on: a quoted cell may span lines. A blank line is not a row."""
    reader = csv.reader((line + "\n" for line in lines), delimiter=delimiter)
    while True:
        number = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            remedy = "check that every quotation mark is closed"
            raise Location(path, number).error(f"is not valid CSV: {error}", remedy) from error
        if row is None:
            return
        if row:
            yield number, row


def file_ending(name: str) -> str:
    """The suffix of a file name, .gz and .xz aside, in lower case."""
    path = Path(name)
    return (Path(path.stem).suffix if path.suffix in (".gz", ".xz") else path.suffix).lower()


class Location(NamedTuple):
    """The position of a record: a path, and the number of a line, a record or a question in it."""

    path: str | Path
    number: int | str = ""
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.path}, {self.unit} {self.number}" if self.number else f"{self.path}"

    def error(self, problem: str, remedy: str, code: str = "bad-line") -> UserError:
        """An error at this location."""
        return UserError(f"{self} {problem}", remedy, code=code, where=self.where)

    @property
    def where(self) -> str:
        """The form for `UserError.where`."""
        return f"{self.path}:{self.number}" if self.number else f"{self.path}"


class Record(NamedTuple):
    """One record of a file: the cells of a row, or a value of JSON; and its location."""

    location: Location
    value: object
    header: Sequence[str] = ()
    label: str | None = None
    """The line of `labels_file` that belongs to the record."""

    def get(self, column: Column) -> object:
        """The value of a column; None if there is no such column."""
        if isinstance(column, int):
            cells = self.value if isinstance(self.value, list) else []
            return cells[column - 1] if column <= len(cells) else None
        if self.header:
            cells = self.value if isinstance(self.value, list) else []
            return cells[self.header.index(column)] if column in self.header else None
        return follow(self.value, column)

    def describe_columns(self) -> str:
        """The columns there are, for error messages."""
        if self.header or isinstance(self.value, dict):
            names = self.header or (map(str, self.value) if isinstance(self.value, dict) else ())
            return f"the columns {', '.join(filter(None, names))}"
        return f"{len(self.value)} columns, numbered from 1" if isinstance(self.value, list) else f"{self.value!r}"

    def error(self, problem: str, remedy: str, code: str = "bad-record") -> UserError:
        """An error at the location of the record."""
        return UserError(f"{self.location}: {problem}", remedy, code=code, where=self.location.where)


def follow(value: object, path: str) -> object:
    """The value under a key, or under "a.b", the key b of the value under a; in a list, keys are numbers from 1."""
    if isinstance(value, dict) and (path in value or "." not in path):
        return value.get(path)
    if isinstance(value, list) and path.isdigit():
        return value[int(path) - 1] if 1 <= int(path) <= len(value) else None
    first, dot, remainder = path.partition(".")
    return follow(follow(value, first), remainder) if dot else None


class SourceFiles(NamedTuple):
    """The files of a source while they are read."""

    source: Source
    paths: list[Path]
    """`file` first, or src and tgt."""
    opener: Opener
    header: bool | None
    """True if the first row of a table names its columns; None: the first row decides."""
    uniform_rows: bool
    """True if all rows of a table must have as many cells as the first."""
    pairs: bool = False
    """True if the examples are pairs."""

    def lines(self, index: int = 0) -> Iterator[str]:
        """The lines of one of the files."""
        return read_lines(self.paths[index], self.opener)

    def numbered(self, index: int = 0) -> Iterator[tuple[Location, str]]:
        """The lines of one of the files that are not blank, with their locations."""
        path = self.paths[index]
        return ((Location(path, n), line) for n, line in enumerate(self.lines(index), 1) if line.strip())

    def json(self) -> object:
        """The one JSON value of the first file."""
        path = self.paths[0]
        try:
            value: object = json.loads("\n".join(self.lines()))
        except json.JSONDecodeError as error:
            by_line = error.msg == "Extra data"
            remedy = 'if it has one object per line, write format = "jsonl"' if by_line else "check that it is complete"
            raise Location(path, error.lineno).error(f"is not JSON: {error.msg}", remedy, "bad-json") from error
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, or deep nesting
            raise UserError(f"{path} is not JSON: {error}", code="bad-json", where=path) from error
        return value
