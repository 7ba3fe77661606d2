"""Attention weights as an SVG picture for a page or a paper.

A picture has no script, no font and no link, so untrusted text in it is only shown. It has its own background, light
or dark as the browser prefers. A cell has one colour and is more opaque for a larger weight, so that both backgrounds
show the same. The same weights give the same bytes.

Shapes: T rows (the tokens that attend), S columns (the tokens attended to).
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.viz.cells import cut, visible, width
from regard.viz.document import asset

STYLE = asset("picture.css").rstrip()
CELL, LETTER = 22, 7.8  # pixels of a side, and of a terminal cell in that font
SMALL_CELL = 15  # pixels of a side if there are many matrices: the names of tokens just fit
LINE, MARGIN, LONGEST_LABEL = 20, 14, 24
FAINT = 0.005
"""A weight below this share of full colour is not drawn: it would be invisible."""


@dataclass(frozen=True)
class Panel:
    """One matrix of a picture; `full` is the weight in full colour; negative weights have another colour."""

    weights: ArrayLike
    rows: Sequence[str]
    columns: Sequence[str]
    title: str = ""
    full: float = 1.0


@dataclass(frozen=True)
class Drawing:
    """A part of a picture and its size."""

    width: float
    height: float
    body: str


def heatmap_svg(
    weights: ArrayLike, rows: Sequence[str], columns: Sequence[str], title: str = "", full: float = 1.0
) -> str:
    """Draw weights (T, S): rows at the side, columns at the top, and the weight as the tooltip of its cell."""
    return panels_svg([Panel(weights, rows, columns, title, full)])


def panels_svg(panels: Sequence[Panel], across: int = 3) -> str:
    """Several matrices in one picture, `across` in a row."""
    drawn = [matrix(panel) for panel in panels]
    lines = [beside(drawn[start : start + across]) for start in range(0, len(drawn), across)]
    return page(above_each_other(lines))


def heads_svg(
    weights: ArrayLike,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str = "",
    names: tuple[str, str] = ("layer {}", "head {}"),
    full: float = 1.0,
) -> str:
    """Draw the weights of all heads (L, H, T, S) as small matrices: a row for each layer, a column for each head.

    Tokens are named once: at the left of every layer, and above every head.
    """
    values = np.asarray(weights, dtype=np.float64)
    layers, heads = values.shape[:2]
    sides, tops = [label(name) for name in rows], [label(name) for name in columns]
    left = LINE + max(map(measure, sides), default=0.0) + 8
    above = LINE + 4 if title else 0
    top = above + LINE + max(map(measure, tops), default=0.0) + 10
    wide, high = SMALL_CELL * len(columns), SMALL_CELL * len(rows)
    across, down = (max(size, *(measure(name) + LETTER for name in names)) + MARGIN for size in (wide, high))
    parts = [text(0, 12, words(title), 'class="title"')] if title else []
    for head in range(heads):
        x = left + across * head
        parts.append(text(x, above + 12, names[1].format(head + 1)))
        parts += [upright(x + SMALL_CELL * n + 12, top - 6, name) for n, name in enumerate(tops)]
    for layer in range(layers):
        y = top + down * layer
        parts.append(upright(12, y + high / 2, names[0].format(layer + 1), 'text-anchor="middle"'))
        parts += [text(left - 6, y + SMALL_CELL * n + 12, name, 'text-anchor="end"') for n, name in enumerate(sides)]
        for head in range(heads):
            panel, x = Panel(values[layer, head], rows, columns, full=full), left + across * head
            parts.append(f'<rect class="empty" x="{number(x)}" y="{number(y)}" width="{wide}" height="{high}"/>')
            parts += cells(checked(panel), panel, x, y, SMALL_CELL)
    scale = legend(full, bool((values < 0).any()), bool((values > 0).any()))
    parts.append(moved(scale, left, top + down * layers))
    reach = max(left + across * heads - MARGIN, left + scale.width, measure(title))
    return page(Drawing(reach, top + down * layers + scale.height, "\n".join(parts)))


def page(drawing: Drawing) -> str:
    """A drawing with its background, as the text of a file."""
    wide, high = drawing.width + 2 * MARGIN, drawing.height + 2 * MARGIN
    size = f'width="{number(wide)}" height="{number(high)}" viewBox="0 0 {number(wide)} {number(high)}"'
    ground = f'<rect class="ground" x="0.5" y="0.5" width="{number(wide - 1)}" height="{number(high - 1)}" rx="6"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<style>\n{STYLE}\n</style>\n'
        f"{ground}\n{moved(drawing, MARGIN, MARGIN)}\n</svg>\n"
    )


def beside(drawings: Sequence[Drawing]) -> Drawing:
    """Drawings from left to right."""
    body, x = [], 0.0
    for drawing in drawings:
        body.append(moved(drawing, x, 0))
        x += drawing.width + 2 * MARGIN
    return Drawing(x - 2 * MARGIN, max(each.height for each in drawings), "\n".join(body))


def above_each_other(drawings: Sequence[Drawing]) -> Drawing:
    """Drawings from top to bottom."""
    body, y = [], 0.0
    for drawing in drawings:
        body.append(moved(drawing, 0, y))
        y += drawing.height + MARGIN
    return Drawing(max(each.width for each in drawings), y - MARGIN, "\n".join(body))


def moved(drawing: Drawing, x: float, y: float) -> str:
    return f'<g transform="translate({number(x)} {number(y)})">\n{drawing.body}\n</g>'


def matrix(panel: Panel) -> Drawing:
    """One matrix with its labels, and a legend below it."""
    weights = checked(panel)
    rows, columns = ([label(name) for name in names] for names in (panel.rows, panel.columns))
    side = max((measure(row) for row in rows), default=0.0) + 8
    lean = max((measure(column) for column in columns), default=0.0) * 0.71 + 10  # labels are rotated by 45 degrees
    top = lean + (LINE if panel.title else 0)
    wide, high = CELL * len(columns), CELL * len(rows)
    parts = [f'<rect class="empty" x="{number(side)}" y="{number(top)}" width="{wide}" height="{high}"/>']
    if panel.title:
        parts.append(text(0, 12, words(panel.title), 'class="title"'))
    parts += [text(side - 6, top + CELL * n + 15, row, 'text-anchor="end"') for n, row in enumerate(rows)]
    for n, column in enumerate(columns):
        x, y = side + CELL * n + 14, top - 6
        parts.append(text(x, y, column, f'transform="rotate(-45 {number(x)} {number(y)})"'))
    parts += cells(weights, panel, side, top)
    scale = legend(panel.full, bool((weights < 0).any()), bool((weights > 0).any()))
    parts.append(moved(scale, side, top + high + 10))
    reach = max((side + CELL * n + 14 + 0.71 * measure(name) for n, name in enumerate(columns)), default=0.0)
    width_of_all = max(side + wide, reach + 6, side + scale.width, measure(panel.title))
    return Drawing(width_of_all, top + high + 10 + scale.height, "\n".join(parts))


def cells(weights: NDArray[np.float64], panel: Panel, left: float, top: float, side: int = CELL) -> list[str]:
    """A square for every visible weight; its tooltip has the row, the column and the weight."""
    squares = []
    for (row, column), weight in np.ndenumerate(weights):
        share = min(1.0, abs(float(weight)) / panel.full)
        if share >= FAINT:
            box = f'x="{number(left + side * column)}" y="{number(top + side * row)}" width="{side}" height="{side}"'
            names = " → ".join(name for name in (visible(panel.rows[row]), visible(panel.columns[column])) if name)
            label = html.escape(f"{names}: {weight:.3f}" if names else f"{weight:.3f}")
            kind = "more" if weight > 0 else "less"
            squares.append(f'<rect class="{kind}" {box} fill-opacity="{number(share)}"><title>{label}</title></rect>')
    return squares


def legend(full: float, below: bool, above: bool) -> Drawing:
    """The colours from none to full, with their weights."""
    shares = [*([-1.0, -0.5] if below else []), 0.0, *([0.5, 1.0] if above else [])]
    parts, x = [], 0.0
    for share in shares:
        value = f"{share * full:g}"
        kind = "more" if share > 0 else "less"

        box = f'x="{number(x)}" y="0" width="14" height="14"'
        parts += [f'<rect class="empty" {box}/>', f'<rect class="{kind}" {box} fill-opacity="{abs(share):g}"/>']
        parts.append(text(x + 19, 12, value))
        x += 19 + measure(value) + 12
    return Drawing(x - 12, 14, "\n".join(parts))


def checked(panel: Panel) -> NDArray[np.float64]:
    weights = np.asarray(panel.weights, dtype=np.float64)
    rows, columns = len(panel.rows), len(panel.columns)
    if weights.shape != (rows, columns):
        raise ValueError(f"weights are {weights.shape}; {rows} rows and {columns} columns have names")
    if not np.isfinite(weights).all():
        raise ValueError("weights contain values that are not numbers")
    if panel.full <= 0:
        raise ValueError(f"full colour is for a weight above 0, not {panel.full}")
    return weights


def label(name: str) -> str:
    """A label: every character visible, and not too long."""
    return cut(visible(name), LONGEST_LABEL)


def words(line: str) -> str:
    """A line of text: control characters visible, spaces as spaces."""
    return visible(line).replace("␣", " ")


def text(x: float, y: float, shown: str, attributes: str = "") -> str:
    return f'<text x="{number(x)}" y="{number(y)}" {attributes}>{html.escape(shown)}</text>'.replace(" >", ">")


def upright(x: float, y: float, shown: str, attributes: str = "") -> str:
    """A text that reads from bottom to top, beginning (or with its middle) at a place."""
    return text(x, y, shown, f'{attributes} transform="rotate(-90 {number(x)} {number(y)})"'.strip())


def measure(shown: str) -> float:
    """The width of a text in pixels: a Latin letter is one terminal cell, 注 two."""
    return LETTER * width(shown)


def number(value: float) -> str:
    """A coordinate with at most two digits after the point."""
    return f"{round(value, 2):g}"
