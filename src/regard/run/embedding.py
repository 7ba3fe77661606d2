"""Vectors of texts: what a reader makes of them, for others to learn from (Devlin et al. 2018, section 5.3).

    h^0 .. h^L   the embeddings and what each layer made of them, (T, D) each
    layers       some of them:  last   -2   all   -4:   1,6      numbers as in Python, 0 are the embeddings
    combined     concat: [h^a; h^b; ..]     sum: h^a + h^b + ..     mean: their mean
    pooled       one vector for the text: that of [CLS], the mean or the largest value over its tokens, [CLS] and [SEP]
                 among them; the reader's own pooling of its last layer; or the tokens' as they are

The authors' best features for tagging are the last four layers side by side (table 7): layers = "-4:", pool = "tokens".
A mean, one long, is what sentence encoders are mostly trained for (Reimers and Gurevych 2019, section 3).

B inputs, T tokens, D model, E = D, or D times the number of layers where they are concatenated.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.layouts import Layout, Tokens
from regard.errors import UserError
from regard.models.pooling import POOLERS

COMBINE = ("concat", "sum", "mean")
POOL = ("cls", "mean", "max", "pooler", "tokens")
OURS = {"cls": "first", "mean": "mean", "max": "max"}
SLICE = re.compile(r"(-?\d{1,9})?:(-?\d{1,9})?")


@dataclass(frozen=True)
class Embedding:
    """What was read: one vector (E,), or where tokens are not pooled one for each of the pieces (T, E)."""

    example: dict[str, Any]
    pieces: list[str]
    vector: Any
    """numpy, float32"""
    unread: int = 0
    """Pieces of the text for which there was no room."""


@dataclass(frozen=True)
class Features:
    """Which vectors are wanted of a reader."""

    layers: str = "last"
    combine: str = "concat"
    pool: str = "mean"
    normalize: bool = False

    def __post_init__(self) -> None:
        for name, value, known in (("combine", self.combine, COMBINE), ("pool", self.pool, POOL)):
            if value not in known:
                raise UserError(f"{name} is {value!r}", f"write one of {', '.join(known)}")
        if self.pool == "pooler" and self.layers not in ("last", "-1"):
            raise UserError(
                f"the pooler reads the last layer, not {self.layers}", "write layers = last, or pool = mean"
            )

    def __call__(self, reader: Any, tokens: Tokens, segments: Tensor) -> Tensor:
        """(B, E), or (B, T, E) where tokens are not pooled."""
        states = reader.hidden_states(tokens, segments)
        if self.pool == "pooler":
            found = reader.pool(states[-1], tokens.layout).float()
        else:
            chosen = [states[number].float() for number in layer_numbers(self.layers, len(states))]
            found = pooled(combined(chosen, self.combine), tokens.layout, self.pool)
        return F.normalize(found, dim=-1) if self.normalize else found

    def width(self, d_model: int, layers: int) -> int:
        """E for a reader of D with L layers."""
        return d_model * (len(layer_numbers(self.layers, layers + 1)) if self.combine == "concat" else 1)


def combined(states: Sequence[Tensor], how: str) -> Tensor:
    """Layers (*, D) side by side, added, or their mean."""
    if how == "concat":
        return torch.cat(list(states), dim=-1)
    total = torch.stack(list(states)).sum(dim=0)
    return total / len(states) if how == "mean" else total


def pooled(h: Tensor, layout: Layout, how: str) -> Tensor:
    """h (*, E) -> (B, E), over the real tokens; as it is for "tokens"."""
    return h if how == "tokens" else POOLERS[OURS[how]](h.size(-1))(h, layout)


def layer_numbers(wanted: str, states: int) -> list[int]:
    """The places that "last", "-2", "all", "-4:" or "1,6" name among so many states, in order."""
    remedy = f'write last, all, a number from 0 (the embeddings) to {states - 1}, "-4:", or several like "1,3"'
    found: list[int] = []
    for part in wanted.replace(" ", "").split(","):
        bounds = SLICE.fullmatch({"last": "-1:", "all": ":"}.get(part, part))
        if bounds is not None:
            found += range(states)[slice(*(None if end is None else int(end) for end in bounds.groups()))]
        elif re.fullmatch(r"-?\d{1,9}", part) and -states <= int(part) < states:
            found.append(range(states)[int(part)])
        else:
            raise UserError(f"there are no layers {wanted!r}", remedy)
    if not found:
        raise UserError(f"layers {wanted!r} are none", remedy)
    return found
