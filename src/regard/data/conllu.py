"""CoNLL-U, the format of Universal Dependencies: a line for each word, a blank line after each sentence.

    # text = The dogs slept.
    1   The     the     DET     DT    Definite=Def   2   det     _   _
    2   dogs    dog     NOUN    NNS   Number=Plur    3   nsubj   _   _
    3   slept   sleep   VERB    VBD   Tense=Past     0   root    _   SpaceAfter=No
    4   .       .       PUNCT   .     _              3   punct   _   _

Ten columns with tabs between them: number, form, lemma, universal part of speech, part of speech of the language,
features, number of the head (0: the root of the sentence), relation to the head, further dependencies, anything else.
"_" is an empty column. Lines with # are comments.

Two kinds of lines are not words, and they are skipped as in the official evaluation: a range (3-4) is a token that is
written as one and consists of the words below it; a number with a point (5.1) is a word that is not written.

Nivre et al. 2020, "Universal Dependencies v2"; https://universaldependencies.org/format.html
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path

from regard.data.records import Location, Record, SourceFiles

COLUMNS = ("", "words", "lemmas", "tags", "xpos", "features", "heads", "relations", "", "")
"""The field of each column; "" for a column that is not read."""
SKIPPED = re.compile(r"[0-9]+(-[0-9]+|\.[0-9]+)")
EMPTY = "_"
BLANKS = str.maketrans("\t\n\r", "   ")
"""Characters that a cell cannot have."""

Row = tuple[int, list[str]]
"""The number of a line, and its ten cells."""


def read_conllu(files: SourceFiles) -> Iterator[Record]:
    """The sentences of a file as lists of equal length: words, lemmas, tags, xpos, features, heads, relations.

    A list that is empty for all words is left out, for example the heads of a text that is not parsed.
    """
    path = files.paths[0]
    for rows in sentences(files.lines(), path):
        numbers, cells = zip(*rows, strict=True)
        lists = dict(zip(COLUMNS, map(list, zip(*cells, strict=True)), strict=True))
        filled = {name: values for name, values in lists.items() if name and set(values) != {EMPTY}}
        heads = filled.get("heads", [])
        for number, head in zip(numbers, heads, strict=False):
            if not (head.isascii() and head.isdecimal() and int(head) <= len(heads)):
                remedy = f"write the number of a word, 1 to {len(heads)}, or 0 for the root"
                raise Location(path, number).error(f"has the head {head!r}, which is not a word", remedy)
        yield files.record(Location(path, numbers[0]), {"words": lists["words"], **filled})


def sentences(lines: Iterable[str], path: Path) -> Iterator[list[Row]]:
    """The words of each sentence."""
    rows: list[Row] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            if rows:
                yield rows
            rows = []
        elif not line.startswith("#"):
            cells = line.rstrip("\r").split("\t")
            if len(cells) != len(COLUMNS) or not all(cell.strip() for cell in cells):
                problem = f"has {sum(bool(cell.strip()) for cell in cells)} columns, not {len(COLUMNS)}"
                remedy = 'write ten columns with tabs between them, "_" for an empty one'
                raise Location(path, number).error(problem, remedy)
            if SKIPPED.fullmatch(cells[0]):
                continue
            rows.append((number, cells))
            if cells[0] != str(len(rows)):
                problem, remedy = f"has the word number {cells[0]!r}, not {len(rows)}", "number words from 1"
                raise Location(path, number).error(problem, remedy)
    if rows:
        yield rows


def to_conll(sentence: Mapping[str, Sequence[object]]) -> str:
    """A sentence as a word, a tab and its tag per line, with the blank line at its end."""
    rows = zip(sentence["words"], sentence["tags"], strict=True)
    return "".join(f"{str(word).translate(BLANKS)}\t{tag}\n" for word, tag in rows) + "\n"


def to_conllu(sentence: Mapping[str, Sequence[object]]) -> str:
    """A sentence with some of the lists of `read_conllu` as CoNLL-U, with the blank line at its end."""
    words = sentence["words"]
    cells = [range(1, len(words) + 1), *(sentence.get(name, repeat(EMPTY, len(words))) for name in COLUMNS[1:])]
    rows = ("\t".join(str(cell).translate(BLANKS) for cell in row) for row in zip(*cells, strict=True))
    return "".join(f"{row}\n" for row in rows) + "\n"
