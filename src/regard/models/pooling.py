"""Pooling: one vector s for an input, from the vectors h_1 .. h_L of its tokens.

    first       s = h_1                               [CLS], which every layer before let look at the others
    mean        s = 1 / L sum_i h_i
    max         s_d = max_i h_id                      for each component d the token that shows it most
    attention   u_i = tanh(W h_i + b)                 Yang et al. 2016, equations 5 to 7
                a_i = softmax_i(u_i^T u)
                s   = sum_i a_i h_i

Attention is what it is in a translator, with one difference: nobody asks. The query u is a weight, "what is the
informative word?" asked of every input alike, and learnt. Tokens are pooled within their own input, in 32 bits at
least; padding has no part in it.

B inputs, T tokens, N packed tokens, D model; `*` is (B, T) padded or (N,) packed, with room for B inputs.
"""

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.attend import to_float32
from regard.attention.layouts import Layout, Packed, Padded
from regard.models.bert import first_tokens

Pooling = Literal["first", "mean", "max", "attention"]


class Pooler(nn.Module, ABC):
    """h (*, D) -> s (B, D)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()

    @abstractmethod
    def forward(self, h: Tensor, layout: Layout) -> Tensor:
        """The tokens of each input as one vector."""


class First(Pooler):
    """s = h_1."""

    def forward(self, h: Tensor, layout: Layout) -> Tensor:
        return first_tokens(h, layout)


class Mean(Pooler):
    """s = 1 / L sum_i h_i."""

    def forward(self, h: Tensor, layout: Layout) -> Tensor:
        return (segment_sum(to_float32(h), layout) / lengths(layout)[:, None].clamp(min=1)).to(h.dtype)


class Max(Pooler):
    """s_d = max_i h_id."""

    def forward(self, h: Tensor, layout: Layout) -> Tensor:
        return segment_max(h, layout)


class AttentivePooler(Pooler):
    """a_i = softmax_i(tanh(W h_i + b)^T u), s = sum_i a_i h_i."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.key = nn.Linear(d_model, d_model)
        self.query = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, d_model))[0])

    def forward(self, h: Tensor, layout: Layout) -> Tensor:
        return segment_sum(self.weights(h, layout)[..., None] * to_float32(h), layout).to(h.dtype)

    def weights(self, h: Tensor, layout: Layout) -> Tensor:
        """a: h (*, D) -> (*), which add up to one over each input."""
        return segment_softmax(torch.tanh(self.key(h)) @ self.query, layout)


POOLERS: dict[str, type[Pooler]] = {"first": First, "mean": Mean, "max": Max, "attention": AttentivePooler}


def segment_softmax(scores: Tensor, layout: Layout) -> Tensor:
    """exp(e_i) / sum_j exp(e_j) over the tokens j of i's input: (*) -> (*), 0 where there is no token."""
    e = to_float32(scores).masked_fill(~not_padding(layout), -torch.inf)[..., None]
    grown = (
        e - expand_segments(segment_max(e.detach(), layout), layout)
    ).exp()  # the largest of an input is 1: a sum is no less
    return (grown / expand_segments(segment_sum(grown, layout).clamp(min=1), layout))[..., 0]


def segment_sum(x: Tensor, layout: Layout) -> Tensor:
    """The sum over each input: (*, D) -> (B, D), 0 for one without tokens.

    In a stream each input is added up from its first token to its last, so that a GPU too finds the same sum every
    time; `index_add` adds in the order in which tokens happen to arrive.
    """
    if isinstance(layout, Packed):
        return torch.segment_reduce(x, "sum", offsets=layout.offsets, axis=0, unsafe=True, initial=0)
    return x.masked_fill(~not_padding(layout)[..., None], 0).sum(dim=1)


def segment_max(x: Tensor, layout: Layout) -> Tensor:
    """The largest over each input, component by component: (*, D) -> (B, D), 0 for one without tokens."""
    x = x.masked_fill(~not_padding(layout)[..., None], -torch.inf)
    if isinstance(layout, Packed):
        nothing = x.new_full((len(layout.offsets) - 1, x.size(1)), -torch.inf)
        found = nothing.scatter_reduce(0, layout.rows[:, None].expand_as(x), x, "amax")
    else:
        found = x.amax(dim=1)
    return found.masked_fill(found == -torch.inf, 0)


def expand_segments(y: Tensor, layout: Layout) -> Tensor:
    """To each token what belongs to its input: (B, D) -> broadcastable to (*, D)."""
    return y[layout.rows] if isinstance(layout, Packed) else y[:, None]


def lengths(layout: Layout) -> Tensor:
    """(B,) tokens of each input."""
    if isinstance(layout, Packed):
        return layout.offsets.diff()
    assert isinstance(layout, Padded)
    return layout.lengths


def not_padding(layout: Layout) -> Tensor:
    """(*): False where a rectangle or a stream is filled up."""
    if isinstance(layout, Packed):
        return torch.arange(len(layout.rows), device=layout.rows.device) < layout.offsets[-1]
    assert isinstance(layout, Padded)
    return layout.not_padding
