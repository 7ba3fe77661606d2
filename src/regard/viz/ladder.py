"""A comparison of models as a table for the terminal, as Markdown, and as one page with attention side by side.

The input is numbers, names and weights; models and runs are not used here.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from regard.files import JsonObject
from regard.messages import localize, to_page
from regard.viz.document import asset, document
from regard.viz.report import AttentionMap, pack_map

SECTIONS = ("ladder", "pictures", "failures")
PROGRAM = ("elements.js", "matrix.js", "ladder.js", "page.js")
SHARED_WORDS: list[str] = json.loads(asset("programs.json"))["ladder_words"]

MAX_WRITTEN_OUT = 1e8


@dataclass(frozen=True)
class LadderColumn:
    """One measure: its key, its number format, and whether more or less is better."""

    key: str
    form: str
    better: int = 0
    """1 if more is better, -1 if less is better, 0 if neither."""
    unit: float = 1.0
    has_bar: bool = False
    """True if the page draws it as a bar too."""


COLUMNS = tuple(LadderColumn(**column) for column in json.loads(asset("ladder_columns.json")))


@dataclass(frozen=True)
class LadderRow:
    """A variant with one search: the values of each measure, one per seed."""

    title: str
    paper: str
    values: Mapping[str, Sequence[float]]
    settings: str = ""

    def mean(self, column: LadderColumn) -> float | None:
        """The mean over seeds; None if it was not measured."""
        values = self.values.get(column.key, ())
        return statistics.fmean(values) / column.unit if values else None

    def deviation(self, column: LadderColumn) -> float | None:
        """The standard deviation over seeds; None for one seed."""
        values = self.values.get(column.key, ())
        return statistics.stdev(values) / column.unit if len(values) > 1 else None


@dataclass(frozen=True)
class LadderPicture:
    """The output of one variant and its attention: weights (R, C), or None if there are none to draw."""

    title: str
    output: str
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    weights: ArrayLike | None = None
    head: tuple[int, int] | None = None
    """Layer and head of the weights, from 1; 0 is the mean of all; None if there is only one."""
    has_attention: bool = True
    """False if the model has no cross-attention."""

    def to_json(self) -> JsonObject:
        """The picture for the page, with one byte per weight."""
        packed = None
        if self.weights is not None:
            weights = np.asarray(self.weights)[None, None]
            packed = pack_map(AttentionMap(self.title, self.rows, self.columns, weights))
        values = {"output": self.output, "head": self.head, "has_attention": self.has_attention, "map": packed}
        return {"en": self.title, "zh": localize(self.title, chinese=True), **values}


@dataclass(frozen=True)
class Gallery:
    """One sentence and its picture of every variant."""

    source: str
    reference: str
    pictures: Sequence[LadderPicture]


@dataclass(frozen=True)
class LadderPage:
    """The content of the page; a column without values is left out."""

    title: str
    rows: Sequence[LadderRow]
    facts: Mapping[str, str] = field(default_factory=dict)
    galleries: Sequence[Gallery] = ()
    failures: Sequence[tuple[str, str]] = ()
    """(variant, reason)"""
    has_one_reference: bool = False
    """True if every output but the reference is wrong, as for numbers; then outputs are marked as right or wrong."""

    @property
    def columns(self) -> list[LadderColumn]:
        return [column for column in COLUMNS if any(row.values.get(column.key) for row in self.rows)]

    def best(self, column: LadderColumn) -> float | None:
        """The best mean of a column; None if neither more nor less is better, or all are equal."""
        means = {mean for row in self.rows if (mean := row.mean(column)) is not None}
        return (max if column.better > 0 else min)(means) if column.better and len(means) > 1 else None


def ladder_table(page: LadderPage, language: str = "en") -> tuple[list[str], list[list[str]]]:
    """Column titles, and the cells of every row as text."""
    words = json.loads(asset("ladder_words.json"))[language]
    rows = [[row.title, *(cell_text(row, column) for column in page.columns)] for row in page.rows]
    return [words["variant"], *(words[f"column_{column.key}"] for column in page.columns)], rows


def cell_text(row: LadderRow, column: LadderColumn) -> str:
    """A mean, ± the standard deviation of several seeds; a dash if there is no value."""
    mean, deviation = row.mean(column), row.deviation(column)
    text = "–" if mean is None else number_text(mean, column)
    return text if deviation is None else f"{text} ± {number_text(deviation, column)}"


def number_text(value: float, column: LadderColumn) -> str:
    """A number in the format of its column; 5.2e+21 for a long one, as a perplexity per word can be."""
    return format(value, column.form) if value < MAX_WRITTEN_OUT else f"{value:.1e}"


def ladder_markdown(page: LadderPage) -> str:
    """Facts, table and failures as Markdown."""
    names, rows = ladder_table(page)
    papers = [row.paper for row in page.rows]
    facts = (f"- {plain(name)}: {plain(fact)}" for name, fact in page.facts.items())
    lines = [f"# {plain(page.title)}", "", *facts, ""]
    lines += [_line([*names[:1], "paper", *names[1:]]), _line(["---", "---", *["---:"] * (len(names) - 1)])]
    lines += [_line([cells[0], paper, *cells[1:]]) for cells, paper in zip(rows, papers, strict=True)]
    lines += ["", *(f"- {plain(variant)} failed: {plain(reason)}" for variant, reason in page.failures)]
    return "\n".join(lines).rstrip() + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(plain(cell) for cell in cells)} |"


def plain(text: str) -> str:
    """Text on one line that cannot end a cell or begin a tag."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def render_ladder(page: LadderPage) -> str:
    """The page as HTML in English and Chinese; the same content gives the same bytes."""
    shared, texts = json.loads(asset("words.json")), json.loads(asset("ladder_words.json"))
    words = {language: {key: shared[language][key] for key in SHARED_WORDS} | texts[language] for language in texts}
    return document(page.title, SECTIONS, PROGRAM, words, ladder_data(page))


def ladder_data(page: LadderPage) -> JsonObject:
    """The content of the page as plain JSON values, for its JavaScript."""
    rows = []
    for row in page.rows:
        cells = {column.key: cell_values(page, row, column) for column in page.columns}
        titles = {"en": row.title, "zh": localize(row.title, chinese=True)}
        rows.append({**titles, "paper": row.paper, "settings": row.settings, "cells": cells})
    sentences = [
        {"source": each.source, "reference": each.reference, "pictures": [item.to_json() for item in each.pictures]}
        for each in page.galleries
    ]
    return {
        "title": page.title,
        "marked": page.has_one_reference,
        "facts": [[str(key), to_page(value)] for key, value in page.facts.items()],
        "columns": [column.key for column in page.columns],
        "rows": rows,
        "sentences": sentences,
        "failures": [{"variant": variant, "reason": reason} for variant, reason in page.failures],
    }


def cell_values(page: LadderPage, row: LadderRow, column: LadderColumn) -> JsonObject | None:
    """One number as the page shows it; None if there is none."""
    mean, deviation = row.mean(column), row.deviation(column)
    if mean is None:
        return None
    maximum = max(other.mean(column) or 0.0 for other in page.rows)
    return {
        "mean": number_text(mean, column),
        "deviation": None if deviation is None else number_text(deviation, column),
        "best": mean == page.best(column),
        "share": round(max(0.0, mean / maximum), 3) if column.has_bar and maximum > 0 else None,
    }
