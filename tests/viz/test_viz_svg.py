"""Pictures as SVG: well formed whatever the text, nothing that runs or is fetched, weights that can be read back."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.viz.svg import Panel, heatmap_svg, panels_svg

MODEST = settings(max_examples=60)
ODD = ["▁the", "喜欢", "</s>", "a b", "\t", "\x1b[2J", "&amp;", "شكرا", ""]
PIECES = st.one_of(st.sampled_from(ODD), st.text(max_size=6))
NAME = "{http://www.w3.org/2000/svg}"


def weights_of(picture: str) -> list[tuple[str, float, float]]:
    """The title of every cell, and how opaque it is."""
    found = []
    for cell in ET.fromstring(picture).iter(f"{NAME}rect"):
        title = cell.find(f"{NAME}title")
        if title is not None:
            name, _, weight = (title.text or "").rpartition(": ")
            found.append((name, float(weight or title.text or 0), float(cell.get("fill-opacity", "nan"))))
    return found


@MODEST
@given(st.lists(PIECES, min_size=1, max_size=5), st.lists(PIECES, min_size=1, max_size=5), PIECES)
def test_any_text_gives_a_picture_that_only_shows(rows: list[str], columns: list[str], title: str) -> None:
    picture = heatmap_svg(np.full((len(rows), len(columns)), 0.5), rows, columns, title)
    root = ET.fromstring(picture)  # well formed, so no piece has closed a tag
    assert {element.tag.removeprefix(NAME) for element in root.iter()} <= {"svg", "style", "g", "rect", "text", "title"}
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\x1b]", picture)
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "", 1)
    assert "url(" not in picture and "@import" not in picture
    assert len(weights_of(picture)) == len(rows) * len(columns)


@MODEST
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 6))
def test_weights_can_be_read_back(seed: int, rows: int, columns: int) -> None:
    weights = np.random.default_rng(seed).uniform(0, 1, (rows, columns))
    names = [f"t{n}" for n in range(rows)], [f"s{n}" for n in range(columns)]
    picture = heatmap_svg(weights, *names)
    found = {name: (weight, opacity) for name, weight, opacity in weights_of(picture)}
    for (row, column), weight in np.ndenumerate(weights):
        if weight >= 0.005:
            told, opacity = found.pop(f"t{row} → s{column}")
            assert told == pytest.approx(weight, abs=0.0005)
            assert opacity == pytest.approx(weight, abs=0.005)
    assert not found, "what cannot be seen is left out"
    assert picture == heatmap_svg(weights.tolist(), *names), "the same weights give the same bytes"


def test_below_zero_has_its_own_colour_and_full_is_what_one_says() -> None:
    picture = heatmap_svg([[-4.0, 0.0, 2.0, 99.0]], ["q"], list("abcd"), full=4.0)
    kinds = re.findall(r'class="(more|less)"[^>]*fill-opacity="([\d.]+)"><title>', picture)
    assert kinds == [("less", "1"), ("more", "0.5"), ("more", "1")]


@pytest.mark.parametrize(
    ("weights", "marks"),
    [([-4.0, 0.0], ["-4", "-2", "0"]), ([0.0, 4.0], ["0", "2", "4"]), ([-1.0, 1.0], ["-4", "-2", "0", "2", "4"]),
     ([0.0, 0.0], ["0"])],
)  # fmt: skip
def test_the_legend_has_the_colours_of_the_weights(weights: list[float], marks: list[str]) -> None:
    root = ET.fromstring(heatmap_svg([weights], ["q"], ["a", "b"], full=4.0))
    assert [text.text for text in root.iter(f"{NAME}text")] == ["q", "a", "b", *marks]
    kinds = [cell.get("class") for cell in root.iter(f"{NAME}rect") if cell.get("width") == "14"]
    assert kinds[1::2] == ["more" if float(mark) > 0 else "less" for mark in marks]


def test_cells_stand_where_their_names_do() -> None:
    root = ET.fromstring(heatmap_svg(np.eye(3), ["猫", "b", "c"], ["x", "猫が好き", "z"]))
    cells = [cell for cell in root.iter(f"{NAME}rect") if cell.find(f"{NAME}title") is not None]
    tops, lefts = ([float(cell.get(side, "nan")) for cell in cells] for side in ("y", "x"))
    texts = {text.text: text for text in root.iter(f"{NAME}text")}
    for row, top in zip(["猫", "b", "c"], tops, strict=True):
        assert top < float(texts[row].get("y", "nan")) < top + 22
    for column, left in zip(["x", "猫が好き", "z"], lefts, strict=True):
        assert left < float(texts[column].get("x", "nan")) < left + 22


def test_panels_do_not_overlap() -> None:
    panels = [Panel(np.ones((2, 2)), ["a", "b"], ["long name of a column", "d"], f"panel {n}") for n in range(4)]
    root = ET.fromstring(panels_svg(panels, across=2))
    moves = [[float(n) for n in re.findall(r"[-\d.]+", g.get("transform", ""))] for g in root.iter(f"{NAME}g")]
    assert sum(x == 0 for x, _ in moves) >= 2 and sum(x > 60 for x, _ in moves) >= 2
    assert float(root.get("width", 0)) > 150


def test_matrices_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(ValueError, match="1 rows and 2 columns"):
        heatmap_svg([[1.0]], ["a"], ["b", "c"])
    with pytest.raises(ValueError, match="not numbers"):
        heatmap_svg([[np.nan]], ["a"], ["b"])
    with pytest.raises(ValueError, match="above 0"):
        heatmap_svg([[1.0]], ["a"], ["b"], full=0.0)
