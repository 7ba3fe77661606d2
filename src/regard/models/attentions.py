"""What attended to what in a whole model, as pictures and measures of alignment take it."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Attentions:
    """The weights of every layer and head, (B, layers, H, queries, keys); None where a model has no such attention."""

    encoder: Tensor | None = None
    decoder: Tensor | None = None
    cross: Tensor | None = None
