"""Content of a report page as plain values: tables, confusion matrices, and texts with marks.

A text of an example is a string, or one of the classes below, which the page draws with its marks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from regard.files import JsonObject

Cell = str | float
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
    page_only: bool = False
    """True if a terminal does not show it."""

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


@dataclass(frozen=True)
class Marked:
    """A text with marked spans: (first character, the one after the last, kind)."""

    text: str
    spans: Sequence[tuple[int, int, str]]

    def to_json(self) -> JsonObject:
        return {"text": self.text, "spans": [list(span) for span in self.spans]}


@dataclass(frozen=True)
class Shaded:
    """Tokens shaded by a number each, from 0 (none) to `full` (full colour)."""

    tokens: Sequence[str]
    values: Sequence[float]
    full: float
    unit: str = ""

    def to_json(self) -> JsonObject:
        values = [round(value, 3) for value in self.values]
        return {"tokens": list(self.tokens), "values": values, "full": self.full, "unit": self.unit}


@dataclass(frozen=True)
class Preformatted:
    """Text whose lines and blanks are kept, for example a drawn tree."""

    text: str

    def to_json(self) -> JsonObject:
        return {"preformatted": self.text}


@dataclass(frozen=True)
class Shares:
    """Names with their probabilities, drawn as bars; the first one is the prediction."""

    names: Sequence[str]
    shares: Sequence[float]

    def to_json(self) -> JsonObject:
        return {"names": list(self.names), "shares": [round(share, 4) for share in self.shares]}


@dataclass(frozen=True)
class Picture:
    """An SVG picture in the style of svg.py, and its content as text."""

    svg: str
    text: str

    def to_json(self) -> JsonObject:
        return {"picture": self.svg, "text": self.text}


Text = str | Marked | Shaded | Preformatted | Shares | Picture


def text_json(text: Text) -> str | JsonObject:
    """A text as JSON values."""
    return text if isinstance(text, str) else text.to_json()
