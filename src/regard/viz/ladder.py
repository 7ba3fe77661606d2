"""A ladder of models as a table for the terminal, as Markdown, and as one page with their attention side by side.

Nothing here knows a model or a run: numbers, names and weights in, text out.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from regard.files import write_text
from regard.viz.document import asset, document
from regard.viz.report import Map, pack_map

SECTIONS = ("ladder", "pictures", "failures")
PROGRAM = ("elements.js", "matrix.js", "ladder.js", "page.js")
SHARED_WORDS = (
    "no_number", "looks_at", "seen_by", "hint", "matrix_label", "footer", "source", "reference", "sentence", "right",
    "wrong", "empty", "name_device",
)  # fmt: skip


@dataclass(frozen=True)
class Column:
    """One measure: how it is called in plain text, how it is written, and which end of it is the better one."""

    key: str
    name: str
    form: str
    better: int = 0
    """1 where more is better, -1 where less is, 0 where neither is."""
    unit: float = 1.0
    barred: bool = False
    """Whether the page draws it as a bar too."""


COLUMNS = (
    Column("bleu", "BLEU", ".1f", 1, barred=True),
    Column("chrf", "chrF", ".1f", 1, barred=True),
    Column("exact", "exact match", ".1f", 1, barred=True),
    Column("perplexity", "perplexity", ",.2f", -1),
    Column("word_perplexity", "word perplexity", ",.2f", -1),
    Column("bits", "bits per character", ".3f", -1),
    Column("aer", "AER", ".3f", -1),
    Column("parameters", "parameters (M)", ".2f", unit=1e6),
    Column("tokens", "tokens seen (M)", ".2f", unit=1e6),
    Column("seconds", "training (s)", ",.0f"),
    Column("training_speed", "tokens/s", ",.0f", 1),
    Column("decoding_speed", "sentences/s", ",.0f", 1),
)


@dataclass(frozen=True)
class Row:
    """A rung, or one way of reading it: what was measured, once for every seed."""

    title: str
    title_zh: str
    paper: str
    values: Mapping[str, Sequence[float]]
    settings: str = ""

    def mean(self, column: Column) -> float | None:
        found = self.values.get(column.key, ())
        return statistics.fmean(found) / column.unit if found else None

    def spread(self, column: Column) -> float | None:
        """The standard deviation over seeds, of which there must be two."""
        found = self.values.get(column.key, ())
        return statistics.stdev(found) / column.unit if len(found) > 1 else None


@dataclass(frozen=True)
class Picture:
    """What one rung wrote and where it looked: weights (R, C), None where there are none to show."""

    title: str
    title_zh: str
    output: str
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    weights: ArrayLike | None = None
    plane: tuple[int, int] | None = None
    """Which layer and head was drawn, from 1, 0 for the mean of all; None where there is only one."""
    blind: bool = False
    """Whether the model has no attention at all."""


@dataclass(frozen=True)
class Gallery:
    """One sentence as every rung translated it."""

    source: str
    reference: str
    pictures: Sequence[Picture]


@dataclass(frozen=True)
class LadderPage:
    """All that the page shows; a column that nobody measured is left out."""

    title: str
    rows: Sequence[Row]
    facts: Mapping[str, str] = field(default_factory=dict)
    galleries: Sequence[Gallery] = ()
    failures: Sequence[tuple[str, str]] = ()
    """(rung, why it failed)"""
    judged: bool = False
    """Whether an output other than the reference is wrong: so for numbers, not for sentences."""

    @property
    def columns(self) -> list[Column]:
        return [column for column in COLUMNS if any(row.values.get(column.key) for row in self.rows)]

    def best(self, column: Column) -> float | None:
        """The best mean of a column, if one end of it is better and not all are equally good."""
        means = {mean for row in self.rows if (mean := row.mean(column)) is not None}
        return (max if column.better > 0 else min)(means) if column.better and len(means) > 1 else None


def ladder_table(page: LadderPage) -> tuple[list[str], list[list[str]]]:
    """The names of the columns and the cells of every row, as text."""
    rows = [[row.title, *(written(row, column) for column in page.columns)] for row in page.rows]
    return ["rung", *(column.name for column in page.columns)], rows


def written(row: Row, column: Column) -> str:
    """A mean, ± its spread where there are several seeds; a dash where there is nothing."""
    mean, spread = row.mean(column), row.spread(column)
    text = "–" if mean is None else format(mean, column.form)
    return text if spread is None else f"{text} ± {format(spread, column.form)}"


def ladder_markdown(page: LadderPage) -> str:
    """The table, what it was measured with, and what failed, as Markdown."""
    names, rows = ladder_table(page)
    papers = [row.paper for row in page.rows]
    lines = [
        f"# {plain(page.title)}",
        "",
        *(f"- {plain(name)}: {plain(fact)}" for name, fact in page.facts.items()),
        "",
    ]
    lines += [_line([*names[:1], "paper", *names[1:]]), _line(["---", "---", *["---:"] * (len(names) - 1)])]
    lines += [_line([cells[0], paper, *cells[1:]]) for cells, paper in zip(rows, papers, strict=True)]
    lines += ["", *(f"- {plain(rung)} failed: {plain(reason)}" for rung, reason in page.failures)]
    return "\n".join(lines).rstrip() + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(plain(cell) for cell in cells)} |"


def plain(text: str) -> str:
    """Text that neither ends a cell nor begins a tag."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def render_ladder(page: LadderPage) -> str:
    """The ladder as one HTML page, in English and Chinese; the same values always give the same bytes."""
    shared, own = json.loads(asset("words.json")), json.loads(asset("ladder_words.json"))
    words = {language: {key: shared[language][key] for key in SHARED_WORDS} | own[language] for language in own}
    return document(page.title, SECTIONS, PROGRAM, words, ladder_data(page))


def write_ladder(path: Path, page: LadderPage) -> None:
    """Write the page to `path`, whole or not at all."""
    write_text(path, render_ladder(page))


def ladder_data(page: LadderPage) -> dict[str, Any]:
    """The ladder as plain JSON values: what the page's program reads."""
    return {
        "title": page.title,
        "judged": page.judged,
        "facts": [[str(key), str(value)] for key, value in page.facts.items()],
        "columns": [column.key for column in page.columns],
        "rows": [
            {
                "en": row.title,
                "zh": row.title_zh,
                "paper": row.paper,
                "settings": row.settings,
                "cells": {column.key: cell(page, row, column) for column in page.columns},
            }
            for row in page.rows
        ],
        "sentences": [
            {
                "source": gallery.source,
                "reference": gallery.reference,
                "pictures": [framed(picture) for picture in gallery.pictures],
            }
            for gallery in page.galleries
        ],
        "failures": [{"rung": rung, "reason": reason} for rung, reason in page.failures],
    }


def cell(page: LadderPage, row: Row, column: Column) -> dict[str, Any] | None:
    """One number as the page shows it; None where there is none."""
    mean, spread = row.mean(column), row.spread(column)
    if mean is None:
        return None
    most = max(each.mean(column) or 0.0 for each in page.rows)
    return {
        "mean": format(mean, column.form),
        "spread": None if spread is None else format(spread, column.form),
        "best": mean == page.best(column),
        "share": round(max(0.0, mean / most), 3) if column.barred and most > 0 else None,
    }


def framed(picture: Picture) -> dict[str, Any]:
    """One picture as JSON values, its weights as one byte each."""
    drawn = None
    if picture.weights is not None:
        drawn = pack_map(Map(picture.title, picture.rows, picture.columns, np.asarray(picture.weights)[None, None]))
    return {
        "en": picture.title,
        "zh": picture.title_zh,
        "output": picture.output,
        "plane": picture.plane,
        "blind": picture.blind,
        "map": drawn,
    }
