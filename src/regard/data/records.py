"""Records: the rows of a table, the values of a JSON file, the lines of a text; each with its location."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from regard.data.lines import Opener, read_lines
from regard.data.sources import Column, Source
from regard.errors import UserError


class Location(NamedTuple):
    """The position of a record: a path, and the number of a line, a record or a question in it."""

    path: str | Path
    number: int | str = ""
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.path}, {self.unit} {self.number}" if self.number else f"{self.path}"

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
            raise UserError(
                f"{path}, line {error.lineno} is not JSON: {error.msg}",
                'if it has one object per line, write format = "jsonl"' if by_line else "check that it is complete",
                code="bad-json",
                where=f"{path}:{error.lineno}",
            ) from error
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, or deep nesting
            raise UserError(f"{path} is not JSON: {error}", code="bad-json", where=path) from error
        return value
