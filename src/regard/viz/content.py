"""What a page, a report, a terminal or a log shows, as plain values: tables, and descriptions of predictions.

A description consists of blocks. A block is a string or one of the classes below: `plain` is its text for a log,
`to_json` is for a page, and a terminal draws it with viz/panel.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from regard.files import JsonObject
from regard.trees import Tree
from regard.viz.arcs import arcs_svg, arcs_text
from regard.viz.tree import tree_svg, tree_text, with_tags

Cell = str | float
MAX_CHARACTERS = 200
EXCERPT_CHARACTERS, ELLIPSIS = 160, "… "
"""Characters of a text in a log, and of the text on either side of a mark in a report."""
FORMATS = {"text": "", "count": ",", "percent": ".2f", "number": ",.4g"}
"""The kinds of columns, and how a terminal writes their cells."""


@dataclass(frozen=True)
class Table:
    """A table: a title, the kind of every column by its name, and rows of cells.

    A column is text, count (a whole number), percent (0 to 100, drawn as a bar on the page) or number. The page shows
    the usual titles and names in its own language.
    """

    title: str
    columns: Mapping[str, str]
    rows: Sequence[Sequence[Cell]]

    @property
    def numeric(self) -> list[str]:
        """The names of the columns that hold numbers."""
        return [name for name, kind in self.columns.items() if kind != "text"]

    def texts(self) -> list[list[str]]:
        """All cells as text."""
        kinds = list(self.columns.values())
        return [[format(cell, FORMATS[kind]) for cell, kind in zip(row, kinds, strict=True)] for row in self.rows]

    def to_json(self) -> JsonObject:
        rows = [list(row) for row in self.rows]
        return {"title": self.title, "columns": [list(item) for item in self.columns.items()], "rows": rows}


@dataclass(frozen=True)
class Matrix:
    """A confusion matrix: `counts` (K, K), a row for each label, a column for each predicted label."""

    title: str
    labels: Sequence[str]
    counts: ArrayLike

    def to_json(self) -> JsonObject:
        counts = np.asarray(self.counts, dtype=np.int64)
        if counts.shape != (len(self.labels), len(self.labels)):
            raise ValueError(f"{self.title}: counts are {counts.shape} for {len(self.labels)} labels")
        return {"title": self.title, "labels": list(self.labels), "counts": counts.tolist()}


Tables = list[Table | Matrix]
"""Tables of an evaluation."""


@dataclass(frozen=True)
class Marked:
    """A text with marked spans: (first character, the one after the last, kind)."""

    text: str
    spans: Sequence[tuple[int, int, str]]
    tagged: Sequence[tuple[str, str]] = ()
    """The words of the text with a tag each, if that is what is marked."""
    summary: str = ""
    """What is marked, on one line."""

    def plain(self) -> str:
        return self.summary

    def excerpt(self, characters: int = EXCERPT_CHARACTERS) -> "Marked":
        """The text around the first mark; the whole text if its words are tagged or nothing is marked."""
        if self.tagged or not self.spans:
            return self
        start, end, kind = self.spans[0]
        first, last = max(0, start - characters), end + characters
        before, after = ELLIPSIS if first else "", ELLIPSIS if last < len(self.text) else ""
        shift = len(before) - first
        return Marked(f"{before}{self.text[first:last]}{after}", [(start + shift, end + shift, kind)])

    def to_json(self) -> JsonObject:
        return {"text": self.text, "spans": [list(span) for span in self.spans]}


@dataclass(frozen=True)
class Shaded:
    """Tokens of a text, shaded by a number each, from 0 (none) to `full` (full colour)."""

    text: str
    tokens: Sequence[str]
    values: Sequence[float]
    full: float
    unit: str = ""

    def plain(self) -> str:
        return self.text

    def to_json(self) -> JsonObject:
        values = [round(value, 3) for value in self.values]
        return {"tokens": list(self.tokens), "values": values, "full": self.full, "unit": self.unit}


@dataclass(frozen=True)
class Preformatted:
    """Text whose lines and spaces are kept, for example a drawn tree."""

    text: str

    def plain(self) -> str:
        return self.text

    def to_json(self) -> JsonObject:
        return {"preformatted": self.text}


@dataclass(frozen=True)
class Shares:
    """Names with their probabilities, drawn as bars; number `best` is the prediction."""

    names: Sequence[str]
    shares: Sequence[float]
    best: int = 0

    def plain(self) -> str:
        return f"{truncate(self.names[self.best])} ({self.shares[self.best]:.0%})" if self.names else ""

    def to_json(self) -> JsonObject:
        """The most probable name comes first."""
        ranked = sorted(zip(self.names, self.shares, strict=True), key=lambda pair: -pair[1])
        return {"names": [truncate(name) for name, _ in ranked], "shares": [round(share, 4) for _, share in ranked]}


@dataclass(frozen=True)
class DependencyTree:
    """A sentence with an arc to each word from its head, and its relation; heads count from 1, and 0 is the root."""

    words: Sequence[str]
    heads: Sequence[int]
    relations: Sequence[str]

    @property
    def svg(self) -> str:
        return arcs_svg(self.words, self.heads, self.relations)

    def draw(self, columns: int) -> str:
        """The arcs above the words, in lines of at most so many cells."""
        return arcs_text(self.words, self.heads, self.relations, columns)

    def plain(self) -> str:
        """The tree on one line: "det(dogs, The) nsubj(slept, dogs)"; "" if there is none."""
        nodes, arcs = ["ROOT", *self.words], zip(self.relations, self.heads, self.words, strict=False)
        return truncate(" ".join(f"{relation}({nodes[head]}, {word})" for relation, head, word in arcs))

    def to_json(self) -> JsonObject:
        return {"picture": self.svg, "text": self.plain()}


@dataclass(frozen=True)
class PhraseTree:
    """A phrase-structure tree, and the same with brackets on one line; parts of speech are drawn if it is `tagged`."""

    tree: Tree
    brackets: str
    tagged: bool = False

    @property
    def drawn(self) -> Tree:
        return with_tags(self.tree) if self.tagged else self.tree

    @property
    def svg(self) -> str:
        return tree_svg(self.drawn)

    def draw(self, columns: int) -> str:
        """The tree with one word per line."""
        return tree_text(self.drawn, columns)

    def plain(self) -> str:
        return self.brackets

    def to_json(self) -> JsonObject:
        return {"picture": self.svg, "text": self.brackets}


Block = str | Marked | Shaded | Preformatted | Shares | DependencyTree | PhraseTree
"""A part of a description: text, or something that each medium draws in its own way."""


@dataclass(frozen=True)
class Description:
    """One example and its prediction, for every medium: terminal, log, page and report."""

    source: Block
    output: Sequence[Block]
    """The prediction, and more about it; a report shows the first block."""
    reference: Block = ""
    correct: bool | None = None
    """None if outputs are not simply right or wrong."""
    confidence: float | None = None
    """The probability of the output."""

    @property
    def summary(self) -> str:
        """The output on one line: what is most probable, or the first block."""
        shares = [block.plain() for block in self.output if isinstance(block, Shares)]
        return ", ".join(shares) or "".join(map(plain, self.output[:1]))

    @property
    def svg(self) -> str:
        """The output as an SVG picture; "" if it is no tree."""
        return next((block.svg for block in self.output if isinstance(block, DependencyTree | PhraseTree)), "")

    def lines(self) -> tuple[str, str, str]:
        """Source, reference and output as short texts, for a log."""
        texts = plain(self.source), plain(self.reference), self.summary
        source, reference, output = (text if len(text) <= MAX_CHARACTERS else truncate(text) for text in texts)
        return source, reference, output


def plain(block: Block) -> str:
    """A block as text without marks."""
    return block if isinstance(block, str) else block.plain()


def block_json(block: Block) -> str | JsonObject:
    """A block as JSON values for a page."""
    return block if isinstance(block, str) else block.to_json()


def truncate(text: str, length: int = MAX_CHARACTERS) -> str:
    """The beginning of a text, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1] + "…"
