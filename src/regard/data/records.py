"""Lines of UTF-8 files, and records: rows of a table, values of JSON, lines of a text; each with its location."""

import csv
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from regard.data.accounts import Account
from regard.data.sources import Column, Source
from regard.errors import UserError
from regard.files import COMPRESSED, open_binary
from regard.reading import parse_strict_json, read_toml

MAX_LINE_BYTES = 1 << 26  # a longer line is not text, and a thousand of them would not fit in memory

DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
"""Errors of a file that cannot be decompressed to its end."""
Opener = Callable[[Path], BinaryIO]
"""Opens a data file for reading bytes, decompressed."""

TABLES = read_toml(Path(__file__).with_name("formats.toml"))
BINARY = {magic.encode("latin-1"): (kind, remedy) for magic, (kind, remedy) in TABLES["binary"].items()}
"""First bytes of files that are not UTF-8 text: what they are, and what to do."""


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
        if number == 1:
            _check_beginning(raw, name)
        if len(raw) > MAX_LINE_BYTES:
            problem = f"is longer than {MAX_LINE_BYTES} bytes"
            raise Location(name, number).error(problem, "check that it is a text file")
        if b"\0" in raw:
            raise _nul_error(raw, offset, Location(name, number))
        line = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            position = offset + len(raw) - len(line) + error.start
            problem = f"is not UTF-8: byte {line[error.start]:#04x} at offset {position}"
            remedy = "convert the file: iconv -f LATIN1 -t UTF-8 (or -f UTF-16, or the encoding it has)"
            raise Location(name, number).error(problem, remedy, "not-utf8") from error
        offset += len(raw)


def _check_beginning(raw: bytes, name: str | Path) -> None:
    """Raise a UserError if the first line is not the beginning of a text file."""
    for magic, (kind, remedy) in BINARY.items():
        if raw.startswith(magic):
            raise Location(name, 1).error(f"is not text: the file is {kind}", remedy, "not-utf8")
    if b"\r" in raw[:-1] and not raw.endswith(b"\n"):
        problem, remedy = "is the whole file: its lines end with CR only", "convert it: tr '\\r' '\\n' < FILE > NEW"
        raise Location(name, 1).error(problem, remedy)


def _nul_error(raw: bytes, offset: int, location: "Location") -> UserError:
    """The error for a line with U+0000: UTF-16 without a byte order mark, if every other byte of it is zero."""
    places = [offset + index for index, byte in enumerate(raw[: 1 << 10]) if not byte]
    if 3 * len(places) > min(len(raw), 1 << 10) and len({place % 2 for place in places}) == 1:
        code = "UTF-16LE" if places[0] % 2 else "UTF-16BE"
        problem = f"is not UTF-8: it looks like {code} without a byte order mark"
        return location.error(problem, f"convert the file: iconv -f {code} -t UTF-8 FILE > NEW", "not-utf8")
    position = offset + raw.index(b"\0")
    remedy = "remove it: tr -d '\\000' < FILE > NEW; or convert a file in another encoding with iconv"
    return location.error(f"contains the character U+0000, at offset {position}", remedy, "nul-character")


def _raw_lines(stream: BinaryIO, path: str | Path) -> Iterator[bytes]:
    try:
        while line := stream.readline(MAX_LINE_BYTES + 1):
            yield line
    except DAMAGED as error:
        remedy = "the file is truncated or corrupt; copy or download it again"
        raise Location(path).error(f"cannot be read to its end: {error}", remedy, "damaged-file") from error


class CsvRow(NamedTuple):
    """A row of quoted cells, the line it begins on and the number of its lines; a blank line has no cells."""

    number: int
    cells: list[str]
    lines: int = 1


def csv_rows(lines: Iterable[str], path: Path, delimiter: str = ",", joins: bool = False) -> Iterator[CsvRow]:
    """Rows of quoted cells; a cell may span lines, and with `joins` also lines that look like rows themselves."""
    row_lines: list[str] = []

    def remember() -> Iterator[str]:
        for line in lines:
            row_lines.append(line)
            yield line + "\n"

    reader = csv.reader(remember(), delimiter=delimiter, strict=True)
    while True:
        number = reader.line_num + 1
        row_lines.clear()
        try:
            row = next(reader, None)
        except csv.Error as error:
            at = number + _unclosed_cell(row_lines, delimiter)
            problem = f"has a cell that is not valid CSV, up to line {reader.line_num}: {error}"
            remedy = "close every quotation mark, and double those inside a quoted cell; or set quoted = false"
            raise Location(path, at).error(problem, remedy) from error
        if row is None:
            return
        inner = row_lines[1:-1]
        if inner and not joins and len(row) > 1 and all(_width(line, delimiter) == len(row) for line in row_lines):
            at = number + next(index for index, line in enumerate(row_lines) if line.count('"') % 2)
            problem = f"opens a quotation mark that is closed only on line {reader.line_num}, and joins rows"
            remedy = "close it; or set quoted = false, if quotation marks are text, or quoted = true, if it is one cell"
            raise Location(path, at).error(problem, remedy)
        yield CsvRow(number, row, len(row_lines))


def _width(line: str, delimiter: str) -> int:
    """The number of cells of a line that is a row; if its quotation marks do not match, they are text."""
    return line.count(delimiter) + 1 if line.count('"') % 2 else len(next(csv.reader([line], delimiter=delimiter), []))


def _unclosed_cell(lines: Sequence[str], delimiter: str) -> int:
    """The index of the line on which the first cell begins that is not valid."""
    end, text, position = re.escape(delimiter), "\n".join(lines), 0
    cell = re.compile(rf'(?:"[^"]*(?:""[^"]*)*"|(?!")[^{end}\n]*)(?:{end}|\n|\Z)')
    while position < len(text) and (match := cell.match(text, position)):
        position = match.end()
    return text.count("\n", 0, position)


def file_ending(name: str) -> str:
    """The suffix of a file name, that of compression aside, in lower case."""
    path = Path(name)
    return (Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix).lower()


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
            if column not in self.header and "." in column:
                return follow(dict(zip(self.header, cells, strict=True)), column)
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
    account: Account
    """Counts the records while they are read."""
    columns: frozenset[str]
    """The columns of the inputs."""
    pairs: bool = False
    """True if the examples are pairs."""

    def lines(self, index: int = 0) -> Iterator[str]:
        """The lines of one of the files."""
        return read_lines(self.paths[index], self.opener)

    def numbered(self, index: int = 0) -> Iterator[tuple[Location, str]]:
        """The lines of one of the files that are not blank, with their locations."""
        path = self.paths[index]
        for number, line in enumerate(self.lines(index), 1):
            self.account.read += 1
            if line.strip():
                yield Location(path, number), line
            else:
                self.account.drop("blank")

    def record(self, location: Location, value: object, header: Sequence[str] = ()) -> Record:
        """A record, counted."""
        self.account.read += 1
        return Record(location, value, header)

    def json(self) -> object:
        """The one JSON value of the first file."""
        path = self.paths[0]
        try:
            return parse_strict_json("\n".join(self.lines()))
        except json.JSONDecodeError as error:
            by_line = error.msg == "Extra data"
            remedy = 'if it has one object per line, write format = "jsonl"' if by_line else "check that it is complete"
            raise Location(path, error.lineno).error(f"is not JSON: {error.msg}", remedy, "bad-json") from error
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, or deep nesting
            raise UserError(f"{path} is not JSON: {error}", code="bad-json", where=path) from error
