"""Charts as SVG: positions and lengths follow the values."""

import re
import xml.etree.ElementTree as ET

import pytest
from benchmarks.chart import Axis, bars_svg, chart_svg
from hypothesis import given, settings
from hypothesis import strategies as st

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
