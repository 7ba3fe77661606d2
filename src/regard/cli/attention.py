"""Attention maps for a terminal, as figures and as plain values."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typer import Option

from regard.cli.options import FigureFile, OptionGroup
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


@dataclass(frozen=True)
class FigureOptions(OptionGroup):
    """A figure of attention weights: its file, its title, and what it shows."""

    title = "Figure"

    figure: FigureFile = None
    heading: Annotated[
        str | None,
        Option("--title", metavar="TEXT", show_default="the prediction, layer and head", help="Figure title."),
    ] = None
    all_heads: Annotated[
        bool, Option("--all-heads", help="Only with `--figure`: plot every layer and head as small heat maps.")
    ] = False

    def check(self) -> None:
        """Raise a UserError if the figure cannot be written, or if there is none."""
        from regard.viz.figures import check_figure

        if self.figure is not None:
            check_figure(self.figure)
        elif self.heading is not None or self.all_heads:
            problem = "`--title` and `--all-heads` need `--figure`"
            raise UserError(problem, "add `--figure FILE`", code="unsupported-option", where="figure")

    def write(self, attention: "AttentionMap", summary: str, layer: int | None, head: int | None) -> None:
        """Write the figure, if there is one."""
        from regard.viz.figures import write_figure

        if self.figure is not None:
            write_figure(self.figure, self.draw(attention, summary, layer, head))

    def draw(self, attention: "AttentionMap", summary: str, layer: int | None = None, head: int | None = None) -> str:
        """The figure as SVG; `summary`, shortened, is the beginning of its usual title."""
        from regard.viz.content import truncate
        from regard.viz.svg import heads_svg, heatmap_svg

        name, matrix = select_head(attention, layer, head)
        name = kind_of(attention) if self.all_heads else name
        usual = "; ".join(map(localize, filter(None, (truncate(summary, MAX_TITLE_CHARACTERS), name))))
        title, tokens = usual if self.heading is None else self.heading, (attention.rows, attention.columns)
        if self.all_heads:
            names = localize(Message("layer {number}", number="{}")), localize(Message("head {number}", number="{}"))
            return heads_svg(attention.weights, *tokens, title, names)
        return heatmap_svg(matrix, *tokens, title)


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
    if attention.name == "evidence":
        return kind_of(attention), selected[0]
    place = Message("layer {number} of {layers}", number=number, layers=layers)
    mean = Message("mean of {heads} heads", heads=heads)
    part = Message("head {head} of {heads}", head=head, heads=heads) if head else mean
    return join_messages(", ", [kind_of(attention), place, part]), selected[head - 1] if head else selected.mean(axis=0)


def kind_of(attention: "AttentionMap") -> Message:
    """Which attention it is, for a title; a linear model has evidence instead."""
    if attention.name == "evidence":
        return Message("evidence for each class")
    return Message("cross attention") if attention.name == "cross" else Message("attention")


def map_values(attention: "AttentionMap") -> dict[str, object]:
    """A map as plain values: weights (layer, head, row, column) with four digits."""
    import numpy as np

    weights = np.asarray(attention.weights, dtype=np.float64).round(4).tolist()
    return {
        "name": attention.name, "rows": list(attention.rows), "columns": list(attention.columns), "weights": weights,
    }  # fmt: skip
