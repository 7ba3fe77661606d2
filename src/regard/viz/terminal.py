"""Attention and loss curves as text: what a training log, a pasted report or a plain terminal can show.

Shapes: T target pieces (rows, the ones that look), S source pieces (columns, the ones looked at).
"""

import math
import shutil
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.viz.cells import ELLIPSIS, clusters, cut, pad_left, pad_right, visible, width

SHADES = ("· ", "░ ", "░░", "▒▒", "▓▓", "██")
"""How a weight is drawn without colour, from 0 to 1; two cells of a terminal are about a square."""

RAMP = ((24, 28, 38), (28, 66, 94), (24, 122, 138), (92, 184, 148), (246, 226, 128))
"""How a weight is drawn in colour: dark and blue for 0, light and yellow for 1, evenly brighter in between."""

MOST_ROWS = 80
TALLEST_LABEL = 12
RESET = "\x1b[0m"


def heatmap(
    weights: ArrayLike, rows: Sequence[str], columns: Sequence[str], width: int | None = None, colour: bool = True
) -> str:
    """Draw attention weights (T, S): target pieces down the side, source pieces downwards across the top.

    `width` is the room in terminal cells (the terminal's own if not given). What does not fit is cut, and a last line
    says how much. Without `colour` the result is plain text that survives being pasted.
    """
    matrix = _checked(weights, rows, columns)
    room = width if width is not None else shutil.get_terminal_size().columns
    labels = [visible(piece) for piece in rows[:MOST_ROWS]]
    side = min(_widest(labels), max(1, room // 3))
    fitting = max(1, (room - side - 1) // 2)
    count = len(columns) if len(columns) <= fitting else max(1, fitting - 1)
    lines = _column_labels(columns[:count], side, more=count < len(columns))
    for label, row in zip(labels, matrix, strict=False):
        drawn = _coloured(row[:count]) if colour else "".join(SHADES[_level(w, len(SHADES))] for w in row[:count])
        mark = ELLIPSIS if count < len(columns) else ""
        lines.append(f"{pad_left(cut(label, side), side)} {drawn}{mark}".rstrip())
    if len(rows) > len(labels):
        lines.append(pad_left(ELLIPSIS, side))
    return "\n".join([*lines, *_footer(side, len(labels), len(rows), count, len(columns), colour)])


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """A curve one line high: ▇▅▃▂▁. Several values that share a place are averaged; no number leaves a gap."""
    bars = "▁▂▃▄▅▆▇█"
    places = _averaged(values, width)
    known = [v for v in places if math.isfinite(v)]
    if not known:
        return " " * len(places)
    low, span = min(known), max(known) - min(known)
    level = [_level((v - low) / span if span else 0.0, len(bars)) if math.isfinite(v) else -1 for v in places]
    return "".join(bars[n] if n >= 0 else " " for n in level)


def curve(values: Sequence[float], width: int = 60, height: int = 8, title: str = "") -> str:
    """A small plot in braille dots, 2 x 4 a cell, with the largest and smallest value beside it.

    Made for a loss over the steps of a run: the x axis is the order of the values; no number leaves a gap.
    """
    places = _averaged(values, 2 * width, stretch=True)
    known = [v for v in places if math.isfinite(v)]
    if not known:
        return f"{title}\n(no values)".strip()
    low, high = min(known), max(known)
    dots = np.zeros((4 * height, 2 * width), dtype=bool)
    before: int | None = None
    for x, value in enumerate(places):
        if not math.isfinite(value):
            before = None
            continue
        y = round((high - value) / (high - low) * (4 * height - 1)) if high > low else 2 * height
        start = y if before is None else before
        dots[min(start, y) : max(start, y) + 1, x] = True
        before = y
    names = [f"{high:.4g}", *[""] * (height - 2), f"{low:.4g}"] if height > 1 else [f"{high:.4g}"]
    side = max(len(name) for name in names)
    frame = [f"{name:>{side}} ┤{line}".rstrip() for name, line in zip(names, _braille(dots), strict=True)]
    return "\n".join([*([title] if title else []), *frame])


def _checked(weights: ArrayLike, rows: Sequence[str], columns: Sequence[str]) -> NDArray[np.float64]:
    matrix = np.asarray(weights, dtype=np.float64)
    if matrix.shape != (len(rows), len(columns)):
        raise ValueError(f"weights are {matrix.shape}; {len(rows)} rows and {len(columns)} columns have names")
    if not np.isfinite(matrix).all():
        raise ValueError("weights hold values that are not numbers")
    return matrix


def _widest(labels: Sequence[str]) -> int:
    return max((width(label) for label in labels), default=0)


def _column_labels(columns: Sequence[str], side: int, more: bool) -> list[str]:
    """The names of the columns, each written downwards and standing on its column."""
    stacks = [clusters(visible(piece)) for piece in columns]
    stacks = [s if len(s) <= TALLEST_LABEL else [*s[: TALLEST_LABEL - 1], ELLIPSIS] for s in stacks]
    height = max((len(s) for s in stacks), default=0)
    lines = []
    for line in range(height):
        letters = [pad_right(s[line - height + len(s)] if line >= height - len(s) else "", 2) for s in stacks]
        mark = ELLIPSIS if more and line == height - 1 else ""
        lines.append((" " * (side + 1) + "".join(letters) + mark).rstrip())
    return lines


def _coloured(row: NDArray[np.float64]) -> str:
    """One row of cells as coloured backgrounds; a colour is set only where it changes."""
    drawn, current = "", None
    for weight in row:
        colour = _ramp(float(weight))
        if colour != current:
            drawn += "\x1b[48;2;{};{};{}m".format(*colour)
            current = colour
        drawn += "  "
    return drawn + RESET if drawn else ""


def _ramp(weight: float) -> tuple[int, int, int]:
    place = min(max(weight, 0.0), 1.0) * (len(RAMP) - 1)
    left = min(int(place), len(RAMP) - 2)
    share = place - left
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(RAMP[left], RAMP[left + 1], strict=True))
    return red, green, blue


def _level(share: float, levels: int) -> int:
    """Which of `levels` steps stands nearest to a share between 0 and 1."""
    return round(min(max(share, 0.0), 1.0) * (levels - 1))


def _footer(side: int, shown_rows: int, rows: int, shown_columns: int, columns: int, colour: bool) -> list[str]:
    """What the shades mean, and what was left out."""
    steps = np.linspace(0, 1, len(SHADES))
    cells = [_coloured(np.array([w])) if colour else SHADES[n] for n, w in enumerate(steps)]
    lines = ["", " " * (side + 1) + "  ".join(f"{cell.rstrip()} {w:g}" for cell, w in zip(cells, steps, strict=True))]
    sides = ((shown_rows, rows, "rows"), (shown_columns, columns, "columns"))
    left_out = [f"{shown} of {total} {name}" for shown, total, name in sides if shown < total]
    if left_out:
        lines.append(f"{' ' * (side + 1)}{ELLIPSIS} only {' and '.join(left_out)} shown")
    return lines


def _averaged(values: Sequence[float], places: int, stretch: bool = False) -> list[float]:
    """`values` brought to at most (`stretch`: exactly) `places` numbers, each the mean of the values it stands for."""
    series = np.asarray(values, dtype=np.float64).reshape(-1)
    if series.size == 0 or (series.size <= places and not stretch):
        return [float(v) for v in series]
    if series.size <= places:
        return [float(v) for v in series[np.arange(places) * series.size // places]]
    groups = [part[np.isfinite(part)] for part in np.array_split(series, places)]
    return [float(part.mean()) if part.size else math.nan for part in groups]


def _braille(dots: NDArray[np.bool_]) -> list[str]:
    """A picture of dots as lines of braille characters, each four dots high and two wide."""
    bits = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
    lines = []
    for top in range(0, dots.shape[0], 4):
        codes = np.zeros(dots.shape[1] // 2, dtype=np.int64)
        for dy in range(4):
            for dx in range(2):
                codes |= bits[dy][dx] * dots[top + dy, dx::2].astype(np.int64)
        lines.append("".join(chr(0x2800 + int(code)) if code else " " for code in codes))
    return lines
