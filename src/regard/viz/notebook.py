"""Descriptions, scores and attention as HTML for a notebook, without scripts."""

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from regard.viz.content import Block, DependencyTree, Description, Marked, PhraseTree, Preformatted, Shares, plain
from regard.viz.report import AttentionMap
from regard.viz.svg import Panel, panels_svg

SHOWN = 20
"""Rows of a table, and tokens at each side of a picture; the rest is counted."""
BAR = 120


def block_html(block: Block) -> str:
    """A part of a description."""
    match block:
        case DependencyTree() | PhraseTree():
            return block.svg
        case Preformatted():
            return f"<pre>{escape(block.text)}</pre>"
        case Shares():
            bar = '<span style="display:inline-block;background:#69c;height:.7em;width:{:.0f}px"></span>'
            rows = zip(block.names, block.shares, strict=True)
            return "".join(f"<div>{bar.format(p * BAR)} {escape(name)} {p:.1%}</div>" for name, p in rows)
        case Marked() if block.spans:
            html, at = "", 0
            for start, end, kind in sorted(block.spans):
                marked = f"{escape(block.text[start:end])} <sub>{escape(kind)}</sub>"
                html, at = f"{html}{escape(block.text[at:start])}<mark>{marked}</mark>", end
            return html + escape(block.text[at:])
    return escape(plain(block))


def table_html(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose cells are HTML."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    cell = '<td style="text-align:left">'
    body = "".join("<tr>" + "".join(f"{cell}{item}</td>" for item in row) + "</tr>" for row in rows[:SHOWN])
    more = f"<p>{len(rows) - SHOWN:,} more</p>" if len(rows) > SHOWN else ""
    return f"<table><tr>{head}</tr>{body}</table>{more}"


def descriptions_html(items: Iterable[Description]) -> str:
    """Examples and their predictions, one row each."""
    shown = list(items)
    names = ["input", "output", *(["reference"] if any(item.reference for item in shown) else [])]
    rows = [
        [block_html(item.source), "".join(map(block_html, item.output)), block_html(item.reference)] for item in shown
    ]
    return table_html(names, [row[: len(names)] for row in rows])


def maps_html(maps: Sequence[AttentionMap]) -> str:
    """The attention of each layer, as the mean of its heads."""
    panels = []
    for item in maps:
        weights = np.asarray(item.weights).mean(axis=1)[:, :SHOWN, :SHOWN]
        rows, columns = list(item.rows)[:SHOWN], list(item.columns)[:SHOWN]
        panels += [Panel(layer, rows, columns, f"{item.name} {number}") for number, layer in enumerate(weights)]
    return panels_svg(panels) if panels else ""
