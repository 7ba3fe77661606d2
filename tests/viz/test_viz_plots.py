"""Charts as SVG: positions and lengths follow the values."""

import math
import re
import xml.etree.ElementTree as ET

import pytest
from benchmarks.charts import bars_svg, chart_svg
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.viz.test_viz_report import HOSTILE

from regard.viz.axes import Axis, LogAxes, Plot, Point
from regard.viz.cells import width
from regard.viz.plots import inline_svg, plots_svg, wrapped
from regard.viz.plots_text import plot_text

MODEST = settings(max_examples=60)
NAME = "{http://www.w3.org/2000/svg}"


def test_lines_rise_with_their_values() -> None:
    picture = chart_svg({"one <&>": [(1, 1.0), (2, 4.0), (3, 9.0)], "二": [(1, 2.0), (3, 2.0)]}, "t", "x", "y")
    spots = [(c.find(f"{NAME}title"), c) for c in ET.fromstring(picture).iter(f"{NAME}circle")]
    heights = [float(c.get("cy", "nan")) for title, c in spots if title is not None and "one" in (title.text or "")]
    assert heights == sorted(heights, reverse=True) and len(heights) == 3
    assert heights[0] - heights[1] == pytest.approx((heights[1] - heights[2]) * 3 / 5, abs=0.1)
    assert "二" in picture and "one &lt;&amp;&gt;" in picture


def test_a_power_is_a_straight_line_on_logarithmic_paper() -> None:
    picture = chart_svg({"square": [(x, x * x) for x in (1, 10, 100)]}, log="xy")
    (path,) = re.findall(r'class="line"[^>]* d="M([^"]*)"><title>', picture)
    x1, y1, x2, y2, x3, y3 = map(float, path.split())
    assert (y2 - y1) * (x3 - x2) == pytest.approx((y3 - y2) * (x2 - x1), rel=1e-3)
    with pytest.raises(ValueError, match="logarithmic"):
        chart_svg({"a": [(1, 0.0), (2, 1.0)]}, log="y")


def test_bars_are_as_long_as_their_values() -> None:
    picture = bars_svg({"LSTM": {"train": 10.0, "test": 20.0}, "循环": {"test": 5.0}}, "perplexity")
    bars = {
        (bar.find(f"{NAME}title").text or "").split(": ")[0]: float(bar.get("width", 0))  # type: ignore[union-attr]
        for bar in ET.fromstring(picture).iter(f"{NAME}rect")
        if bar.find(f"{NAME}title") is not None
    }
    assert bars["LSTM, train"] * 2 == bars["LSTM, test"] == bars["循环, test"] * 4
    tops = [float(bar.get("y", 0)) for bar in ET.fromstring(picture).iter(f"{NAME}rect") if bar.get("height") == "14"]
    assert [tops[1] - tops[0], tops[2] - tops[1]] == [16, 24], "bars do not overlap, and groups are apart"


@MODEST
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.booleans())
def test_ticks_are_on_the_axis_and_not_too_many(low: float, span: float, log: bool) -> None:
    axis = Axis.over([abs(low) + 0.1, abs(low) + 0.1 + span] if log else [low, low + span], 100, log)
    ticks = axis.ticks()
    assert len(ticks) <= 11
    assert ticks == sorted(set(ticks))
    assert all(-1e-6 <= axis.place(tick) <= 100 + 1e-6 for tick in ticks)


def test_bars_are_below_each_other_and_as_long_as_their_values() -> None:
    picture = bars_svg({"a": {"x": 10.0, "y": 5.0}, "bb": {"x": 2.5}})
    rects = re.findall(
        r'<rect fill="([^"]+)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="14"><title>([^<]*)<', picture
    )
    assert [float(top) for _, _, top, _, _ in rects] == [0, 16, 40], "16 pixels for a bar, 8 more between two names"
    assert len({left for _, left, _, _, _ in rects}) == 1
    wide = [float(width) for *_, width, _ in rects]
    assert wide[1] == pytest.approx(wide[0] / 2, abs=0.01) and wide[2] == pytest.approx(wide[0] / 4, abs=0.01)
    assert [told for *_, told in rects] == ["a, x: 10", "a, y: 5", "bb, x: 2.5"]
    colours = [colour for colour, *_ in rects]
    assert colours[0] == colours[2] != colours[1]
    names = dict(re.findall(r'<text x="[\d.]+" y="([\d.]+)" text-anchor="end">([^<]*)<', picture))
    assert names == {"20": "a", "52": "bb"}, "a name is beside the middle of its bars"


LINES = Plot(
    {"a": [Point(1, 1.0, 0.25), Point(2, 2.0), Point(4, 0.0)], HOSTILE: [Point(1, 3.0), Point(4, 5.0, 1.0)]},
    HOSTILE, HOSTILE, HOSTILE, log="xy",
)  # fmt: skip
BARS = Plot(
    {"a": [Point(HOSTILE, 1.0, 0.5), Point("二", -2.0)], "b": [Point("二", 4.0)]}, "t", kind="bars"
)  # fmt: skip
NAMED = Plot({"a": [Point("RNN", 1.0), Point("GRU", 2.0)]}, "t", "kind", "y")
NOTHING_POSITIVE = Plot({"a": [Point(0, 0.0), Point(1, 0.0)]}, log="xy")


def test_a_band_and_a_whisker_show_the_spread() -> None:
    picture = plots_svg([Plot({"a": [Point(1, 1.0, 0.5), Point(2, 1.0, 0.5)]})])
    (area,) = re.findall(r'fill-opacity="0.16" d="M([^"]*)z"', picture)
    heights = [float(part) for part in area.split()][1::2]
    (line,) = re.findall(r'class="line"[^>]* d="M([^"]*)"><title>', picture)
    middle = float(line.split()[1])
    assert heights[0] == heights[1] < middle < heights[2] == heights[3]
    assert middle - heights[0] == pytest.approx(heights[2] - middle, abs=0.01)
    bar = plots_svg([Plot({"a": [Point("x", 2.0, 1.0)]}, kind="bars")])
    ((low, high),) = re.findall(r'whisker"[^>]* d="M([\d.]+) 7H([\d.]+)M', bar)
    ((left, wide),) = re.findall(r'<rect fill="#0072b2" x="([\d.]+)" y="0" width="([\d.]+)"', bar)
    assert (float(high) + float(low)) / 2 == pytest.approx(float(left) + float(wide), abs=0.01)


def test_bars_of_negative_values_end_at_zero() -> None:
    picture = plots_svg([Plot({"a": [Point("x", 2.0), Point("y", -1.0)]}, kind="bars")])
    boxes = re.findall(r'<rect fill="#0072b2" x="([\d.]+)" y="\d+" width="([\d.]+)"', picture)
    (left, wide), (other, less) = [(float(x), float(w)) for x, w in boxes]
    assert other + less == pytest.approx(left, abs=0.01) and wide == pytest.approx(2 * less, abs=0.01)


@pytest.mark.parametrize("plot", [LINES, BARS, NAMED, NOTHING_POSITIVE])
def test_every_plot_is_drawn_as_svg_and_as_text(plot: Plot) -> None:
    for picture in (plots_svg([plot, plot, plot]), inline_svg(plot)):
        tags = {element.tag.removeprefix(NAME) for element in ET.fromstring(picture).iter()}
        assert tags <= {"svg", "style", "g", "path", "rect", "circle", "text", "title"}
    assert "<style" not in inline_svg(plot)
    for columns in (40, 80, 120):
        lines = plot_text(plot, columns).splitlines()
        assert max(map(width, lines)) <= max(columns, 60) and not any("\x1b" in line for line in lines)
    assert re.sub(r"\x1b\[\d+m", "", plot_text(plot, 80, colour=True)) == plot_text(plot, 80)


@pytest.mark.parametrize("log", ["", "x", "y", "xy"])
def test_points_in_the_terminal_stand_where_their_numbers_are(log: LogAxes) -> None:
    values = (1, 10, 100)
    lines = plot_text(Plot({"a": [Point(x, float(x)) for x in values]}, log=log), 106).splitlines()
    field, below = lines[:12], lines[13]
    spots = [(row, line.index("●")) for row, line in enumerate(field) if "●" in line]
    for (row, column), x in zip(reversed(spots), values, strict=True):
        share = math.log10(x) / 2 if "x" in log else (x - 1) / 99
        assert column - 5 == pytest.approx(share * 99, abs=1), "100 cells after the numbers, a blank and the line"
        height = math.log10(x) / 2 if "y" in log else x / 100
        assert 11 - row == pytest.approx(height * 11, abs=1)
    ticks = {int(line[:3]): row for row, line in enumerate(field) if "┤" in line}
    shared = {x: row for (row, _), x in zip(reversed(spots), values, strict=True) if x in ticks}
    assert shared == {x: ticks[x] for x in shared} and len(shared) == (3 if "y" in log else 1)
    names = [(int(match[0]), (match.start() + match.end()) / 2) for match in re.finditer(r"\d+", below)]
    for (x, middle), (_, column) in zip(names, reversed(spots), strict=True):
        assert x in values and middle == pytest.approx(column + 0.5, abs=1 + (x == 100))


def test_a_plot_as_a_table() -> None:
    columns, rows = BARS.table()
    assert columns == ["", "a", "b"] and rows == [[HOSTILE, "1 ± 0.5", "–"], ["二", "-2", "4"]]


def test_text_is_wrapped_at_blanks_and_between_chinese_characters() -> None:
    assert wrapped("one two three", 8 * 7.8) == ["one two", "three"]
    assert wrapped("注意力机制", 4 * 7.8) == ["注意", "力机", "制"]
    assert wrapped("", 50) == [""]


def test_a_rounded_axis_ends_at_a_tick() -> None:
    for high in (0.91, 1.0, 7.3, 100.5, 0.012):
        axis = Axis.over([0.0, high], 100, False).rounded()
        assert axis.high >= high and axis.ticks()[-1] == pytest.approx(axis.high)
    log = Axis.over([1.0, 70.0], 100, True)
    assert log.rounded() == log
