"""Tables of `regard predict`: rows of data files in, predictions as .csv, .tsv, .json or JSON lines out.

A data file is read as the recipe reads its own files, by the columns of the recipe; its targets are not part of an
example. A row of output has the columns of its row of input, or the inputs of the example, and then the columns of the
prediction.
"""

import csv
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from regard.cli.screen import report, to_json
from regard.cli.streams import STDIO, check_one_input, open_output, regular_file
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.data.fields import Fields
    from regard.data.sources import Source
    from regard.tasks.base import AnyTask, Example, Prediction

PLAIN_ENDINGS = ("", ".txt")
PLAIN_FORMATS = ("lines", "documents", "dialogues")
"""Endings and formats of files in which every line is an example."""
NO_COLUMN = sys.maxsize
"""The number of a column that no table has."""
SPACES = str.maketrans("\t\n\r", "   ")
"""Characters that a cell of a .tsv file cannot have."""


@dataclass(frozen=True)
class Row:
    """A row of an input table: the names of its columns and its cells; or the keys and values of a JSON object."""

    header: list[str]
    cells: Sequence[object]


Write = Callable[["Row | None", "Example", "Prediction"], None]
"""Writes one prediction."""


# ---- input


def table_source(task: "AnyTask", name: str, settings: Mapping[str, object]) -> "Source | None":
    """How to read an input file by the recipe of a run and other `settings`; None if every line is an example."""
    from regard.data.formats import describe_sources
    from regard.data.records import file_ending
    from regard.run_files import SPLITS
    from regard.tasks.operations import file_sources

    fields, ending, source = task.recipe.fields, file_ending(name), None
    sources = [source for split in SPLITS for source in getattr(task.recipe.data, split)]
    known = {*fields.endings, *(file_ending(source.file) for source in sources if source.file)}
    if name != STDIO and ending in known and ending not in PLAIN_ENDINGS:
        source = file_sources(task, {"file": name, **settings})[0]
        source = None if fields.format_of(source) in PLAIN_FORMATS else without_target(source, fields)
    if source is None and settings:
        problem = f"{', '.join(f'--{key}' for key in settings)}: only for tables, but {name} is plain text"
        remedy = "leave the option out, or use a table, e.g. a .csv, .jsonl, .parquet or .xlsx file"
        raise UserError(problem, remedy, code="unsupported-option", where=next(iter(settings)))
    for line in [] if source is None else describe_sources([source], Path(), task.recipe.fields):
        report(line)
    return source


def check_lines(
    task: "AnyTask", name: str, remedy: str = "if each line is an input, name it FILE.txt, or write `< FILE`"
) -> None:
    """Raise a UserError unless an input of lines has no extension, .txt, a language code, or that of the run's data."""
    from regard.data.records import file_ending
    from regard.run_files import SPLITS

    ending, codes = "" if name == STDIO else file_ending(name), task.languages.codes if task.languages else ()
    sources = [source for split in SPLITS for source in getattr(task.recipe.data, split)]
    own = {file_ending(file) for source in sources for file in (source.file, source.src) if file}
    if ending not in {*PLAIN_ENDINGS, *(f".{code.lower()}" for code in codes), *own}:
        raise UserError(f"{name}: unknown file extension {ending}", remedy, code="unsupported-file", where=name)


def without_target(source: "Source", fields: "Fields") -> "Source":
    """The source without its column of targets, which need not be right or there at all."""
    has_column = fields.headed_tables and fields.target in fields.columns
    return source.model_copy(update={"columns": {**source.columns, fields.target: NO_COLUMN}}) if has_column else source


def read_rows(task: "AnyTask", source: "Source") -> "Iterator[tuple[Row | None, Example]]":
    """Each row of a table and its example; objects of JSON keep their other keys in the example."""
    from regard.data.formats import read_table

    for record, example in read_table(Path(source.file or ""), task.recipe.fields, source):
        if isinstance(record.value, dict):
            yield Row([*record.value], [*record.value.values()]), record.value | example
        elif isinstance(record.value, list):
            names = unique_names(record.header, len(record.value))
            pairs = zip(names, record.value, strict=True)
            cells = [cell if isinstance(cell, list) else cell_text(name, cell) for name, cell in pairs]
            yield Row(names, cells), example
        else:
            yield None, example


def count_rows(task: "AnyTask", source: "Source") -> int | None:
    """The number of rows of a table; None if it is a pipe, or damaged, which is an error when it is used."""
    try:
        return sum(1 for _ in read_rows(task, source)) if regular_file(str(source.file)) else None
    except UserError:
        return None


def read_texts(task: "AnyTask", name: str) -> "Iterator[Example] | None":
    """The texts of a table, for a text encoder; None if every line is a text."""
    from regard.data.fields import LABELLED_TEXT
    from regard.data.formats import read_table
    from regard.data.records import file_ending
    from regard.data.sources import Source

    ending = file_ending(name)
    if name == STDIO or ending in PLAIN_ENDINGS or ending not in LABELLED_TEXT.endings:
        return None
    if task.recipe.fields.required == ("text",) and "text" in task.recipe.fields.columns:
        source = table_source(task, name, {})
        return None if source is None else (example for _, example in read_rows(task, source))
    source = without_target(Source(file=name), LABELLED_TEXT)
    return (example for _, example in read_table(Path(name), LABELLED_TEXT, source))


def unique_names(header: Sequence[str], count: int) -> list[str]:
    """The names of `count` columns; a column without a name of its own has its number, from 1."""
    names = list(header) or [""] * count
    return [name if name and names.index(name) == index else str(index + 1) for index, name in enumerate(names)]


def column_settings(text: str, names: Collection[str]) -> dict[str, object]:
    """The settings that --columns means: "FIELD=COLUMN,...", or columns in the order of the fields `names`."""
    from regard.data.sources import column_setting

    settings: dict[str, object] = {}
    for index, item in enumerate(filter(None, text.split(","))):
        field, equals, column = item.rpartition("=")
        field = field.strip() if equals else next(iter(list(names)[index:]), "")
        if field not in names:
            problem = f"`--columns` names an unknown field {field!r}" if equals else "`--columns` has too many columns"
            remedy = f"use FIELD=COLUMN; the fields are {', '.join(names) or 'none for this task'}"
            raise UserError(problem, remedy, code="invalid-option", where="columns")
        if column_setting(field) in settings:
            problem, remedy = f"`--columns` names two columns for {field}", "name one; only recipes can join several"
            raise UserError(problem, remedy, code="invalid-option", where="columns")
        settings[column_setting(field)] = int(column) if column.strip().isdecimal() else column.strip()
    return settings


def make_source(name: str, columns: str) -> "Source":
    """One file with both sides, or two files separated by a comma."""
    from regard.data.fields import PAIRS
    from regard.data.settings import build_source

    src, comma, tgt = name.partition(",")
    if comma and not Path(name).exists():
        return build_source({"src": src, "tgt": tgt}, PAIRS, name)
    return build_source({"file": name} | column_settings(columns, PAIRS.columns), PAIRS, name)


# ---- output


def output_ending(name: str, task: "AnyTask", as_json: bool = False) -> str:
    """The format of predictions in an output: the file extension, or that of what is printed; a UserError if the task
    cannot write it. A task may have a format of its own, for example CoNLL-U, which is printed unless `as_json`."""
    from regard.data.records import file_ending

    form = task.file_format
    if name == STDIO or not (ending := file_ending(name)):
        return form.extension if form and form.on_stdout and name == STDIO and not as_json else ".jsonl"
    known = [".jsonl", ".json", ".csv", ".tsv", *([form.extension] if form else [])]
    if ending not in known:
        problem = f"predictions of task {task.name} cannot be written to {name}"
        raise UserError(problem, f"use one of {', '.join(known)}", code="unsupported-file", where=name)
    if as_json:
        check_one_input(**{"--json": as_json, f"--output {name}": ending != ".jsonl"})
    return ending


@contextmanager
def open_results(name: str, task: "AnyTask", as_json: bool = False) -> "Iterator[Write]":
    """Write predictions in the format that the output's name says (`output_ending`)."""
    ending = output_ending(name, task, as_json)
    with open_output(name) as stream:
        if ending in (".csv", ".tsv"):
            yield TableWriter(stream, task, ending).write
        elif ending == ".json":
            separator = "[\n"

            def write_item(row: Row | None, example: "Example", prediction: "Prediction") -> None:
                nonlocal separator
                stream.write(separator + result_line(task, row, example, prediction))
                separator = ",\n"

            yield write_item
            stream.write("[]\n" if separator == "[\n" else "\n]\n")
        elif (form := task.file_format) and ending == form.extension:
            yield lambda _, example, prediction: print(
                form.write(example | prediction), end="", file=stream, flush=True
            )
        else:
            yield lambda *result: print(result_line(task, *result), file=stream, flush=True)


def result_line(task: "AnyTask", row: Row | None, example: "Example", prediction: "Prediction") -> str:
    """One JSON object: the columns of the row, the example and the prediction. What the input has, e.g. a label, stays:
    a prediction of the same name is predicted_NAME."""
    cells = {} if row is None else dict(zip(row.header, row.cells, strict=False))
    given, inputs = cells | example, task.recipe.fields.required
    output = {
        f"predicted_{name}" if name in given and name not in inputs else name: value
        for name, value in task.output(prediction).items()
    }
    return to_json(given | output)


class TableWriter:
    """Rows of a .csv file, quoted where needed, or of a .tsv file, in which a tab or line end in a cell is a space."""

    def __init__(self, stream: TextIO, task: "AnyTask", ending: str) -> None:
        self._stream, self._task, self._columns = stream, task, list[str]()
        quoted = csv.writer(stream, lineterminator="\n")
        self._print = quoted.writerow if ending == ".csv" else self._print_tsv

    def write(self, row: Row | None, example: "Example", prediction: "Prediction") -> None:
        """Write one row; the header before the first one."""
        from regard.tasks.operations import input_keys, output_columns

        values: dict[str, object] = {name: example.get(name) for name in input_keys(self._task)} | example
        if row is not None:
            values = dict(zip(row.header, row.cells, strict=False))
        values |= output_columns(self._task, prediction)
        if not self._columns:
            self._columns = list(values)
            self._print(self._columns)
        if unknown := values.keys() - set(self._columns):
            problem = f"an output has {', '.join(sorted(unknown))}, which is not a column of the first output"
            remedy = "write JSON lines instead: `--output FILE.jsonl`"
            raise UserError(problem, remedy, code="bad-record", where=min(unknown))
        self._print([cell_text(name, values.get(name)) for name in self._columns])

    def _print_tsv(self, cells: list[str]) -> None:
        self._stream.write("\t".join(cell.translate(SPACES) for cell in cells) + "\n")


def cell_text(name: str, value: object) -> str:
    """A value as a cell: words, tags, heads and relations with spaces between them, other lists and objects as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and name.removeprefix("predicted_") in ("words", "tags", "heads", "relations"):
        return " ".join(map(str, value))
    return to_json(value).replace("null", "") if isinstance(value, float) else to_json(value)
