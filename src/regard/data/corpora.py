"""Reading parallel corpora as a stream of pairs, with every defect of a file named by its line.

A line ends at "\\n" and nowhere else: the other line breaks of Unicode occur inside sentences, and a reader that
splits there gets two files out of step.
"""

import csv
import json
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from pydantic import model_validator

from regard.config import Field, Settings
from regard.data import builtin, dialogues
from regard.data.digests import Digests
from regard.errors import UserError
from regard.files import open_binary
from regard.trees import Leaves, as_pair, cleaned, numbered

LONGEST_LINE = 1 << 26  # bytes; a line beyond it is no text, and would not fit in memory a thousand times
TREEBANK = (".ptb", ".mrg", ".tree", ".trees")  # how a file of trees may end


class Pair(NamedTuple):
    """A sentence, its translation, and the line of the file it begins on."""

    src: str
    tgt: str
    line: int


class Corpus(Settings):
    """One corpus of pairs: two line-aligned files, one with two columns, one of dialogues, or one the toolkit makes."""

    src: str | None = Field(default=None, description="file with one source sentence a line (.gz and .xz are read too)")
    tgt: str | None = Field(default=None, description="file with the translation of each line of src")
    file: str | None = Field(
        default=None, description="one file with both sides: .tsv, .txt (tabs), .csv or .jsonl; or trees: .ptb"
    )
    src_column: int | str | None = Field(
        default=None, description='source column of file: a number from 0, or a name in its header (.jsonl: key, "src")'
    )
    tgt_column: int | str | None = Field(
        default=None, description='target column of file: a number from 0, or a name in its header (.jsonl: key, "tgt")'
    )
    dialogue: str | None = Field(
        default=None, description="a file of conversations, one turn a line, a blank line between them: turns -> reply"
    )
    context: int | None = Field(
        default=None, ge=1, description="how many turns of a dialogue are read before each reply; 1 where not said"
    )
    leaves: Leaves = Field(
        default="XX",
        description="of trees: what is written in the place of a word: XX (Vinyals et al. 2015), its tag, or the word",
    )
    builtin: Literal["dates", "numbers", "trees"] | None = Field(
        default=None, description="a corpus made by the toolkit"
    )
    part: Literal["train", "valid", "test"] | None = Field(
        default=None, description="which part of a builtin corpus, or of the dialogues (all of them where not said)"
    )

    @model_validator(mode="after")
    def _one_form(self) -> "Corpus":
        aligned = self.src is not None or self.tgt is not None
        if aligned + sum(form is not None for form in (self.file, self.dialogue, self.builtin)) != 1:
            raise ValueError(
                "a corpus is either src and tgt (two files), or file (one file), or dialogue, or builtin and part"
            )
        if (self.src is None) != (self.tgt is None):
            raise ValueError(f"{'src' if self.src is None else 'tgt'} is missing: src and tgt are two files of a pair")
        if self.dialogue is None and (self.builtin is None) != (self.part is None):
            raise ValueError('builtin and part go together: builtin = "dates", part = "train"')
        if self.dialogue is None and self.context is not None:
            raise ValueError("context counts the turns of a dialogue, which is not given")
        if self.file is None and (self.src_column is not None or self.tgt_column is not None):
            raise ValueError("src_column and tgt_column choose columns of file, which is not given")
        if self.leaves != "XX" and (self.file is None or ending(self.file) not in TREEBANK):
            raise ValueError("leaves is of trees in a file, which is not given")
        if self.file is not None:
            _reader(self)
        return self

    def files(self, root: Path) -> list[Path]:
        """The files it is read from; ~ is the home, ~somebody who is not there is a name as any other."""
        names = (name for name in (self.src, self.tgt, self.file, self.dialogue) if name is not None)
        return [root / os.path.expanduser(name) for name in names]  # noqa: PTH111

    @property
    def turns(self) -> int:
        """How many turns are read before a reply."""
        return self.context or 1

    def __str__(self) -> str:
        name = self.file or (f"{self.src} + {self.tgt}" if self.src else self.dialogue or self.builtin)
        return f"{name} ({self.part})" if self.part else f"{name}"


def read_pairs(corpus: Corpus, root: Path) -> Iterator[Pair]:
    """The pairs of a corpus in order, read as they are asked for; there is at least one."""
    pair = None
    for pair in _open(corpus, root):
        yield pair
    if pair is None:
        raise UserError(f"{', '.join(map(str, corpus.files(root)))} holds no pair", "a corpus needs at least one")


def _open(corpus: Corpus, root: Path) -> Iterator[Pair]:
    if corpus.builtin is not None and corpus.part is not None:
        made = builtin.pairs(corpus.builtin, corpus.part)
        return (Pair(src, tgt, number) for number, (src, tgt) in enumerate(made, 1))
    if corpus.file is not None:
        return _reader(corpus)(corpus.files(root)[0], corpus)
    if corpus.dialogue is not None:
        (path,) = corpus.files(root)
        return (Pair(*row) for row in dialogues.pairs(read_lines(path), path, corpus.part, corpus.turns))
    return _read_aligned(*corpus.files(root))


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, of which there is at least one."""
    line = None
    with open_binary(path) as stream:
        for line in decode_lines(stream, path):
            yield line
    if line is None:
        raise UserError(f"{path} is empty", "a corpus needs at least one line")


def decode_lines(stream: BinaryIO, name: str | Path) -> Iterator[str]:
    """The lines of a UTF-8 stream without their ends; a byte order mark at its start is dropped."""
    offset = 0
    for number, raw in enumerate(_raw_lines(stream, name), 1):
        if len(raw) > LONGEST_LINE:
            raise UserError(f"{name}, line {number} is longer than {LONGEST_LINE} bytes", "is this a text file?")
        line = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            place = offset + len(raw) - len(line) + error.start
            problem = f"{name}, line {number} is not UTF-8: byte {line[error.start]:#04x} at offset {place}"
            remedy = "convert it: iconv -f LATIN1 -t UTF-8 (or -f UTF-16, whatever it is written in)"
            raise UserError(problem, remedy) from error
        offset += len(raw)


def _raw_lines(stream: BinaryIO, path: str | Path) -> Iterator[bytes]:
    try:
        while line := stream.readline(LONGEST_LINE + 1):
            yield line
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        remedy = "it is cut off or corrupt; copy or download it again"
        raise UserError(f"{path} cannot be read to its end: {error}", remedy) from error


def _read_aligned(src_path: Path, tgt_path: Path) -> Iterator[Pair]:
    """Line n of one file is the translation of line n of the other; a line without a partner is an error."""
    src_lines, tgt_lines = read_lines(src_path), read_lines(tgt_path)
    for number, (src, tgt) in enumerate(zip_longest(src_lines, tgt_lines), 1):
        if src is None or tgt is None:
            rest = number + sum(1 for _ in (src_lines if tgt is None else tgt_lines))
            src_count, tgt_count = (rest, number - 1) if tgt is None else (number - 1, rest)
            raise UserError(
                f"{src_path} has {src_count} lines but {tgt_path} has {tgt_count}",
                "line n of one must be the translation of line n of the other",
            )
        yield Pair(src, tgt, number)


def _read_tabs(path: Path, corpus: Corpus) -> Iterator[Pair]:
    rows = ((number, line.split("\t")) for number, line in enumerate(read_lines(path), 1))
    return _pick_columns(rows, path, corpus)


def _read_csv(path: Path, corpus: Corpus) -> Iterator[Pair]:
    return _pick_columns(csv_rows(path), path, corpus)


def csv_rows(path: Path, separator: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Rows with the line each begins on: a quoted field may span lines. A blank line is no row."""
    reader = csv.reader((line + "\n" for line in read_lines(path)), delimiter=separator)
    while True:
        number = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise UserError(
                f"{path}, line {number} is not valid CSV: {error}", "is a quotation mark not closed?"
            ) from error
        if row is None:
            return
        if row:
            yield number, row


def _pick_columns(rows: Iterable[tuple[int, list[str]]], path: Path, corpus: Corpus) -> Iterator[Pair]:
    chosen: list[int | str] = [
        0 if corpus.src_column is None else corpus.src_column,
        1 if corpus.tgt_column is None else corpus.tgt_column,
    ]
    rows = iter(rows)
    if any(isinstance(column, str) for column in chosen):
        header = next(rows, (0, []))[1]
        chosen = [_position(column, header, path) for column in chosen]
    src, tgt = (int(column) for column in chosen)
    for number, row in rows:
        if len(row) <= max(src, tgt):
            remedy = f"columns {src} and {tgt} (counted from 0) are read; check what separates columns"
            raise UserError(f"{path}, line {number} has {len(row)} column{'s' * (len(row) != 1)}", remedy)
        yield Pair(row[src], row[tgt], number)


def _position(column: int | str, header: Sequence[str], path: Path) -> int:
    if isinstance(column, int):
        return column
    if column not in header:
        raise UserError(f"{path} has no column {column!r}", f"its first line names {', '.join(header)}")
    return header.index(column)


def _read_json_lines(path: Path, corpus: Corpus) -> Iterator[Pair]:
    keys = [corpus.src_column or "src", corpus.tgt_column or "tgt"]
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}, line {number} is not JSON: {error}", "write one object a line") from error
        sides = [record.get(key) if isinstance(record, dict) else None for key in keys]
        for key, side in zip(keys, sides, strict=True):
            if not isinstance(side, str):
                found = f"the keys {', '.join(record)}" if isinstance(record, dict) else type(record).__name__
                problem = f"{path}, line {number} has no text under the key {key!r}"
                raise UserError(problem, f"it holds {found}; write one object a line, and name its keys in src_column")
            refuse_surrogates(side, f"{path}, line {number}")
        yield Pair(str(sides[0]), str(sides[1]), number)


def _read_trees(path: Path, corpus: Corpus) -> Iterator[Pair]:
    """The words of every tree and its tokens; a tree of nothing but traces has no words, and is none."""
    for number, tree in numbered(read_lines(path), str(path)):
        if (clean := cleaned(tree)) is not None:
            yield Pair(*as_pair(clean, corpus.leaves), number)


def refuse_surrogates(text: str, place: str) -> None:
    """Half of a surrogate pair, which JSON can hold, is no text; `place` says where it stands."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problem = f"{place} holds half of a surrogate pair, {text[error.start]!a}"
        raise UserError(problem, "repair the text: surrogates are no characters") from error


def _reader(corpus: Corpus) -> Callable[[Path, Corpus], Iterator[Pair]]:
    """The reader for a file's ending, .gz and .xz aside; a ValueError where the columns do not suit it."""
    path, suffix = Path(corpus.file or ""), ending(corpus.file or "")
    columns = [column for column in (corpus.src_column, corpus.tgt_column) if column is not None]
    if any(isinstance(column, int) and column < 0 for column in columns):
        raise ValueError("columns are counted from 0")
    if suffix in (".tsv", ".txt"):
        return _read_tabs
    if suffix == ".csv":
        return _read_csv
    if suffix in (".jsonl", ".json"):
        if any(isinstance(column, int) for column in columns):
            raise ValueError('the columns of a .jsonl file are keys: src_column = "src"')
        return _read_json_lines
    if suffix in TREEBANK:
        if columns:
            raise ValueError("a file of trees has no columns; leave src_column and tgt_column out")
        return _read_trees
    raise ValueError(f"file must end in .tsv, .txt, .csv, .jsonl or .ptb (.gz or .xz after it), not {path.name!r}")


def ending(name: str) -> str:
    """How a file's name ends, .gz and .xz aside."""
    path = Path(name)
    return Path(path.stem).suffix if path.suffix in (".gz", ".xz") else path.suffix


def identify(corpus: Corpus, root: Path, digests: Digests) -> str:
    """What a corpus holds: the content of its files and how they are read, whatever they are called."""
    if corpus.builtin is not None and corpus.part is not None:
        return builtin.fingerprint(corpus.builtin, corpus.part)
    for path in corpus.files(root):
        open_binary(path).close()  # a missing or unreadable file is named
    contents = [digests.of(path) for path in corpus.files(root)]
    endings = ["".join(path.suffixes[-2:]) for path in corpus.files(root)]
    if corpus.dialogue is not None:
        return repr((contents, endings, dialogues.fingerprint(corpus.part, corpus.turns)))
    return repr((contents, endings, corpus.src_column, corpus.tgt_column))
