"""Charts of the documentation: lines through points and groups of bars, as SVG files."""

from collections.abc import Mapping, Sequence

from regard.viz.axes import Axis, LogAxes, Plot, Point
from regard.viz.plots import bars, headings, names, plot_drawing
from regard.viz.svg import above_each_other, page

Points = Sequence[tuple[float, float]]
WIDE, HIGH = 480, 260  # of the field that lines are drawn in
LONGEST_BAR = 320


def chart_svg(series: Mapping[str, Points], title: str = "", x: str = "", y: str = "", log: LogAxes = "") -> str:
    """Lines through points (x, y), a name each; `log` names the axes that are logarithmic."""
    plot = Plot({name: [Point(a, b) for a, b in line] for name, line in series.items()}, title, x, y, log=log)
    if "y" in log:
        Axis.over([b for line in series.values() for _, b in line], HIGH, True)
    return page(plot_drawing(plot, (WIDE, HIGH), rounded=False))


def bars_svg(bars_of: Mapping[str, Mapping[str, float]], title: str = "", log: bool = False) -> str:
    """Bars from left to right: for each name one of every series it has a value of, with the value at its end.

    Several series are named below; of one alone the title says what it is.
    """
    series = list(dict.fromkeys(name for group in bars_of.values() for name in group))
    groups = {
        name: {kind: Point(name, value) for kind, value in group.items()} for name, group in bars_of.items()
    }  # fmt: skip
    drawn = bars(groups, series, log, LONGEST_BAR)
    legend = [names(series, WIDE, boxes=True)] if len(series) > 1 else []
    return page(above_each_other([*headings(title, WIDE), drawn, *legend]))
