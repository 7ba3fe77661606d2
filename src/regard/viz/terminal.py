"""Predictions and attention heat maps as text, for logs and terminals.

Shapes: T target tokens (rows, the queries), S source tokens (columns, the keys).
"""

import shutil
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.viz import cells
from regard.viz.cells import ELLIPSIS, cut, graphemes, pad_left, pad_right, visible
from regard.viz.content import Block, DependencyTree, Description, Marked, PhraseTree, Shares, plain
from regard.viz.panel import RESET, Screen, printable
from regard.viz.svg import Panel, checked

SHADES = ("· ", "░ ", "░░", "▒▒", "▓▓", "██")
"""Characters for weights from 0 to 1 without colour; two terminal cells are about a square."""

RAMP = ((24, 28, 38), (28, 66, 94), (24, 122, 138), (92, 184, 148), (246, 226, 128))
"""Colours for weights: dark blue for 0, light yellow for 1, evenly brighter in between."""

MAX_ROWS, MAX_LABEL_HEIGHT = 80, 12


def draw(item: Description, screen: Screen) -> str:
    """The output of a description for a terminal."""
    blocks = filter(None, (draw_block(block, screen) for block in item.output))
    return ("\n" if all(isinstance(block, str) for block in item.output) else "\n\n").join(blocks)


def draw_block(block: Block, screen: Screen) -> str:
    """Bars, tags below words, arcs, trees, or text; a text in which nothing is marked is not repeated."""
    match block:
        case Shares(names, shares, best):
            return screen.bars(list(zip(names, shares, strict=True)), best)
        case Marked(text, spans, tagged):
            return screen.tags(tagged) if tagged else screen.marked(text, *spans[0][:2]) if spans else ""
        case DependencyTree() | PhraseTree():
            return block.draw(screen.columns)
    return printable(plain(block))


def heatmap(
    weights: ArrayLike, rows: Sequence[str], columns: Sequence[str], width: int | None = None, colour: bool = True
) -> str:
    """Draw attention weights (T, S): target tokens at the side, source tokens vertically at the top.

    `width` is in terminal cells (default: the width of the terminal). Rows and columns that do not fit are omitted, and
    the last line says how many. Without `colour` the result is plain text.
    """
    matrix = checked(Panel(weights, rows, columns))
    available = width if width is not None else shutil.get_terminal_size().columns
    labels = [visible(token) for token in rows[:MAX_ROWS]]
    side = min(max(map(cells.width, labels), default=0), max(1, available // 3))
    fitting = max(1, (available - side - 1) // 2)
    count = len(columns) if len(columns) <= fitting else max(1, fitting - 1)
    lines = _column_labels(columns[:count], side, more=count < len(columns))
    for label, row in zip(labels, matrix, strict=False):
        shades = "".join(SHADES[round(weight * 5)] for weight in row[:count].clip(0, 1))
        drawn = _coloured(row[:count]) if colour else shades
        mark = ELLIPSIS if count < len(columns) else ""
        lines.append(f"{pad_left(cut(label, side), side)} {drawn}{mark}".rstrip())
    if len(rows) > len(labels):
        lines.append(pad_left(ELLIPSIS, side))
    return "\n".join([*lines, *_footer(side, len(labels), len(rows), count, len(columns), colour)])


def _column_labels(columns: Sequence[str], side: int, more: bool) -> list[str]:
    """Draw the column labels vertically, each above its column."""
    stacks = [graphemes(visible(piece)) for piece in columns]
    stacks = [s if len(s) <= MAX_LABEL_HEIGHT else [*s[: MAX_LABEL_HEIGHT - 1], ELLIPSIS] for s in stacks]
    height = max((len(s) for s in stacks), default=0)
    lines = []
    for line in range(height):
        letters = [pad_right(s[line - height + len(s)] if line >= height - len(s) else "", 2) for s in stacks]
        mark = ELLIPSIS if more and line == height - 1 else ""
        lines.append((" " * (side + 1) + "".join(letters) + mark).rstrip())
    return lines


def _coloured(row: NDArray[np.float64]) -> str:
    """Draw one row as coloured backgrounds; a colour code is written only where the colour changes."""
    drawn, current = "", None
    for weight in row:
        position = min(max(float(weight), 0.0), 1.0) * (len(RAMP) - 1)
        left = min(int(position), len(RAMP) - 2)
        ends = zip(RAMP[left], RAMP[left + 1], strict=True)
        colour = tuple(round(a + (b - a) * (position - left)) for a, b in ends)
        if colour != current:
            drawn += "\x1b[48;2;{};{};{}m".format(*colour)
            current = colour
        drawn += "  "
    return drawn + RESET if drawn else ""


def _footer(side: int, shown_rows: int, rows: int, shown_columns: int, columns: int, colour: bool) -> list[str]:
    """Draw the legend, and the number of rows and columns that are left out."""
    steps = np.linspace(0, 1, len(SHADES))
    drawn = [_coloured(np.array([w])) if colour else SHADES[n] for n, w in enumerate(steps)]
    lines = ["", " " * (side + 1) + "  ".join(f"{cell.rstrip()} {w:g}" for cell, w in zip(drawn, steps, strict=True))]
    sides = ((shown_rows, rows, "rows"), (shown_columns, columns, "columns"))
    left_out = [f"{shown} of {total} {name}" for shown, total, name in sides if shown < total]
    if left_out:
        lines.append(f"{' ' * (side + 1)}{ELLIPSIS} only {' and '.join(left_out)} shown")
    return lines
