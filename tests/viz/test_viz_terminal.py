"""Attention and curves as text: columns line up, what is cut is said, weights can be read back."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.viz.cells import graphemes, width
from regard.viz.terminal import MAX_LABEL_HEIGHT, MAX_ROWS, SHADES, heatmap

MODEST = settings(max_examples=60)
PIECES = st.sampled_from(
    [
        "cat",
        "▁the",
        "猫",
        "喜欢",
        "한국",
        "e\u0301te\u0301",
        "👍🏽",
        "👨\u200d👩\u200d👧",
        "</s>",
        "",
        "a b",
        "\t",
        "شكرا",
    ]
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def uniform(rows: int, columns: int) -> np.ndarray:
    return np.full((rows, columns), 1 / max(1, columns))


@MODEST
@given(st.lists(PIECES, min_size=1, max_size=8), st.lists(PIECES, min_size=1, max_size=8), st.integers(20, 100))
def test_columns_line_up(rows: list[str], columns: list[str], room: int) -> None:
    weights = np.ones((len(rows), len(columns)))
    lines = heatmap(weights, rows, columns, width=room, colour=False).split("\n")
    drawn = [line for line in lines if "██" in line and "0.2" not in line]
    assert len(drawn) == len(rows)
    assert len({width(line[: line.index("██")]) for line in drawn}) == 1
    assert all(width(line) <= room for line in lines[: lines.index("")])


@MODEST
@given(st.lists(PIECES, min_size=1, max_size=8))
def test_every_letter_of_a_column_stands_over_its_cells(columns: list[str]) -> None:
    lines = heatmap(uniform(1, len(columns)), ["x"], columns, width=100, colour=False).split("\n")
    labels = [
        pieces_at(line, start=2, cells=2)
        for line in lines[: lines.index(next(ln for ln in lines if ln.startswith("x")))]
    ]
    for n, piece in enumerate(columns):
        downwards = "".join(line[n] for line in labels if n < len(line)).replace(" ", "")
        assert downwards == piece.replace(" ", "␣").replace("\t", "␉")


def pieces_at(line: str, start: int, cells: int) -> list[str]:
    """The text of each column of `cells` cells, read by the cells glyphs take."""
    columns: list[str] = []
    place = 0
    for cluster in graphemes(line):
        column = (place - start) // cells
        if column >= 0:
            columns += [""] * (column + 1 - len(columns))
            columns[column] += cluster
        place += width(cluster)
    return columns


def test_shades_follow_the_weights() -> None:
    shares = np.linspace(0, 1, len(SHADES))[None]
    text = heatmap(shares, ["x"], list("abcdef"), width=80, colour=False)
    assert "x " + "".join(SHADES) in text.split("\n")


def test_colour_is_the_same_picture_on_coloured_ground() -> None:
    weights = np.array([[0.0, 1.0], [0.5, 0.5]])
    text = heatmap(weights, ["a", "bb"], ["x", "y"], width=80)
    assert text.count("\x1b[0m") == 2 + len(SHADES)
    row = next(line for line in text.split("\n") if line.startswith("bb"))
    assert len(COLOUR.findall(row)) == 2  # one colour for both cells, one reset
    assert COLOUR.sub("", row) == "bb     "
    brightness = [sum(map(int, m.split(";")[2:])) for m in re.findall(r"\x1b\[(48;2;[0-9;]*)m", text.split("\n")[1])]
    assert brightness == sorted(brightness) and len(brightness) == 2


def test_what_does_not_fit_is_cut_and_said() -> None:
    text = heatmap(uniform(MAX_ROWS + 5, 60), ["row"] * (MAX_ROWS + 5), ["word"] * 60, width=40, colour=False)
    lines = text.split("\n")
    assert all(width(line) <= 40 for line in lines[: lines.index("")])
    assert f"{MAX_ROWS} of {MAX_ROWS + 5} rows and 17 of 60 columns" in lines[-1]
    whole = heatmap(uniform(2, 2), ["a", "b"], ["c", "d"], width=40, colour=False)
    assert "…" not in whole


def test_a_long_name_is_cut() -> None:
    text = heatmap([[1.0]], ["donaudampfschifffahrt" * 3], ["gesellschaftskapitän" * 3], width=60, colour=False)
    assert text.count("…") == 2


def test_a_label_as_tall_as_allowed_is_complete() -> None:
    name = "abcdefghijkl"
    assert len(name) == MAX_LABEL_HEIGHT
    lines = heatmap([[1.0]], ["x"], [name], width=60, colour=False).split("\n")
    assert [line.strip() for line in lines[:MAX_LABEL_HEIGHT]] == list(name)
    lines = heatmap([[1.0]], ["x"], [name + "m"], width=60, colour=False).split("\n")
    assert [line.strip() for line in lines[:MAX_LABEL_HEIGHT]] == [*name[:-1], "…"]


def test_a_hostile_piece_cannot_colour_the_terminal() -> None:
    text = heatmap([[1.0]], ["\x1b[31mred\n"], ["\x1b]0;title\x07"], width=60, colour=False)
    assert "\x1b" not in text and "\x07" not in text


@pytest.mark.parametrize("weights", [np.zeros((2, 3)), np.zeros(2), np.full((2, 2), np.nan)])
def test_weights_that_are_no_picture_are_refused(weights: np.ndarray) -> None:
    with pytest.raises(ValueError, match="weights"):
        heatmap(weights, ["a", "b"], ["c", "d"])


def test_nothing_to_draw_is_drawn() -> None:
    assert isinstance(heatmap(np.zeros((0, 0)), [], [], width=40), str)


def test_a_column_label_of_the_greatest_height_is_not_cut() -> None:
    def label(length: int) -> str:
        lines = heatmap([[1.0]], ["x"], ["abcdefghijklmnop"[:length]], width=30, colour=False).split("\n")
        return "".join(line.strip() for line in lines[: lines.index(next(ln for ln in lines if ln.startswith("x ")))])

    assert MAX_LABEL_HEIGHT == 12
    assert label(12) == "abcdefghijkl" and label(13) == "abcdefghijk…"
