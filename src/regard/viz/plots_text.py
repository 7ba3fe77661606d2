"""Plots in the terminal: lines in braille dots with a mark on every point, bars in blocks, with or without colours."""

import re
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from regard.viz.axes import Axis, Plot, Point, plain, value_name
from regard.viz.cells import cut, pad_left, pad_right, width
from regard.viz.panel import EIGHTHS, RESET
from regard.viz.svg import words as shown

MARKS = "●■▲◆○□△"
ANSI = (34, 33, 32, 35, 36, 31, 37)
"""Colours of the series, as numbers of the terminal, so that they fit its theme."""
HEIGHT = 12
"""Lines of a field with lines."""
LONGEST_NAME = 36


def plot_text(plot: Plot, columns: int = 80, colour: bool = False) -> str:
    """A plot as text of at most `columns` cells a line."""
    title = [cut(shown(part), columns) for part in (plot.title, plot.y) if part]
    drawn = bars_text(plot, columns, colour) if plot.kind == "bars" else lines_text(plot, columns, colour)
    return "\n".join([*title, *drawn])


def bars_text(plot: Plot, columns: int, colour: bool) -> list[str]:
    """One line for each bar: its name, the bar, its value; of several series, those of a group are together."""
    groups, order = plot.groups(), list(plot.series)
    points = [point for group in groups.values() for point in group.values()]
    several = len(order) > 1
    labels = [f"  {name}" for name in order] if several else list(groups)
    side = min(max(width(shown(label)) for label in labels), LONGEST_NAME, columns // 2)
    numbers = max(width(value_name(point)) for point in points)
    axis = Axis.of_points(points, max(8, columns - side - numbers - 3), "x" in plot.log or "y" in plot.log, bars=True)
    lines = []
    for name, group in groups.items():
        lines += [cut(shown(name), columns)] if several else []
        for kind, point in group.items():
            label = pad_right(cut(shown(f"  {kind}" if several else name), side), side)
            drawn = painted(bar_text(point, axis), order.index(kind), colour)
            lines.append(f"{label} {drawn} {value_name(point)}")
    return lines


def bar_text(point: Point, axis: Axis) -> str:
    """A bar in blocks of eighths; one of a negative value is shaded and ends at 0."""
    zero = 0.0 if axis.log else axis.place(0.0)
    left, right = sorted((zero, axis.bounded(point.mean)))
    if point.mean < 0:
        return " " * round(left) + "░" * max(1, round(right) - round(left))
    eighths = round((right - left) * 8)
    return " " * round(left) + ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip() or "▏"


def lines_text(plot: Plot, columns: int, colour: bool) -> list[str]:
    """The field with the numbers of its axes, and the names of the series below it."""
    points = [point for line in plot.series.values() for point in line]
    up = Axis.of_points(points, 4 * HEIGHT - 1, "y" in plot.log).rounded()
    marks = {HEIGHT - 1 - round(up.place(tick)) // 4: plain(tick) for tick in up.ticks()}
    side = max(width(mark) for mark in marks.values())
    cells = max(20, min(columns - side - 3, 100))
    where = plot.places()
    across = Axis.over(list(where.values()), 2 * cells - 1, "x" in plot.log and min(where.values()) > 0)
    field = _field(plot, across, up, where, cells, colour)
    lines = [
        f"{pad_left(marks.get(row, ''), side)} {'┤' if row in marks else '│'}{line}" for row, line in enumerate(field)
    ]
    ticks = {place: shown(x) if isinstance(x, str) else plain(x) for x, place in where.items()}
    below = ""
    for x in sorted(ticks):  # a name that would touch the one before it is left out
        start = min(max(0, round(across.place(x)) // 2 - width(ticks[x]) // 2), cells - width(ticks[x]))
        if not below or start > width(below):
            below = pad_right(below, start) + ticks[x]
    legend = "   ".join(f"{painted(MARKS[n % 7], n, colour)} {shown(name)}" for n, name in enumerate(plot.series))
    named = [f"{' ' * (side + 2)}{pad_left(cut(shown(plot.x), cells), cells)}"] if plot.x else []
    return [*lines, f"{' ' * side} └{'─' * cells}", f"{' ' * (side + 2)}{below}", *named, *_split(legend, columns)]


def _field(
    plot: Plot, across: Axis, up: Axis, where: Mapping[float | str, float], cells: int, colour: bool
) -> list[str]:
    """Lines in dots, and the mark of its series on each point; of what is at the same place, the last is seen."""
    letters = [[" "] * cells for _ in range(HEIGHT)]
    spots: list[tuple[int, int, str]] = []
    for order, line in enumerate(plot.series.values()):
        dots = np.zeros((4 * HEIGHT, 2 * cells), dtype=bool)
        places = [(round(across.place(where[p.x])), 4 * HEIGHT - 1 - round(up.bounded(p.mean))) for p in line]
        for start, end in pairwise(places):
            steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
            for step in range(steps + 1):
                x, y = (round(a + (b - a) * step / steps) for a, b in zip(start, end, strict=True))
                dots[y, x] = True
        for row, text in enumerate(braille(dots)):
            for column, letter in enumerate(text):
                if letter != " ":
                    letters[row][column] = painted(letter, order, colour)
        spots += [(x // 2, y // 4, painted(MARKS[order % 7], order, colour)) for x, y in places]
    for x, y, mark in spots if len(spots) <= 3 * cells else ():
        letters[y][x] = mark
    return ["".join(row).rstrip() for row in letters]


def _split(legend: str, columns: int) -> list[str]:
    """The legend in lines."""
    lines, used = [""], 0
    for part in legend.split("   "):
        length = width(re.sub("\x1b\\[[0-9]+m", "", part)) + 3
        if used and used + length > columns:
            lines, used = [*lines, ""], 0
        lines[-1] += ("   " if used else "") + part
        used += length
    return lines


def painted(text: str, order: int, colour: bool) -> str:
    """Text in the colour of a series."""
    return f"\x1b[{ANSI[order % 7]}m{text}{RESET}" if colour and text.strip() else text


def braille(dots: NDArray[np.bool_]) -> list[str]:
    """Draw a matrix of dots as lines of braille characters, each four dots high and two wide."""
    bits = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
    lines = []
    for top in range(0, dots.shape[0], 4):
        codes = np.zeros(dots.shape[1] // 2, dtype=np.int64)
        for dy in range(4):
            for dx in range(2):
                codes |= bits[dy][dx] * dots[top + dy, dx::2].astype(np.int64)
        lines.append("".join(chr(0x2800 + int(code)) if code else " " for code in codes))
    return lines
