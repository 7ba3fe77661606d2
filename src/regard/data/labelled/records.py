"""Files of labelled text as records: rows of a table, JSON objects, lines, sentences; each knows where it stands."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.corpora import csv_rows, read_lines
from regard.data.labelled.settings import Column, Labelled
from regard.errors import UserError

FASTTEXT = re.compile(r"__label__(\S+)\s+(.*)")
TREC = re.compile(r"((\w+):\w+)\s+(.*)")
DOCUMENT = "-DOCSTART-"


@dataclass(frozen=True, slots=True)
class Record:
    """What a file says about one example, and where: the cells of a row, or a value of JSON."""

    place: str
    value: Any
    header: Sequence[str] = ()
    label: str | None = None
    """Its line of a file of labels."""

    def get(self, column: Column) -> Any:
        """What stands in a column; None where there is none, or where it holds nothing."""
        if isinstance(column, int):
            cells = self.value if isinstance(self.value, list) else []
            return cells[column - 1] if column <= len(cells) else None
        if self.header:
            return self.value[self.header.index(column)] if column in self.header else None
        return follow(self.value, column)

    def columns(self) -> str:
        """What there is, for people who look for something else."""
        if self.header or isinstance(self.value, dict):
            return f"the columns {', '.join(filter(None, self.header or map(str, self.value)))}"
        return f"{len(self.value)} columns, numbered from 1" if isinstance(self.value, list) else f"{self.value!r}"


def follow(value: Any, path: str) -> Any:
    """What stands under a key, or under "a.b", the key b of what stands under a; in a list keys are numbers from 1."""
    if isinstance(value, dict) and (path in value or "." not in path):
        return value.get(path)
    if isinstance(value, list) and path.isdigit():
        return value[int(path) - 1] if 1 <= int(path) <= len(value) else None
    first, dot, rest = path.partition(".")
    return follow(follow(value, first), rest) if dot else None


def table(path: Path, source: Labelled) -> Iterator[Record]:
    """The rows of a csv or tsv; all have as many cells as the first one."""
    first: list[str] | None = None
    for number, row in _rows(path, source):
        if first is None:
            first = [name.strip() for name in row] if source.header else row
            if source.header:
                continue
        if len(row) != len(first):
            problem = f"{path}, line {number} has {len(row)} column{'s' * (len(row) != 1)}, the first row {len(first)}"
            raise UserError(
                problem, "check what separates columns; quoted = true or false says whether quotation marks enclose one"
            )
        yield Record(f"{path}, line {number}", row, first if source.header else ())


def _rows(path: Path, source: Labelled) -> Iterator[tuple[int, list[str]]]:
    separator = "," if source.written == "csv" else "\t"
    if source.quoted if source.quoted is not None else source.written == "csv":
        return csv_rows(path, separator)
    lines = enumerate(read_lines(path), 1)
    return ((number, line.split(separator)) for number, line in lines if line.strip())


def json_lines(path: Path, source: Labelled) -> Iterator[Record]:
    """One value of JSON a line."""
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            try:
                yield Record(f"{path}, line {number}", json.loads(line))
            except (ValueError, RecursionError) as error:
                raise UserError(f"{path}, line {number} is not JSON: {error}", "write one object a line") from error


def json_list(path: Path, source: Labelled) -> Iterator[Record]:
    """The records of one JSON document: a list, or a list somewhere in it."""
    document = json_document(path)
    found = follow(document, source.part) if source.part else document
    if not isinstance(found, list):
        lists = (
            [key for key, value in document.items() if isinstance(value, list)] if isinstance(document, dict) else []
        )
        remedy = (
            f"it has lists under {', '.join(lists)}: write part = one of them" if lists else "write a list of objects"
        )
        name = f"no list under {source.part!r}" if source.part else "no list"
        raise UserError(f"{path} holds {name}", remedy)
    for number, value in enumerate(found, 1):
        yield Record(f"{path}, {source.part or 'record'} {number}", value)


def json_document(path: Path) -> Any:
    """A file that is one value of JSON."""
    try:
        return json.loads("\n".join(read_lines(path)))
    except json.JSONDecodeError as error:
        lines = error.msg == "Extra data"
        remedy = 'one object a line is format = "jsonl"' if lines else "is it cut off?"
        raise UserError(f"{path}, line {error.lineno} is not JSON: {error.msg}", remedy) from error
    except RecursionError as error:
        raise UserError(f"{path} is JSON nested too deeply") from error


def plain_lines(path: Path, source: Labelled) -> Iterator[Record]:
    """A text a line, after its label where it has one as fastText writes it: __label__NAME text."""
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            label, text = found.groups() if (found := FASTTEXT.match(line)) else (None, line)
            yield Record(f"{path}, line {number}", {"text": text, "label": label})


def trec_lines(path: Path, source: Labelled) -> Iterator[Record]:
    """COARSE:fine question. The label is COARSE where nothing is said; label = "fine" is COARSE:fine."""
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        if not (found := TREC.match(line)):
            raise UserError(f"{path}, line {number} has no class before its question", "write COARSE:fine question")
        fine, coarse, text = found.groups()
        yield Record(f"{path}, line {number}", {"text": text, "label": coarse, "coarse": coarse, "fine": fine})


def sentences(path: Path, source: Labelled) -> Iterator[Record]:
    """A word and its tag a line, columns between them are passed over; a blank line ends a sentence.

    Columns are separated by tabs where a line has any, else by blanks. -DOCSTART- begins a document and is no word.
    """
    for number, rows in _blocks(read_lines(path)):
        width = len(rows[0])
        for line, row in enumerate(rows, number):
            if len(row) != width or not all(row):
                raise UserError(
                    f"{path}, line {line} has {sum(map(bool, row))} columns, the first of its sentence {width}",
                    "write a word, a tab and its tag; a blank line between sentences",
                )
        header = ["words", *[""] * (width - 2), "tags"][:width]
        yield Record(f"{path}, line {number}", [list(column) for column in zip(*rows, strict=True)], header)


def _blocks(lines: Iterable[str]) -> Iterator[tuple[int, list[list[str]]]]:
    """Runs of lines that are not blank, cut into columns, with the number of the first."""
    block: list[list[str]] = []
    number = 0
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith(DOCUMENT):
            cells = line.split("\t") if "\t" in line else filter(None, line.split(" "))
            block.append([cell.strip() for cell in cells])
        elif block:
            yield number - len(block), block
            block = []
    if block:
        yield number - len(block) + 1, block


READERS: dict[str, Callable[[Path, Labelled], Iterator[Record]]] = {
    "csv": table,
    "tsv": table,
    "jsonl": json_lines,
    "json": json_list,
    "txt": plain_lines,
    "trec": trec_lines,
    "conll": sentences,
}
