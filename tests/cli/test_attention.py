"""cli/attention.py: the head that is drawn, its title, and maps as plain values."""

import numpy as np
import pytest

from regard.cli.attention import FigureOptions, draw_map, map_values, select_head
from regard.errors import UserError
from regard.viz.report import AttentionMap

WEIGHTS = np.arange(24.0).reshape(2, 3, 2, 2) / 24
MAP = AttentionMap("cross", ["x", "y"], ["a", "b"], WEIGHTS)


@pytest.mark.parametrize(
    ("layer", "head", "expected"),
    [
        (None, None, WEIGHTS[1].mean(axis=0)),
        (1, None, WEIGHTS[0].mean(axis=0)),
        (None, 3, WEIGHTS[1, 2]),
        (2, 1, WEIGHTS[1, 0]),
        (1, 3, WEIGHTS[0, 2]),
    ],
)
def test_the_selected_head(layer: int | None, head: int | None, expected: np.ndarray) -> None:
    title, weights = select_head(MAP, layer, head)
    np.testing.assert_array_equal(weights, expected)
    assert f"layer {layer or 2} of 2" in title and ("mean of 3" if head is None else f"head {head} of 3") in title
    assert title.startswith("cross attention")
    assert select_head(AttentionMap("text", ["x", "y"], ["a", "b"], WEIGHTS), layer, head)[0] == title[6:]


@pytest.mark.parametrize(
    ("layer", "head", "where"), [(0, None, "layer"), (3, 1, "layer"), (1, 0, "head"), (1, 4, "head")]
)
def test_a_head_that_does_not_exist(layer: int | None, head: int | None, where: str) -> None:
    with pytest.raises(UserError) as error:
        select_head(MAP, layer, head)
    assert (error.value.code, error.value.where) == ("invalid-option", where)


def test_one_row_of_weights_has_the_name_of_its_map() -> None:
    title, weights = select_head(AttentionMap("pooling", ["x"], ["a", "b"], np.full((1, 1, 1, 2), 0.5)), None, None)
    assert title == "pooling" and weights.tolist() == [[0.5, 0.5]]
    assert select_head(AttentionMap("text", ["x", "y"], ["a"], np.ones((1, 1, 2, 1))), None, None)[0] != "text"


def test_drawings_and_values() -> None:
    first, blank, *rest = draw_map(MAP, 1, 2).split("\n")
    assert first == "cross attention, layer 1 of 2, head 2 of 3" and blank == "" and any("x" in line for line in rest)
    assert "Hallo; cross attention, layer 1" in FigureOptions().draw(MAP, "Hallo", 1)
    assert ">cross attention, layer 1" in FigureOptions().draw(MAP, "", 1)
    every = FigureOptions(heading="Own", all_heads=True).draw(MAP, "Hallo")
    assert ">Own<" in every and "Hallo" not in every and every.count(">head ") == 3 and every.count(">layer ") == 2
    values = map_values(AttentionMap("cross", ("x",), ("a",), np.full((1, 1, 1, 1), 1 / 3)))
    assert values == {"name": "cross", "rows": ["x"], "columns": ["a"], "weights": [[[[0.3333]]]]}
