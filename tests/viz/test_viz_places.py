"""Places, scales, ticks and paths of pictures, read from the SVG and compared with numbers computed here."""

import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.viz.test_viz_tree import TREES, one

from regard.trees import Tree
from regard.viz.arcs import arcs_svg, arcs_text
from regard.viz.axes import Axis, LogAxes, Plot, Point, plain, value_name, x_name
from regard.viz.cells import width
from regard.viz.ladder import LadderPage, LadderRow, ladder_data
from regard.viz.plots import inline_svg, plots_svg, wrapped
from regard.viz.report import MAX_POINTS, MonitorCurve, Report, page_data, points_json
from regard.viz.svg import Panel, heatmap_svg, number, panels_svg
from regard.viz.tree import tree_svg

NAME = "{http://www.w3.org/2000/svg}"
LETTER, WIDE, HIGH = 7.8, 400, 220
MODEST = settings(max_examples=40)


def near(*values: float) -> Any:
    return pytest.approx(list(values), abs=0.02)


def near2(first: float, second: float) -> Any:
    return pytest.approx((first, second), rel=1e-6)


def floats(text: str | None) -> list[float]:
    return [float(value) for value in re.findall(r"-?\d+(?:\.\d+)?", text or "")]


def pairs(numbers: list[float]) -> list[list[float]]:
    return [numbers[n : n + 2] for n in range(0, len(numbers), 2)]


def values(element: ET.Element, *names: str) -> list[float]:
    return [float(element.get(name, "nan")) for name in names]


def elements(svg: str, tag: str, **attributes: str) -> list[ET.Element]:
    """The elements of a kind whose attributes are these; `class_` is the class."""
    wanted = {name.rstrip("_"): value for name, value in attributes.items()}
    found = ET.fromstring(svg).iter(f"{NAME}{tag}")
    return [element for element in found if all(element.get(name) == value for name, value in wanted.items())]


def texts(svg: str) -> dict[str, list[float]]:
    """The place of each text."""
    return {text.text or "": values(text, "x", "y") for text in elements(svg, "text")}


def tooltip(element: ET.Element) -> str:
    found = element.find(f"{NAME}title")
    return (found.text or "") if found is not None else ""


# ---- axes


def test_an_axis_of_negative_means_ends_at_zero_for_bars_only() -> None:
    points = [Point("a", -5.0, 1.0), Point("b", -3.0)]
    bars, lines = Axis.of_points(points, 10, False, bars=True), Axis.of_points(points, 10, False)
    assert (bars.low, bars.high) == (-6, 0) and (lines.low, lines.high) == (-6, -3)
    assert bars.place(0.0) == 10 and bars.place(-3.0) == 5 and lines.place(-3.0) == 10
    mixed = [Point(0, -2.0), Point(1, 4.0)]
    assert [(axis.low, axis.high) for axis in (Axis.of_points(mixed, 1, False, bars=b) for b in (True, False))] == [
        (-2, 4), (-2, 4),
    ]  # fmt: skip
    positive = Axis.of_points([Point(0, 2.0, 0.5), Point(1, 4.0)], 1, False)
    assert (positive.low, positive.high) == (0, 4), "an axis of positive values begins at 0"
    below = Axis.of_points([Point(0, 0.5, 2.0)], 1, False)
    assert (below.low, below.high) == (-1.5, 2.5), "a spread may reach below 0"


@pytest.mark.parametrize(
    ("points", "bars", "low", "high", "log"),
    [
        ([Point(0, 3.0), Point(1, 30.0)], False, 3, 30, True),
        ([Point(0, 3.0), Point(1, 30.0)], True, 1, 30, True),
        ([Point(0, 10.0), Point(1, 100.0)], True, 1, 100, True),
        ([Point(0, 0.0), Point(1, 30.0)], False, 10, 30, True),
        ([Point(0, -1.0), Point(1, 0.03)], False, 0.01, 0.03, True),
        ([Point(0, 3.0, 2.0), Point(1, 30.0, 5.0)], False, 3, 35, True),
        ([Point(0, 0.0), Point(1, -2.0)], False, -2, 0, False),
    ],
)
def test_logarithmic_axes(points: list[Point], bars: bool, low: float, high: float, log: bool) -> None:
    axis = Axis.of_points(points, 50, True, bars)
    assert (axis.low, axis.high) == near2(low, high) and axis.log == log


def test_places_on_an_axis() -> None:
    line, power = Axis(-2, 8, 50, False), Axis(1, 1000, 30, True)
    assert [line.place(value) for value in (-2, 0, 8, 10)] == [0, 10, 50, 60]
    assert [line.bounded(value) for value in (-9, 0, 10)] == [0, 10, 50]
    assert [power.place(value) for value in (1, 10, 1000)] == near(0, 10, 30)
    assert [power.bounded(value) for value in (0.1, -5.0, 1e6)] == near(0, 0, 30)
    same = Axis.over([4.0, 4.0], 1, False), Axis.over([4.0], 1, True)
    assert [(axis.low, axis.high) for axis in same] == [(3, 5), (2, 8)]
    for wrong, log in (([], False), ([math.nan], False), ([1.0, math.inf], False), ([0.0, 1.0], True), ([-1.0], True)):
        with pytest.raises(ValueError, match=r"numbers|logarithmic"):
            Axis.over(wrong, 1, log)


@pytest.mark.parametrize(
    ("low", "high", "log", "expected"),
    [
        (0, 10, False, [0, 2, 4, 6, 8, 10]),
        (0, 1, False, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0, 12, False, [0, 2.5, 5, 7.5, 10]),
        (-3, 7, False, [-2, 0, 2, 4, 6]),
        (0, 0.03, False, [0, 0.01, 0.02, 0.03]),
        (995, 1010, False, [995, 1000, 1005, 1010]),
        (1, 1000, True, [1, 10, 100, 1000]),
        (1, 50, True, [1, 3, 10, 30]),
        (2, 21, True, [2, 5, 10, 20]),
        (2, 9, True, [2, 4, 6, 8]),
        (1, 1e7, True, [1, 1e2, 1e4, 1e6]),
        (1, 1e12, True, [1, 1e2, 1e4, 1e6, 1e8, 1e10, 1e12]),
    ],
)
def test_ticks(low: float, high: float, log: bool, expected: list[float]) -> None:
    assert Axis(low, high, 100, log).ticks() == pytest.approx(expected)


def test_the_end_of_a_rounded_axis() -> None:
    ends = {(0, 9.1): 10, (0, 10): 10, (-3, 7): 8, (0, 0.012): 0.0125, (0, 101): 125}
    for (low, high), end in ends.items():
        rounded = Axis(low, high, 1, False).rounded()
        assert (rounded.low, rounded.high) == near2(low, end)
    log = Axis(1, 70, 1, True)
    assert log.rounded() == log


def test_names_of_numbers_and_places_of_names() -> None:
    assert [plain(value) for value in (0.0, 1234.5, -1234.5, 999.6, 1e7, 0.00012345, 2.0)] == [
        "0", "1,234", "-1,234", "1000", "1e+07", "0.000123", "2",
    ]  # fmt: skip
    assert [x_name(x) for x in ("a", 12345, 0.1234567)] == ["a", "12,345", "0.123457"]
    assert value_name(Point(0, 1.5, 0.25)) == "1.5 ± 0.25" and value_name(Point(0, 1.5)) == "1.5"
    numbers = Plot({"a": [Point(8, 1.0), Point(2, 2.0)], "b": [Point(4, 3.0)]})
    assert numbers.places() == {8: 8, 2: 2, 4: 4} and list(numbers.groups()) == ["2", "4", "8"]
    named = Plot({"a": [Point("x", 1.0), Point(2, 2.0)], "b": [Point("x", 3.0)]})
    assert named.places() == {"x": 0, 2: 1} and named.has_names and not numbers.has_names
    assert {name: list(group) for name, group in named.groups().items()} == {"x": ["a", "b"], "2": ["a"]}


# ---- plots

SERIES = {
    "one": [Point(1, 1.0, 0.5), Point(2, 4.0, 1.0), Point(5, 9.0)],
    "two": [Point(1, 2.5), Point(5, 7.5)],
}


def field(svg: str) -> tuple[float, list[float]]:
    """The left end of the axes, and the moves of their path."""
    (path,) = elements(svg, "path", class_="axis")
    side, *moves = floats(path.get("d"))
    return side, moves


def test_marks_are_where_their_values_are() -> None:
    svg = inline_svg(Plot(SERIES))
    side, moves = field(svg)
    assert moves == [0, HIGH, WIDE] and side == LETTER * len("10") + 8, "0 to 10 at the left"

    def spot(x: float, value: float) -> list[float]:
        return near(side + (x - 1) / (5 - 1) * WIDE, HIGH - value / 10 * HIGH)

    points = [(name, point) for name, line in SERIES.items() for point in line]
    circles = elements(svg, "circle")
    assert [values(circle, "cx", "cy") for circle in circles] == [spot(float(p.x), p.mean) for _, p in points]
    assert [tooltip(circle) for circle in circles] == [f"{name}: {p.x}, {value_name(p)}" for name, p in points]
    lines = [path for path in elements(svg, "path", class_="line") if tooltip(path)]
    for path, line in zip(lines, SERIES.values(), strict=True):
        assert pairs(floats(path.get("d"))) == [spot(float(p.x), p.mean) for p in line]
    (band,) = [path for path in elements(svg, "path") if path.get("fill-opacity") == "0.16"]
    wanted = [(1, 1.5), (2, 5.0), (5, 9.0), (5, 9.0), (2, 3.0), (1, 0.5)]
    assert pairs(floats(band.get("d"))) == [spot(x, value) for x, value in wanted]


def test_grid_and_numbers_of_the_axes() -> None:
    svg = inline_svg(Plot(SERIES))
    side, _ = field(svg)
    grid = [floats(path.get("d")) for path in elements(svg, "path", class_="grid")]
    assert grid == [near(side, HIGH - value * HIGH / 10, WIDE) for value in (0, 2, 4, 6, 8, 10)]
    placed = texts(svg)
    assert [placed[str(value)][1] for value in (0, 4, 6, 8, 10)] == near(*(HIGH + 4 - v * 22 for v in (0, 4, 6, 8, 10)))
    below = {t.text: values(t, "x", "y") for t in elements(svg, "text") if t.get("text-anchor") == "middle"}
    assert below == {
        "1": near(side, HIGH + 18), "2": near(side + WIDE / 4, HIGH + 18), "5": near(side + WIDE, HIGH + 18),
    }  # fmt: skip


def test_numbers_that_would_touch_become_ticks() -> None:
    svg = inline_svg(Plot({"a": [Point(x, 1.0) for x in range(101)]}))
    below = [text.text for text in elements(svg, "text") if text.get("text-anchor") == "middle"]
    assert below == ["0", "20", "40", "60", "80", "100"]
    assert elements(svg, "circle") == [], "dots would hide the line"
    assert len(elements(inline_svg(Plot({"a": [Point(x, 1.0) for x in range(20)]})), "circle")) == 20


@pytest.mark.parametrize("log", ["x", "y", "xy"])
def test_logarithmic_plots(log: LogAxes) -> None:
    svg = inline_svg(Plot({"a": [Point(1, 2.0), Point(10, 0.0), Point(100, 200.0)]}, log=log))
    side, _ = field(svg)
    across = [0, 1 / 2, 1] if "x" in log else [0, 9 / 99, 1]
    up = [math.log(2) / math.log(200), 0, 1] if "y" in log else [2 / 200, 0, 1]
    expected = [near(side + x * WIDE, HIGH - y * HIGH) for x, y in zip(across, up, strict=True)]
    assert [values(circle, "cx", "cy") for circle in elements(svg, "circle")] == expected


def test_series_have_their_own_colours_and_names() -> None:
    series = {f"series {n}": [Point(0, float(n)), Point(1, float(n))] for n in range(8)}
    svg = inline_svg(Plot(series))
    styles = [(path.get("stroke"), path.get("stroke-dasharray")) for path in elements(svg, "path") if tooltip(path)]
    assert len(set(styles[:7])) == 7 and styles[7] == styles[0]
    shown = elements(svg, "path", d="M0 7h24")
    assert [(path.get("stroke"), path.get("stroke-dasharray")) for path in shown] == styles


def test_titles_labels_and_names_are_around_the_field() -> None:
    svg = inline_svg(Plot({"one": SERIES["one"], "second": SERIES["two"]}, "Title", "time", "loss"))
    parts = list(ET.fromstring(svg))
    places = [floats(part.get("transform")) for part in parts]
    field_high = HIGH + 24
    heights = [14, 14, field_high, 12]  # a line of text takes 16 pixels, less what is below its letters
    assert places == [near(0, sum(heights[:n]) + 14 * n) for n in range(5)]
    side, _ = field(svg)
    label = [values(text, "x", "y") for text in parts[3].iter(f"{NAME}text")]
    assert label == [near(side + WIDE / 2, 8)] and texts(svg)["Title"] == texts(svg)["loss"] == [0, 12]
    names = [floats(group.get("transform")) for group in parts[4]]
    assert names == [near(0, 0), near(30 + LETTER * len("one") + 14, 0)]
    assert texts(svg)["one"] == texts(svg)["second"] == [30, 12]
    long = inline_svg(Plot({"a": SERIES["one"]}, "word " * 30))
    rows = [values(text, "x", "y") for text in elements(long, "text", class_="title")]
    assert len(rows) > 1 and rows == [near(0, 12 + 16 * n) for n in range(len(rows))]
    assert floats(list(ET.fromstring(long))[1].get("transform")) == near(0, 16 * len(rows) - 2 + 14)


def test_names_that_do_not_fit_begin_a_new_line() -> None:
    svg = inline_svg(Plot({f"a rather long name {n}": SERIES["one"] for n in range(3)}))
    length = 30 + LETTER * len("a rather long name 0")
    places = [floats(group.get("transform")) for group in list(ET.fromstring(svg))[-1]]
    assert places == [near(0, 0), near(length + 14, 0), near(0, 20)]


def test_bars_of_both_signs_and_their_whiskers() -> None:
    points = {"p": Point("p", 6.0, 1.5), "qq": Point("qq", -3.0, 0.5), "zero": Point("zero", 0.0)}
    svg = inline_svg(Plot({"a": list(points.values())}, kind="bars"))
    unit, side = (WIDE - 120) / (7.5 + 3.5), LETTER * 4 + 8
    zero = side + 3.5 * unit
    bars = {tooltip(bar).split(",")[0]: values(bar, "x", "y", "width") for bar in elements(svg, "rect")}
    assert bars == {
        "p": near(zero, 0, 6 * unit), "qq": near(zero - 3 * unit, 24, 3 * unit), "zero": near(zero, 48, 1),
    }  # fmt: skip
    whiskers = [floats(path.get("d")) for path in elements(svg, "path", class_="axis whisker")]
    assert whiskers[0] == near(
        zero + 4.5 * unit, 7, zero + 7.5 * unit, zero + 4.5 * unit, 4, 6, zero + 7.5 * unit, 4, 6
    )
    assert whiskers[1][:3] == near(zero - 3.5 * unit, 31, zero - 2.5 * unit) and len(whiskers) == 2
    placed = texts(svg)
    assert placed["6 ± 1.5"] == near(zero + 7.5 * unit + 6, 12), "after the whisker"
    assert placed["-3 ± 0.5"] == near(zero + 6, 36) and placed["0"] == near(zero + 1 + 6, 60)
    assert [placed[name] for name in points] == [near(side - 6, y) for y in (12, 36, 60)]


def test_long_names_are_above_their_bars() -> None:
    long = "a name that is longer than its bars are"
    svg = inline_svg(Plot({"a": [Point(long, 2.0), Point("b", 1.0)], "c": [Point("b", 4.0)]}, kind="bars"))
    bars = [values(bar, "x", "y", "width") for bar in elements(svg, "rect") if tooltip(bar)]
    unit = (WIDE - 120) / 4
    assert bars == [near(0, 18, 2 * unit), near(0, 60, unit), near(0, 76, 4 * unit)]
    assert texts(svg)[long] == [0, 12] and texts(svg)["b"] == [0, 54]


def test_plots_stand_beside_and_below_each_other() -> None:
    plot = Plot({"a": [Point(0, 1.0), Point(1, 2.0)]})
    root = ET.fromstring(plots_svg([plot] * 3))
    single = floats(inline_svg(plot).split("viewBox=")[1])
    wide, high = single[2] - 4, single[3] - 4
    assert values(root, "width", "height") == near(2 * wide + 28 + 28, 2 * high + 28 + 28)
    moves = [floats(group.get("transform")) for group in root.iter(f"{NAME}g")]
    assert near(wide + 28, 0) in moves and near(0, high + 28) in moves


# ---- matrices


def test_the_places_of_a_heat_map() -> None:
    weights = np.array([[1.0, 0.5, 0.25], [0.75, 0.125, 0.0]])
    svg = heatmap_svg(weights, ["aa", "注意"], ["x", "long", "z"], "T")
    side, top = LETTER * 4 + 8, LETTER * 4 * 0.71 + 10 + 20
    cells = {tooltip(cell): values(cell, "x", "y", "width", "height", "fill-opacity") for cell in elements(svg, "rect")}
    for (row, column), weight in np.ndenumerate(weights[:, :3]):
        name = f"{['aa', '注意'][row]} → {['x', 'long', 'z'][column]}: {weight:.3f}"
        assert (name in cells) == (weight > 0)
        if weight:
            assert cells[name][:4] == near(side + 22 * column, top + 22 * row, 22, 22)
            assert cells[name][4] == pytest.approx(weight, abs=0.006)
    placed = texts(svg)
    assert placed["aa"] == near(side - 6, top + 15) and placed["注意"] == near(side - 6, top + 37)
    for n, name in enumerate(["x", "long", "z"]):
        assert placed[name] == near(side + 22 * n + 14, top - 6)
    turned = [floats(text.get("transform")) for text in elements(svg, "text") if text.get("transform")]
    assert turned == [near(-45, side + 22 * n + 14, top - 6) for n in range(3)]
    legend = [move for g in elements(svg, "g") if (move := floats(g.get("transform"))) != [14, 14] and move != [0, 0]]
    assert legend == [near(side, top + 44 + 10)]
    labels = [side + 22 * n + 14 + 0.71 * LETTER * len(name) + 6 for n, name in enumerate(["x", "long", "z"])]
    wide = max(side + 66, *labels, side + 3 * 19 + 2 * 12 + LETTER * len("00.51"))
    assert values(ET.fromstring(svg), "width", "height") == near(wide + 28, top + 44 + 24 + 28)


def test_rows_of_panels() -> None:
    panel = Panel([[1.0]], ["a"], ["b"])
    alone = ET.fromstring(heatmap_svg([[1.0]], ["a"], ["b"]))
    wide, high = (value - 28 for value in values(alone, "width", "height"))
    root = ET.fromstring(panels_svg([panel] * 5, across=2))
    assert values(root, "width", "height") == near(2 * wide + 28 + 28, 3 * high + 2 * 14 + 28)
    moves = [floats(group.get("transform")) for group in root.iter(f"{NAME}g")]
    assert moves.count(near(wide + 28, 0)) == 2
    assert [near(0, n * (high + 14)) in moves for n in (1, 2, 3)] == [True, True, False]


def test_words_are_not_broken() -> None:
    assert wrapped("abcdef ghij klm", 8 * LETTER) == ["abcdef", "ghij klm"]


def test_coordinates_have_two_digits() -> None:
    assert [number(value) for value in (1.0, 0.126, -3.333, 99.999, 1234.5)] == ["1", "0.13", "-3.33", "100", "1234.5"]


# ---- arcs and trees

WORDS, HEADS = ["Ada", "saw", "the", "老狗", "."], [2, 0, 4, 2, 2]
RELATIONS = ["nsubj", "root", "det", "obj", "punct"]


def test_arcs_are_where_the_terminal_has_them() -> None:
    drawn, svg = arcs_text(WORDS, HEADS, RELATIONS, 200).split("\n"), arcs_svg(WORDS, HEADS, RELATIONS)

    def columns(line: str, signs: str) -> list[int]:
        return [width(line[:n]) for n, sign in enumerate(line) if sign in signs]

    bottom = 24 * (len(drawn) - 2)
    arrows = sorted(floats(path.get("d"))[:2] for path in elements(svg, "path", class_="more"))
    assert arrows == [near(LETTER * (column + 0.5), bottom) for column in columns(drawn[-2], "▼")]
    paths = [floats(path.get("d")) for path in elements(svg, "path", class_="axis")]
    arcs = [path for path in paths if len(path) > 4]
    for level, line in enumerate(reversed(drawn[1:-2]), 1):
        spans = list(zip(columns(line, "┌"), columns(line, "┐"), strict=True))
        found = sorted((path[0], path[7] + 6) for path in arcs if path[2] == bottom - 24 * level + 6)
        assert found == [near2(LETTER * (a + 0.5), LETTER * (b + 0.5)) for a, b in spans]
        for name in re.findall(r"[a-z]+", line):
            start = width(line[: line.index(name)])
            (a, b) = next(span for span in spans if span[0] < start < span[1])
            assert texts(svg)[name] == near(LETTER * (a + b + 1) / 2, bottom - 24 * level - 3)
    for word in WORDS:
        assert texts(svg)[word] == near(LETTER * width(drawn[-1][: drawn[-1].index(word)]), bottom + 18)
    (root,) = [path for path in paths if len(path) == 3]
    middle = LETTER * (width(drawn[0][: drawn[0].index("root")]) + 0.5)
    assert root == near(middle, 0, bottom) and texts(svg)["root"] == near(middle + 6, 11)


def test_arcs_above_arcs_in_a_terminal() -> None:
    assert arcs_text(WORDS, HEADS, RELATIONS, 200).split("\n") == [
        "        root",
        "        │┌────punct─────┐",
        "        ││┌───obj───┐   │",
        " ┌nsubj┐│││   ┌det─┐│   │",
        " ▼     │▼││   ▼    │▼   ▼",
        "Ada    saw   the  老狗  .",
    ]


@MODEST
@given(TREES)
def test_branches_lead_from_boxes_to_names(tree: Tree) -> None:
    svg = tree_svg(tree)
    boxes = [values(box, "x", "y", "width") for box in elements(svg, "rect", class_="empty")]
    names = [values(text, "x", "y") for text in elements(svg, "text")]
    middles = [near(x + wide / 2, y + 14.5) for x, y, wide in boxes]
    phrases = [values(text, "x", "y") for text in elements(svg, "text", class_="title")]
    assert phrases == middles, "a phrase is in the middle of its box"
    ends = []
    for path in elements(svg, "path", class_="axis"):
        x, y, turn, across, end = floats(path.get("d"))
        assert any(abs(left + wide / 2 - x) <= LETTER and top + 20 == y for left, top, wide in boxes)
        assert turn == y + 10, "half way to the next level"
        ends.append([across, end + 14.5])
    below = sorted([x, y] for x, y in names if y > min(y for _, y in names))
    assert np.array(sorted(ends)) == pytest.approx(np.array(below), abs=0.02), "a branch ends above each name"
    words = sorted(x for x, y in names if y == max(y for _, y in names))
    assert all(a < b for a, b in pairwise(words))


def test_the_levels_and_columns_of_a_tree() -> None:
    svg = tree_svg(one("(ROOT (S (NP (DT the) (NN 猫)) (VP (V saw))))"))
    the, cat, saw = 0, 3 + 3, 3 + 3 + 2 + 3
    middles = {"the": 6 + LETTER * (the + 1.5), "猫": 6 + LETTER * (cat + 1), "saw": 6 + LETTER * (saw + 1.5)}
    placed = texts(svg)
    assert {name: placed[name] for name in middles} == {name: near(x, 94.5) for name, x in middles.items()}
    assert [placed[name][1] for name in ("NP", "VP", "S")] == [54.5, 54.5, 14.5]
    assert values(ET.fromstring(svg), "width", "height") == near(LETTER * 14 + 12 + 28, 2 * 40 + 20 + 28)


# ---- the values of pages


def test_the_numbers_of_a_ladder() -> None:
    rows = [
        LadderRow("a", "", {"bleu": [10.0, 20.0], "perplexity": [4.0], "flops": [3e12, 5e12]}),
        LadderRow("b", "", {"bleu": [45.0], "perplexity": [2.0]}),
        LadderRow("c", "", {"bleu": [-3.0], "perplexity": [2.0]}),
        LadderRow("d", "", {"exact": [0.0]}),
    ]
    data = ladder_data(LadderPage("t", rows))
    cells = [row["cells"] for row in data["rows"]]
    assert data["columns"] == ["bleu", "exact", "perplexity", "flops"]
    assert [cell["bleu"] and cell["bleu"]["share"] for cell in cells] == [0.333, 1.0, 0.0, None]
    assert [cell["bleu"] and cell["bleu"]["best"] for cell in cells] == [False, True, False, None]
    assert [cell["perplexity"] and cell["perplexity"]["best"] for cell in cells] == [False, True, True, None]
    assert cells[0]["bleu"]["deviation"] == f"{np.std([10, 20], ddof=1):.1f}" and cells[1]["bleu"]["deviation"] is None
    assert cells[0]["flops"] == {"mean": "4.00", "deviation": "1.41", "best": False, "share": None}
    assert cells[3]["exact"] == {"mean": "0.0", "deviation": None, "best": False, "share": None}, "no bar of nothing"


def test_the_numbers_of_a_report() -> None:
    curve = [(1, 0.123456789), (2, math.inf), (3, 1e-9)]
    monitor = MonitorCurve("bleu", [(1, 2.0)], 1)
    data = page_data(Report("t", curves={"train": curve, "none": []}, monitor=monitor, scores=[("x", math.nan, "s")]))
    assert data["curves"] == [{"name": "train", "points": [[1, 0.123457], [2, None], [3, 1e-9]]}]
    assert data["monitor"] == {"name": "bleu", "points": [[1, 2]], "best": 1} and data["scores"] == [["x", None, "s"]]
    assert page_data(Report("t", monitor=MonitorCurve("bleu", [])))["monitor"] is None


def test_a_thinned_curve_keeps_its_ends() -> None:
    values = [5.0, *([9.0, 1.0] * (2 * MAX_POINTS)), 4.0]
    points = points_json([(float(n), value) for n, value in enumerate(values)])
    assert len(points) <= MAX_POINTS
    assert points[0] == [0, 5] and points[-1] == [len(values) - 1, 4]
