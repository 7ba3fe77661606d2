"""Numbers as lines or bars in one SVG, drawn as svg.py draws weights: nothing runs, nothing is fetched, same bytes.

Colours are those of Okabe and Ito (2008), which every eye tells apart; lines differ in their dashes as well. A band
around a line and a whisker on a bar show the spread. A value that is not positive is drawn at the end of a logarithmic
axis.
"""

import html
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from regard.viz.axes import Axis, Plot, Point, plain, value_name, x_name
from regard.viz.cells import graphemes
from regard.viz.svg import LINE, MARGIN, Drawing, above_each_other, beside, measure, moved, number, page, text, words

Spot = Callable[[Point, float], str]
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "", "7 3", "2 3")
LONGEST_SIDE = 200
"""Pixels of the longest name that is beside its bars; longer names are above them."""
MAX_DOTS = 20
SMALL = (400, 220)
"""The field of a plot among several, in pixels."""


def plots_svg(plots: Sequence[Plot]) -> str:
    """Plots in one picture, two in a row."""
    drawn = [plot_drawing(plot) for plot in plots]
    rows = [beside(drawn[start : start + 2]) for start in range(0, len(drawn), 2)]
    apart = [Drawing(row.width, row.height + MARGIN, row.body) for row in rows[:-1]]
    return page(above_each_other([*apart, rows[-1]]))


def inline_svg(plot: Plot) -> str:
    """A plot as an element of a page, whose style colours it."""
    drawing = plot_drawing(plot)
    wide, high = number(drawing.width + 4), number(drawing.height + 4)
    size = f'width="{wide}" height="{high}" viewBox="-2 -2 {wide} {high}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} class="chart" role="img">{drawing.body}</svg>'


def plot_drawing(plot: Plot, field: tuple[int, int] = SMALL, rounded: bool = True) -> Drawing:
    """A plot with its title, the names of its axes and of its series; `rounded`: the axis ends at a round number."""
    if plot.kind == "bars":
        # a bar chart has no lower axis: its title says what the bars are
        several = len(plot.series) > 1
        title = [*headings(plot.title, field[0]), *headings(plot.y, field[0], bold=False)]
        body = bars(plot.groups(), list(plot.series), "x" in plot.log or "y" in plot.log, field[0] - 120)
        return above_each_other([*title, body, *([names(list(plot.series), field[0], boxes=True)] if several else [])])
    drawing, side = lines(plot, field, rounded)
    title = [*headings(plot.title, side + field[0]), *headings(plot.y, side + field[0], bold=False)]
    return above_each_other([*title, drawing, *x_label(plot.x, side, field[0]), names(list(plot.series), field[0])])


def lines(plot: Plot, field: tuple[int, int], rounded: bool) -> tuple[Drawing, float]:
    """The field with its axes, bands, lines and dots; and the width of the numbers left of it."""
    wide, high = field
    up = Axis.of_points([point for line in plot.series.values() for point in line], high, "y" in plot.log)
    up = up.rounded() if rounded else up
    where = plot.places()
    across = Axis.over(list(where.values()), wide, "x" in plot.log and min(where.values()) > 0)
    points = sorted(where.values())
    close = any(across.place(b) - across.place(a) < measure(plain(b)) + 6 for a, b in pairwise(points))
    ticks = {tick: plain(tick) for tick in (across.ticks() if close else points)}  # at the points if there is room
    ticks = {x: str(name) for name, x in where.items()} if plot.has_names else ticks
    parts, side = axes(up, across, ticks)

    def spot(point: Point, value: float) -> str:
        return f"{number(side + across.place(where[point.x]))} {number(high - up.bounded(value))}"

    for order, (name, line) in enumerate(plot.series.items()):
        parts += [*band(line, order, spot), *curve(name, line, order, spot)]
    return Drawing(side + wide + 20, high + 24, "\n".join(parts)), side


def axes(up: Axis, across: Axis, ticks: Mapping[float, str]) -> tuple[list[str], float]:
    """The axes with their numbers and the lines of a grid; and the width of the numbers at the left."""
    wide, high = int(across.size), int(up.size)
    marks = [plain(tick) for tick in up.ticks()]
    side = max(measure(mark) for mark in marks) + 8
    parts = [f'<path class="axis" d="M{number(side)} 0v{high}h{wide}"/>']
    for tick, mark in zip(up.ticks(), marks, strict=True):
        height = high - up.place(tick)
        parts.append(f'<path class="grid" d="M{number(side)} {number(height)}h{wide}"/>')
        parts.append(text(side - 6, height + 4, mark, 'text-anchor="end"'))
    for x, mark in ticks.items():
        parts.append(text(side + across.place(x), high + 18, words(mark), 'text-anchor="middle"'))
    return parts, side


def curve(name: str, line: Sequence[Point], order: int, spot: Spot) -> list[str]:
    """A line through the means, and a dot with its numbers on each if they are few."""
    path = f"M{' '.join(spot(point, point.mean) for point in line)}" if line else ""
    parts = [f'<path {stroke(order)} d="{path}"><title>{html.escape(words(name))}</title></path>']
    for point in line if len(line) <= MAX_DOTS else ():
        tooltip = html.escape(f"{words(name)}: {words(x_name(point.x))}, {value_name(point)}")
        x, y = spot(point, point.mean).split()
        parts.append(f'<circle cx="{x}" cy="{y}" r="3" fill="{colour(order)}"><title>{tooltip}</title></circle>')
    return parts


def band(line: Sequence[Point], order: int, spot: Spot) -> list[str]:
    """The area between mean - spread and mean + spread; a vertical line if there is only one point."""
    if not any(point.spread for point in line):
        return []
    above = [spot(point, point.mean + point.spread) for point in line]
    below = [spot(point, point.mean - point.spread) for point in reversed(line)]
    style = (
        f'class="line" stroke="{colour(order)}"' if len(line) == 1 else f'fill="{colour(order)}" fill-opacity="0.16"'
    )
    return [f'<path {style} d="M{" ".join([*above, *below])}z"/>']


def bars(groups: Mapping[str, Mapping[str, Point]], series: Sequence[str], log: bool, longest: int) -> Drawing:
    """Groups of bars below each other; a name is beside its bars, or above them if it is long."""
    points = [point for group in groups.values() for point in group.values()]
    axis = Axis.of_points(points, longest, log, bars=True)
    widest = max(measure(words(name)) for name in groups)
    is_beside = widest + 8 <= LONGEST_SIDE
    side = widest + 8 if is_beside else 0.0
    parts, top, reach = [], 0.0, 0.0 if is_beside else widest
    for name, group in groups.items():
        if is_beside:
            parts.append(text(side - 6, top + 12 + (len(group) - 1) * 8, words(name), 'text-anchor="end"'))
        else:
            parts.append(text(0, top + 12, words(name)))
            top += 18
        for kind, point in group.items():
            tooltip = html.escape(f"{words(name)}, {words(kind)}: {value_name(point)}")
            drawn, end = bar(point, axis, side, top, colour(series.index(kind)), tooltip)
            parts += [drawn, text(end + 6, top + 12, value_name(point))]
            reach = max(reach, end + measure(value_name(point)))
            top += 16
        top += 8
    return Drawing(reach + 12, top - 8, "\n".join(parts))


def bar(point: Point, axis: Axis, side: float, top: float, fill: str, tooltip: str) -> tuple[str, float]:
    """A bar from 0, or from the low end of a logarithmic axis, with its whisker; and where it ends."""
    zero = 0.0 if axis.log else axis.place(0.0)
    left, right = sorted((zero, axis.bounded(point.mean)))
    size = f'x="{number(side + left)}" y="{number(top)}" width="{number(max(1.0, right - left))}" height="14"'
    drawn = f'<rect fill="{fill}" {size}><title>{tooltip}</title></rect>'
    if not point.spread:
        return drawn, side + left + max(1.0, right - left)
    low, high = (side + axis.bounded(point.mean + sign * point.spread) for sign in (-1, 1))
    ends = "".join(f"M{number(end)} {number(top + 4)}v6" for end in (low, high))
    whisker = f'<path class="axis whisker" stroke-width="2" d="M{number(low)} {number(top + 7)}H{number(high)}{ends}"/>'
    return f"{drawn}{whisker}", max(side + right, high)


def headings(title: str, room: float, bold: bool = True) -> list[Drawing]:
    """Lines of text, as many as the title takes."""
    rows = wrapped(words(title), max(room, 200))
    kind = 'class="title"' if bold else ""
    shown = "\n".join(text(0, 12 + 16 * order, row, kind) for order, row in enumerate(rows))
    return [Drawing(max(map(measure, rows)), 16 * len(rows) - 2, shown)] if title else []


def wrapped(shown: str, room: float) -> list[str]:
    """A text in lines of at most `room` pixels, broken at spaces or beside characters of two cells."""
    rows, row, word = [], "", ""
    for grapheme in [*graphemes(shown), " "]:
        word += grapheme
        if grapheme == " " or measure(grapheme) > measure("x"):
            if row and measure((row + word).rstrip()) > room:
                rows.append(row.rstrip())
                row = ""
            row, word = row + word, ""
    return [*rows, row.rstrip()]


def x_label(name: str, side: float, wide: int) -> list[Drawing]:
    """The x-axis label, centred."""
    rows = wrapped(words(name), wide)
    lines = [text(side + wide / 2, 8 + 16 * order, row, 'text-anchor="middle"') for order, row in enumerate(rows)]
    return [Drawing(side + wide, 16 * len(rows) - 4, "\n".join(lines))] if name else []


def names(series: Sequence[str], room: float, boxes: bool = False) -> Drawing:
    """Which line or bar is which, from left to right and on as many lines as it takes."""
    parts, x, y, widest = [], 0.0, 0.0, 0.0
    for order, name in enumerate(series):
        shown = words(name)
        length = 30 + measure(shown)
        if x and x + length > room + 60:
            x, y = 0.0, y + LINE
        mark = (
            f'<rect fill="{colour(order)}" x="6" y="0" width="14" height="14"/>'
            if boxes
            else f'<path {stroke(order)} d="M0 7h24"/>'
        )
        parts.append(moved(Drawing(length, LINE, mark + text(30, 12, shown)), x, y))
        widest = max(widest, x + length)
        x += length + MARGIN
    return Drawing(widest, y + 14, "\n".join(parts))


def stroke(order: int) -> str:
    """The colour and dashes of a line."""
    dashes = f' stroke-dasharray="{DASHES[order % 7]}"' if DASHES[order % 7] else ""
    return f'class="line" stroke="{colour(order)}"{dashes}'


def colour(order: int) -> str:
    """The colour of a series."""
    return COLOURS[order % 7]
