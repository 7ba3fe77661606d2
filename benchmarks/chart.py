"""Numbers as lines or bars in one SVG, drawn as svg.py draws weights: nothing runs, nothing is fetched, same bytes.

Colours are those of Okabe and Ito (2008), which every eye tells apart; lines differ in their dashes as well.
"""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from regard.viz.svg import LINE, MARGIN, Drawing, above_each_other, measure, moved, number, page, text, words

Points = Sequence[tuple[float, float]]
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "", "7 3", "2 3")
WIDE, HIGH = 480, 260  # of the field that lines are drawn in
LONGEST_BAR = 320


@dataclass(frozen=True)
class Axis:
    """From numbers to pixels: `low` at 0, `high` at `size`."""

    low: float
    high: float
    size: float
    log: bool

    @classmethod
    def over(cls, values: Sequence[float], size: float, log: bool) -> "Axis":
        """An axis that all values are on; a logarithm has none for what is not above 0."""
        if not values or not all(map(math.isfinite, values)):
            raise ValueError("there is nothing to draw, or not all of it is numbers")
        low, high = min(values), max(values)
        if log and low <= 0:
            raise ValueError(f"{low:g} has no place on a logarithmic axis")
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - 1, high + 1)
        return cls(low, high, size, log)

    def place(self, value: float) -> float:
        bend = math.log if self.log else float
        return (bend(value) - bend(self.low)) / (bend(self.high) - bend(self.low)) * self.size

    def ticks(self) -> list[float]:
        """Round numbers, about six."""
        if self.log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for steps in ((1,), (1, 3), (1, 2, 5)):
                found = [step * 10.0**decade for decade in decades for step in steps]
                found = [tick for tick in found if self.low <= tick <= self.high]
                if len(found) >= 3:
                    return found[:: math.ceil(len(found) / 7)]
        rough = (self.high - self.low) / 5
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(times * unit for times in (1, 2, 2.5, 5, 10) if times * unit >= rough)
        first = math.ceil(self.low / step - 1e-9)
        return [round(n * step, 10) for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def chart_svg(
    series: Mapping[str, Points], title: str = "", x: str = "", y: str = "", log: Literal["", "x", "y", "xy"] = ""
) -> str:
    """Lines through points (x, y), a name each; `log` names the axes that are logarithmic."""
    points = [point for line in series.values() for point in line]
    across = Axis.over([point[0] for point in points], WIDE, "x" in log)
    heights = [point[1] for point in points]
    up = Axis.over(heights if "y" in log or min(heights) < 0 else [0.0, *heights], HIGH, "y" in log)
    marks = [plain(tick) for tick in up.ticks()]
    side = max(measure(mark) for mark in marks) + 8
    parts = [f'<path class="axis" d="M{number(side)} 0v{HIGH}h{WIDE}"/>']
    for tick, mark in zip(up.ticks(), marks, strict=True):
        high = HIGH - up.place(tick)
        parts.append(f'<path class="grid" d="M{number(side)} {number(high)}h{WIDE}"/>')
        parts.append(text(side - 6, high + 4, mark, 'text-anchor="end"'))
    for tick in places(across, {point[0] for point in points}):
        parts.append(text(side + across.place(tick), HIGH + 18, plain(tick), 'text-anchor="middle"'))
    for order, (name, line) in enumerate(series.items()):
        path = " ".join(f"{number(side + across.place(a))} {number(HIGH - up.place(b))}" for a, b in line)
        parts.append(f'<path {stroke(order)} d="M{path}"><title>{html.escape(words(name))}</title></path>')
        for a, b in line if len(line) <= 20 else ():
            told = html.escape(f"{words(name)}: {plain(a)}, {plain(b)}")
            spot = f'cx="{number(side + across.place(a))}" cy="{number(HIGH - up.place(b))}"'
            parts.append(f'<circle {spot} r="3" fill="{COLOURS[order % 7]}"><title>{told}</title></circle>')
    field = Drawing(side + WIDE + 20, HIGH + 24, "\n".join(parts))
    return page(above_each_other([*heading(title), *heading(y, bold=False), field, *under(x, side), names(series)]))


def bars_svg(bars: Mapping[str, Mapping[str, float]], title: str = "", log: bool = False) -> str:
    """Bars from left to right: for each name one of every series it has a value of, with the value at its end.

    Several series are named below; of one alone the title says what it is.
    """
    values = [value for group in bars.values() for value in group.values()]
    axis = Axis.over(values if log else [0.0, *values], LONGEST_BAR, log)
    series = list(dict.fromkeys(name for group in bars.values() for name in group))
    side = max(measure(words(name)) for name in bars) + 8
    parts, top = [], 0.0
    for name, group in bars.items():
        parts.append(text(side - 6, top + 12 + (len(group) - 1) * 8, words(name), 'text-anchor="end"'))
        for kind, value in group.items():
            long = max(1.0, axis.place(value))
            size = f'x="{number(side)}" y="{number(top)}" width="{number(long)}" height="14"'
            told = html.escape(f"{words(name)}, {words(kind)}: {plain(value)}")
            colour = COLOURS[series.index(kind) % 7]
            parts.append(f'<rect fill="{colour}" {size}><title>{told}</title></rect>')
            parts.append(text(side + long + 6, top + 12, plain(value)))
            top += 16
        top += 8
    reach = max(axis.place(value) + measure(plain(value)) for value in values)
    field = Drawing(side + reach + 12, top - 8, "\n".join(parts))
    return page(above_each_other([*heading(title), field, *([names(series, boxes=True)] if len(series) > 1 else [])]))


def places(axis: Axis, values: set[float]) -> list[float]:
    """Where the lower axis is named: at the points themselves where they are few and not too close, else round."""
    found = sorted(values)
    close = any(axis.place(b) - axis.place(a) < measure(plain(b)) + 6 for a, b in pairwise(found))
    return axis.ticks() if close else found


def heading(title: str, bold: bool = True) -> list[Drawing]:
    """A line of text, if there is one."""
    shown = words(title)
    kind = 'class="title"' if bold else ""
    return [Drawing(measure(shown), 14, text(0, 12, shown, kind))] if title else []


def under(name: str, side: float) -> list[Drawing]:
    """What the lower axis counts, in its middle."""
    shown = words(name)
    return [Drawing(side + WIDE, 12, text(side + WIDE / 2, 8, shown, 'text-anchor="middle"'))] if name else []


def names(series: Sequence[str] | Mapping[str, Points], boxes: bool = False) -> Drawing:
    """Which line or bar is which, from left to right and on as many lines as it takes."""
    parts, x, y, widest = [], 0.0, 0.0, 0.0
    for order, name in enumerate(series):
        shown = words(name)
        room = 30 + measure(shown)
        if x and x + room > WIDE + 60:
            x, y = 0.0, y + LINE
        mark = (
            f'<rect fill="{COLOURS[order % 7]}" x="6" y="0" width="14" height="14"/>'
            if boxes
            else f'<path {stroke(order)} d="M0 7h24"/>'
        )
        parts.append(moved(Drawing(room, LINE, mark + text(30, 12, shown)), x, y))
        widest = max(widest, x + room)
        x += room + MARGIN
    return Drawing(widest, y + 14, "\n".join(parts))


def stroke(order: int) -> str:
    dashes = f' stroke-dasharray="{DASHES[order % 7]}"' if DASHES[order % 7] else ""
    return f'class="line" stroke="{COLOURS[order % 7]}"{dashes}'


def plain(value: float) -> str:
    """A number to three digits; of a thousand or more all its digits but no fraction."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{float(f'{value:.3g}'):g}"
