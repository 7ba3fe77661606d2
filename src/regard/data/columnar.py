"""Tables with types: Parquet, Arrow (Feather, IPC), folders that the library `datasets` saved, and XLSX.

Each row is a record with a header, as a row of a .csv is. A cell is a value of JSON; an empty one and NaN are None.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, time
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from regard.data.records import Location, Record, SourceFiles
from regard.data.tables import TableLayout, check_columns, check_row, choose_header
from regard.errors import UserError
from regard.files import open_binary, open_zip

ROWS = 4096
"""Rows that are in memory at a time."""
MAX_UNZIPPED = 1 << 30
"""Bytes of the largest workbook, unzipped."""


@contextmanager
def _reading(path: Path, *packages: str) -> Iterator[tuple[BinaryIO, list[Any]]]:
    """Open a file for a library, and import the packages; whatever the library cannot read is a UserError."""
    extra = "excel" if packages[0] == "openpyxl" else "arrow"
    try:
        modules = [import_module(name) for name in packages]
    except ImportError as error:
        problem, remedy = f"{path} needs the package {packages[0]}", f"pip install 'regard[{extra}]'"
        raise UserError(problem, remedy, code="missing-package", where=packages[0]) from error
    try:
        with open_binary(path) as stream:
            if not stream.seekable():
                raise Location(path).error("cannot be read while it is compressed", "decompress it", "damaged-file")
            yield stream, modules
    except UserError:
        raise
    except Exception as error:  # these libraries raise KeyError, TypeError and many others for damaged files
        problem = f"cannot be read: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        raise Location(path).error(problem, "the file is damaged; write it again", "damaged-file") from error


def read_parquet(files: SourceFiles) -> Iterator[Record]:
    """The rows of a Parquet file."""
    with _reading(files.paths[0], "pyarrow.parquet") as (stream, (parquet,)):
        table = parquet.ParquetFile(stream, page_checksum_verification=True)
        yield from _rows(files, files.paths[0], table.iter_batches(ROWS))


def read_arrow(files: SourceFiles) -> Iterator[Record]:
    """The rows of Arrow files, one after another: in the file format (Feather) or in the stream format."""
    for path in files.paths:
        if path.name.endswith(".json"):  # of `datasets`
            continue
        with _reading(path, "pyarrow.ipc") as (stream, (ipc,)):
            is_file = stream.read(6) == b"ARROW1"
            stream.seek(0)
            reader = ipc.open_file(stream) if is_file else ipc.open_stream(stream)
            batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
            yield from _rows(files, path, batches)


def _rows(files: SourceFiles, path: Path, batches: Iterable[Any]) -> Iterator[Record]:
    """The rows of record batches."""
    number = 0
    for batch in batches:
        batch.validate(full=True)
        layout = TableLayout("", True, True, batch.schema.names)
        check_columns(files, "arrow", layout)
        for start in range(0, batch.num_rows, ROWS):
            for cells in zip(*(column.slice(start, ROWS).to_pylist() for column in batch.columns), strict=True):
                number += 1
                location = Location(path, number, "row")
                yield files.record(location, [_value(cell, location) for cell in cells], layout.first)


def read_xlsx(files: SourceFiles) -> Iterator[Record]:
    """The rows of a sheet of an XLSX workbook; formulas have the values that Excel saved."""
    path = files.paths[0]
    with _reading(path, "openpyxl") as (stream, (openpyxl,)):
        if sum(member.file_size for member in open_zip(path, stream).infolist()) > MAX_UNZIPPED:
            problem, remedy = f"has more than {MAX_UNZIPPED:,} bytes unzipped", "save the sheet as .csv"
            raise Location(path).error(problem, remedy, "too-large")
        book = openpyxl.load_workbook(stream, read_only=True, data_only=True)
        layout = None
        for number, row in enumerate(_sheet(book, files).iter_rows(), 1):
            location = Location(path, number, "row")
            cells = [_value(cell.value, location, cell.data_type) for cell in row]
            while cells and cells[-1] is None and (layout is None or len(cells) > len(layout.first)):
                cells.pop()
            files.account.read += 1
            texts = ["" if cell is None else str(cell) for cell in cells]
            if not any(text.strip() for text in texts):
                files.account.drop("blank")
            elif layout is None:
                layout = choose_header(texts, files.header)
                check_columns(files, "csv", layout)
                if layout.header:
                    files.account.drop("header")
                else:
                    yield Record(location, cells)
            else:
                padding = len(layout.first) - len(cells)
                check_row([*texts, *[""] * padding], layout, location)
                yield Record(location, cells + [None] * padding, layout.first if layout.header else ())


def _sheet(book: Any, files: SourceFiles) -> Any:
    """The sheet that the source names, or the only one."""
    sheet, names = files.source.sheet, [sheet.title for sheet in book.worksheets]
    if (sheet is None and len(names) != 1) or (sheet is not None and sheet not in names):
        problem = f"has no sheet {sheet!r}" if sheet is not None else f"has {len(names)} sheets"
        remedy = f"set `sheet` to one of {', '.join(map(repr, names))}"
        raise Location(files.paths[0]).error(problem, remedy, "unknown-sheet")
    return book[sheet or names[0]]


def _value(value: object, location: Location, kind: str = "") -> object:
    """A cell as a value of JSON; a UserError if it is none."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        if "\0" in value:
            raise location.error("contains the character U+0000", "remove it", "nul-character")
        if kind == "e":
            raise location.error(f"has the error {value} in a cell", "correct the formula")
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _value(item, location) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [_value(item, location) for item in value]
    if isinstance(value, (date, time, Decimal)):
        return str(value)
    raise location.error(f"has a cell of type {type(value).__name__}, which is not text", "convert it to text")
