"""Lines of UTF-8 text files, with the line number of every defect.

A line ends at "\\n" and nowhere else: the other line breaks of Unicode occur inside sentences, and a reader that
splits there would put two aligned files out of step.
"""

import csv
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

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
            raise UserError(
                f"{name}, line {number} is longer than {MAX_LINE_BYTES} bytes",
                "check that it is a text file",
                code="bad-line",
                where=f"{name}:{number}",
            )
        line = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            position = offset + len(raw) - len(line) + error.start
            raise UserError(
                f"{name}, line {number} is not UTF-8: byte {line[error.start]:#04x} at offset {position}",
                "convert the file: iconv -f LATIN1 -t UTF-8 (or -f UTF-16, or the encoding it has)",
                code="not-utf8",
                where=f"{name}:{number}",
            ) from error
        offset += len(raw)


def _raw_lines(stream: BinaryIO, path: str | Path) -> Iterator[bytes]:
    try:
        while line := stream.readline(MAX_LINE_BYTES + 1):
            yield line
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise UserError(
            f"{path} cannot be read to its end: {error}",
            "the file is truncated or corrupt; copy or download it again",
            code="damaged-file",
            where=path,
        ) from error


def csv_rows(lines: Iterable[str], path: Path, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Rows of quoted cells with the line each begins on: a quoted cell may span lines. A blank line is not a row."""
    reader = csv.reader((line + "\n" for line in lines), delimiter=delimiter)
    while True:
        number = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise UserError(
                f"{path}, line {number} is not valid CSV: {error}",
                "check that every quotation mark is closed",
                code="bad-line",
                where=f"{path}:{number}",
            ) from error
        if row is None:
            return
        if row:
            yield number, row


def file_ending(name: str) -> str:
    """The suffix of a file name, .gz and .xz aside, in lower case."""
    path = Path(name)
    return (Path(path.stem).suffix if path.suffix in (".gz", ".xz") else path.suffix).lower()
