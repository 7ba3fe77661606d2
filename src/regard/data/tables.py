"""Tables, .csv and .tsv: what separates cells, and whether the first row names the columns.

    delimiter   as given; .tsv: tab; .csv: the one of , ; tab | that splits most of the first rows into equally many
                cells
    header      as given; true for labelled data and if a column is given by name; for other pairs, true if the first
                row consists of words of a header: src, source, tgt, target, en, de, English, ...
    columns     of pairs: as given; else those named src or source and tgt or target; else 1 and 2

A .csv with more than two columns has no default for the columns of pairs. All that is guessed can be reported
(`describe_table`).
"""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from regard.data.records import TABLES, CsvRow, Location, Record, SourceFiles, csv_rows
from regard.errors import UserError
from regard.messages import Message, join_messages

DELIMITERS = ",;\t|"
"""What may separate the cells of a .csv; of two that fit equally well the first is taken."""
PROBE_LINES, PROBE_CHARACTERS = 200, 1 << 20
"""The beginning of a table, which decides how it is read."""
SIDES = {"src": {"src", "source"}, "tgt": {"tgt", "trg", "target", "translation"}}
"""Names of the columns of pairs."""
NUMBERING = {"id", "index", "idx"}
LANGUAGES = frozenset(TABLES["languages"]["codes"] + TABLES["languages"]["names"])


@dataclass(frozen=True)
class TableLayout:
    """How a table is read."""

    delimiter: str
    quoted: bool
    header: bool
    first: Sequence[str]
    """The cells of the first row; a header has no spaces around its names."""


def read_rows(files: SourceFiles, kind: str) -> Iterator[Record]:
    """The rows of a csv or tsv file."""
    path, lines = files.paths[0], files.lines()
    head, complete = beginning(lines)
    layout = choose_layout(files, kind, head, complete)
    check_columns(files, kind, layout)
    lines = chain(head, lines)
    cells = (line.split(layout.delimiter) if line else [] for line in lines)
    split = (CsvRow(number, row) for number, row in enumerate(cells, 1))
    rows = csv_rows(lines, path, layout.delimiter, bool(files.source.quoted)) if layout.quoted else split
    before_header, account = layout.header, files.account
    for number, row, line_count in rows:
        account.read += 1
        account.joined += line_count > 1
        if not row or (len(row) < len(layout.first) and not row[0].strip() and len(row) == 1):
            account.drop("blank")
        elif before_header:
            before_header = False
            account.drop("header")
        else:
            check_row(row, layout, Location(path, number))
            yield Record(Location(path, number), row, layout.first if layout.header else ())


def check_row(row: Sequence[str], layout: TableLayout, location: Location) -> None:
    """Raise UserError if a row does not fit the first one, or shows that files were joined."""
    if layout.header and [cell.strip() for cell in row] == layout.first:
        raise location.error("repeats the header", "remove the line: two files were joined")
    if len(row) != len(layout.first):
        raise location.error(
            f"has {len(row)} column{'s' * (len(row) != 1)}, the first row {len(layout.first)}",
            f"columns are separated by {show(layout.delimiter)}: delimiter = ... sets another character; quoted = "
            "true or false decides if quotation marks enclose a cell",
        )
    if row[0].startswith("\ufeff"):
        raise location.error("begins with a byte order mark", "remove the three bytes: two files were joined")
    if not layout.quoted and any("\r" in cell for cell in row):
        raise location.error("contains a carriage return", "end every line alike: tr '\\r' '\\n' < FILE > NEW")


def beginning(lines: Iterator[str]) -> tuple[list[str], bool]:
    """The first lines of a table, and True if they are all of it."""
    head: list[str] = []
    size = 0
    for line in islice(lines, PROBE_LINES):
        head.append(line)
        size += len(line)
        if size > PROBE_CHARACTERS:
            return head, False
    return head, len(head) < PROBE_LINES


def choose_layout(files: SourceFiles, kind: str, head: Sequence[str], complete: bool) -> TableLayout:
    """How to read a table with these first lines."""
    source = files.source
    quoted = source.quoted if source.quoted is not None else kind == "csv"
    guessed = guess_delimiter(head, quoted, complete) if kind == "csv" and source.delimiter is None else "\t"
    delimiter = source.delimiter or guessed
    return choose_header(next(_cells(head, delimiter, quoted), []), files.header, delimiter, quoted)


def choose_header(first: Sequence[str], header: bool | None, delimiter: str = "", quoted: bool = True) -> TableLayout:
    """The layout of a table with this first row, which decides itself if `header` is None."""
    header = is_header(first) if header is None else header
    return TableLayout(delimiter, quoted, header, [name.strip() for name in first] if header else first)


def guess_delimiter(head: Sequence[str], quoted: bool = True, complete: bool = True) -> str:
    """The delimiter that splits the most rows into one common number of cells, two or more.

    Of two that split equally many, the one after which fewer cells begin with a space, as after a comma in a sentence.
    """

    def fitness(delimiter: str) -> tuple[int, int]:
        rows = list(_cells(head, delimiter, quoted))
        if not complete and len(rows) > 1:
            rows.pop()  # the last row may continue after the last line
        widths = Counter(len(row) for row in rows if len(row) > 1)
        return max(widths.values(), default=0), -sum(cell.startswith(" ") for row in rows for cell in row)

    return max(DELIMITERS, key=fitness)  # the first of the best


def _cells(head: Iterable[str], delimiter: str, quoted: bool) -> Iterator[list[str]]:
    """The rows of the first lines, without blank ones; they end before a row that is not valid."""
    if not quoted:
        yield from (line.split(delimiter) for line in head if line.strip())
        return
    reader = csv.reader((line + "\n" for line in head), delimiter=delimiter)
    try:
        yield from filter(None, reader)
    except csv.Error:
        return


# ---- pairs


def is_header(cells: Sequence[str]) -> bool:
    """True if the first row of a table of pairs names its columns.

    Both of two cells are words of a header; of more cells, one names a side or a numbering, or two name languages. A
    single cell names the source.
    """
    words = {cell.strip().casefold() for cell in cells}
    languages = {word for word in words if word.replace("_", "-").partition("-")[0] in LANGUAGES}
    others = words & {*SIDES["src"], *SIDES["tgt"], *NUMBERING}
    if len(cells) == 1:
        return words <= SIDES["src"]
    if len(cells) == 2:
        return len(words) == 2 and words == languages | others
    return len(cells) > 2 and (bool(others) or len(languages) > 1)


def find_sides(header: Sequence[str]) -> tuple[str, str] | None:
    """The names of the source and the target column in a header; None if it does not name both."""
    columns = [next((name for name in header if name.casefold() in names), None) for names in SIDES.values()]
    return (columns[0], columns[1]) if columns[0] is not None and columns[1] is not None else None


def check_columns(files: SourceFiles, kind: str, layout: TableLayout) -> None:
    """Raise UserError if it is not clear which columns are meant: of equal names, or of the further ones of pairs."""
    given, named = [column for _, column in files.source.given_columns()], list(filter(None, layout.first))
    by_name = layout.header and (not given or any(isinstance(column, str) for column in given))
    if by_name and (twice := next((name for name in named if named.count(name) > 1), "")):
        problem, remedy = f"has two columns {twice!r}", "rename one of them, or give the columns by number, from 1"
        raise Location(files.paths[0], 1).error(problem, remedy, "ambiguous-columns")
    if not files.pairs or files.source.columns or len(layout.first) < 3:
        return
    known = layout.header and find_sides(layout.first) is not None
    if not known and (kind == "csv" or (layout.header and files.header is None)):
        names = ", ".join(map(repr, layout.first))
        raise UserError(
            f"{files.paths[0]} has {len(layout.first)} columns separated by {show(layout.delimiter)}: {names:.200}",
            "set src_column and tgt_column to a number from 1 or a name in the first row (in commands: `--columns "
            'SRC,TGT`); or set delimiter = "...", if a different character separates columns',
            code="ambiguous-columns",
            where=files.paths[0],
        )


# ---- reports


def describe_table(files: SourceFiles, kind: str) -> str:
    """What was guessed about a table; empty if nothing was."""
    source = files.source
    lines = files.lines()
    layout = choose_layout(files, kind, *beginning(lines))
    check_columns(files, kind, layout)
    parts = []
    if kind == "csv" and source.delimiter is None and layout.delimiter != ",":
        parts.append(Message("columns are separated by {delimiter}", delimiter=show(layout.delimiter)))
    if files.pairs and files.header is None and layout.header:
        parts.append(Message("the first row is a header ({names:.100})", names=", ".join(layout.first)))
    if files.pairs and not source.columns:
        sides = find_sides(layout.first) if layout.header else None
        if sides is not None:
            parts.append(Message("src is column {src!r}, tgt is column {tgt!r}", src=sides[0], tgt=sides[1]))
        elif len(layout.first) > 2:
            parts.append(Message("src is column 1 and tgt column 2 of {count}", count=len(layout.first)))
    if files.pairs and kind == "csv" and files.header is None and not layout.header:
        parts.append(Message("no header; the first row is {cells:.100}", cells=" | ".join(layout.first)))
    return Message("{key}: {value}", key=files.paths[0].name, value=join_messages("; ", parts)) if parts else ""


def show(delimiter: str) -> str:
    """A delimiter for people."""
    return Message("tab") if delimiter == "\t" else repr(delimiter)
