"""Attention maps for a terminal, as pictures and as plain values."""

from typing import TYPE_CHECKING

from regard.cli.screen import in_colour
from regard.errors import UserError
from regard.messages import Message, join_messages, localize

if TYPE_CHECKING:
    from regard.data.arrays import Array
    from regard.viz.report import AttentionMap

MAX_TITLE_CHARACTERS = 60


def draw_map(attention: "AttentionMap", layer: int | None = None, head: int | None = None) -> str:
    """The heat map of one head of one layer, or of the mean of its heads, with a title."""
    from regard.viz.terminal import heatmap

    title, matrix = select_head(attention, layer, head)
    return f"{localize(title)}\n\n{heatmap(matrix, attention.rows, attention.columns, colour=in_colour())}"


def map_svg(attention: "AttentionMap", title: str, layer: int | None = None, head: int | None = None) -> str:
    """The heat map as an SVG picture; `title`, shortened, is written before its own title."""
    from regard.viz.content import truncate
    from regard.viz.svg import heatmap_svg

    name, matrix = select_head(attention, layer, head)
    titles = filter(None, (truncate(title, MAX_TITLE_CHARACTERS), name))
    return heatmap_svg(matrix, attention.rows, attention.columns, "; ".join(map(localize, titles)))


def select_head(attention: "AttentionMap", layer: int | None, head: int | None) -> "tuple[str, Array]":
    """A title, and the weights of one head of one layer (the last one), or the mean of its heads."""
    import numpy as np

    weights = np.asarray(attention.weights)
    layers, heads = weights.shape[:2]
    for name, number, count in (("layer", layer, layers), ("head", head, heads)):
        if number is not None and not 1 <= number <= count:
            raise UserError(
                f"the model has no {name} {number}", f"choose 1 to {count}", code="invalid-option", where=name
            )
    number = layer or layers
    selected = weights[number - 1]
    if layers == heads == 1 and len(weights[0, 0]) == 1:
        return attention.name, selected[0]
    kind = Message("cross attention") if attention.name == "cross" else Message("attention")
    place = Message("layer {number} of {layers}", number=number, layers=layers)
    mean = Message("mean of {heads} heads", heads=heads)
    part = Message("head {head} of {heads}", head=head, heads=heads) if head else mean
    return join_messages(", ", [kind, place, part]), selected[head - 1] if head else selected.mean(axis=0)


def map_values(attention: "AttentionMap") -> dict[str, object]:
    """A map as plain values: weights (layer, head, row, column) with four digits."""
    import numpy as np

    weights = np.asarray(attention.weights, dtype=np.float64).round(4).tolist()
    return {
        "name": attention.name, "rows": list(attention.rows), "columns": list(attention.columns), "weights": weights,
    }  # fmt: skip
