"""Pictures and drawings, place by place: they equal the files in tests/viz/pictures, and the lines below.

After a wanted change, look at the new picture and write it to its file.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.viz.test_viz_tree import one

from regard.viz.cells import cut, graphemes, visible
from regard.viz.panel import Screen, bar
from regard.viz.svg import Panel, heatmap_svg, panels_svg
from regard.viz.terminal import MAX_ROWS, heatmap
from regard.viz.tree import tree_svg

PICTURES = Path(__file__).parent / "pictures"
SMALL = Panel([[1.0]], ["a"], ["x"])
WIDE = Panel([[0.002, 4.0]], ["long" * 9], ["x", "猫"], "a much longer title than the matrix", 2.0)
DRAWN: dict[str, Callable[[], str]] = {
    "heatmap": lambda: heatmap_svg([[1.0, 0.25], [0.0, -0.5]], ["a", "bb"], ["x", "yyy"], "T"),
    "panels": lambda: panels_svg([SMALL, WIDE, SMALL], across=2),
    "tree": lambda: tree_svg(one("(ROOT (S (NP (DT the)) (VP (V a) (V 猫))))"), "T"),
    "word": lambda: tree_svg(one("(ROOT (X a))")),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_as_it_was_seen(name: str) -> None:
    assert DRAWN[name]() == (PICTURES / f"{name}.svg").read_text(encoding="utf-8")


def test_heat_maps_in_a_terminal() -> None:
    weights = [[1.0, 0.25, 0.0], [0.0, 0.5, 0.6]]
    drawn = heatmap(weights, ["a", "bb"], ["x", "yyy", "z"], width=9, colour=False).split("\n")
    legend = ["", "   · 0  ░ 0.2  ░░ 0.4  ▒▒ 0.6  ▓▓ 0.8  ██ 1"]
    assert drawn == ["     y", "     y", "   x y z", " a ██░ ·", "bb · ░░▒▒", *legend]
    drawn = heatmap(weights, ["a", "bb"], ["x", "yyy", "z"], width=8, colour=False).split("\n")
    assert drawn == ["   x …", " a ██…", "bb · …", *legend, "   … only 1 of 3 columns shown"]
    wide = heatmap(weights[:1], ["abcdefgh"], ["x", "y", "z"], width=12, colour=False).split("\n")
    assert wide[:2] == ["     x y z", "abc… ██░ ·"]
    rows = [str(n) for n in range(MAX_ROWS + 1)]
    lines = heatmap(np.ones((len(rows), 1)), rows, ["x"], width=30, colour=False).split("\n")
    assert lines[MAX_ROWS] == "79 ██" and lines[MAX_ROWS + 1] == " …" and lines[-1] == "   … only 80 of 81 rows shown"
    exactly = heatmap(np.ones((MAX_ROWS, 1)), rows[:-1], ["x"], width=30, colour=False)
    assert "…" not in exactly


def test_colours_of_a_heat_map() -> None:
    first, row, *_ = heatmap([[1.0, 0.25, 0.25, 2.0, -1.0]], ["a"], list("vwxyz"), width=40).split("\n")
    light, low, dark = "\x1b[48;2;246;226;128m", "\x1b[48;2;28;66;94m", "\x1b[48;2;24;28;38m"
    ramp = heatmap([[0.5, 0.75]], ["a"], ["x", "y"], width=40).split("\n")[1]
    assert ramp == "a \x1b[48;2;24;122;138m  \x1b[48;2;92;184;148m  \x1b[0m"
    assert (first, row) == ("  v w x y z", f"a {light}  {low}    {light}  {dark}  \x1b[0m")


def test_bars_tags_and_marks() -> None:
    assert [bar(share) for share in (-1.0, 0.0, 0.003, 1 / 24, 1.5 / 24, 2.0)] == ["", "", "▏", "█", "█▌", "█" * 24]
    coloured = Screen(colour=True, columns=50).bars([("a", 0.0), ("b\n", 1.0)], best=1).split("\n")
    assert coloured[0] == f"  a   \x1b[36m{' ' * 24}\x1b[0m   0%"
    assert coloured[1] == f"→ \x1b[1mb \x1b[0m  \x1b[36m{'█' * 24}\x1b[0m 100%"
    narrow = Screen(colour=False, columns=40).bars([("abcdefghij", 0.5)])
    assert narrow.startswith("→ abcdefg…  ")
    assert Screen(colour=False, columns=45).bars([("abcdefghij", 0.5)]).startswith("→ abcdefghij  ")
    assert Screen(colour=False).bars([]) == ""
    screen = Screen(colour=False, columns=8)
    assert screen.tags([("abc", "O"), ("def", "N")]) == "abc def\n    N" and screen.tags([]) == "\n"
    assert screen.tags([("abc", "O"), ("defg", "N")]) == "abc\n\ndefg\nN"
    assert Screen(colour=True, columns=9).tags([("a", "X")]) == "a\n\x1b[1mX\x1b[0m"
    text = "x" * 160 + "HERE" + "y" * 160
    assert screen.marked(text, 160, 164) == f"{'x' * 160}[[HERE]]{'y' * 160}"
    assert screen.marked("x" + text + "y", 161, 165) == f"…{'x' * 160}[[HERE]]{'y' * 160}…"
    assert Screen(colour=True).marked("a\tb", 0, 1) == "\x1b[1ma\x1b[0m b"


def test_cells_at_their_borders() -> None:
    assert [cut("abcd", limit) for limit in (0, 1, 2, 3, 4, 5)] == ["", "…", "a…", "ab…", "abcd", "abcd"]
    assert [cut("猫猫", limit) for limit in (1, 2, 3, 4)] == ["…", "…", "猫…", "猫猫"]
    assert visible("\x00\x1f\x7f\x80\u2028\ue000\u00a0") == "␀␟␡\ufffd␣\ufffd␣"
    assert graphemes("🇨🇳🇫") == ["🇨🇳", "🇫"] and graphemes("a🏽") == ["a", "🏽"] and graphemes("👍🏿") == ["👍🏿"]
    assert graphemes("a\u200db") == ["a\u200d", "b"] and graphemes("\ud7b0x") == ["\ud7b0", "x"]
