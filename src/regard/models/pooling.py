"""Pooling: one vector s for an input, from the vectors h_1 .. h_L of its tokens.

    first       s = h_1                               [CLS], which attends to all tokens in every layer
    last        s = h_L                               the one that attends to all tokens if attention is causal
    mean        s = 1 / L sum_i h_i
    max         s_d = max_i h_id                      for each component d the largest value
    concat      s = [h_L; max_i h_i; 1 / L sum_i h_i]     Howard & Ruder 2018, section 3.3
    attention   u_i = tanh(W h_i + b)                 Yang et al. 2016, equations 5 to 7
                a_i = softmax_i(u_i^T u)
                s   = sum_i a_i h_i

Attentive pooling is attention with one difference: the query u is a learned weight, the same for every input ("what is
the informative word?" in the paper). Tokens are pooled within their own input, in float32 at least, without padding.

B inputs, T tokens, N packed tokens, D model; `*` is (B, T) padded or (N,) packed, with capacity for B inputs.
"""

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.attend import to_float32
from regard.attention.layouts import Layout, Packed, Padded
from regard.models.bert import first_tokens, last_tokens

Pooling = Literal["first", "last", "mean", "max", "concat", "attention"]


class Pooler(nn.Module, ABC):
    """h (*, D) -> s (B, D), or (B, parts D)."""

    parts = 1

    def __init__(self, d_model: int) -> None:
        super().__init__()

    @abstractmethod
    def forward(self, h: Tensor, layout: Layout) -> Tensor:
        """Pool the tokens of each input."""


class First(Pooler):
    """s = h_1."""

    def forward(self, h: Tensor, layout: Layout) -> Tensor:
        return first_tokens(h, layout)


class Last(Pooler):
    """s = h_L."""

    def forward(self, h: Tensor, layout: Layout) -> Tensor:
        return last_tokens(h, layout)


class Mean(Pooler):
    """s = 1 / L sum_i h_i."""

    def forward(self, h: Tensor, layout: Layout) -> Tensor:
        return (segment_sum(to_float32(h), layout) / lengths(layout)[:, None].clamp(min=1)).to(h.dtype)


class Max(Pooler):
    """s_d = max_i h_id."""

    def forward(self, h: Tensor, layout: Layout) -> Tensor:
        return segment_max(h, layout)


class Concat(Pooler):
    """s = [h_L; max_i h_i; 1 / L sum_i h_i]."""

    parts = 3

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.poolers = nn.ModuleList([Last(d_model), Max(d_model), Mean(d_model)])

    def forward(self, h: Tensor, layout: Layout) -> Tensor:
        return torch.cat([pooler(h, layout) for pooler in self.poolers], dim=-1)


class AttentivePooler(Pooler):
    """a_i = softmax_i(tanh(W h_i + b)^T u), s = sum_i a_i h_i."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.key = nn.Linear(d_model, d_model)
        self.query = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, d_model))[0])

    def forward(self, h: Tensor, layout: Layout) -> Tensor:
        return segment_sum(self.weights(h, layout)[..., None] * to_float32(h), layout).to(h.dtype)

    def weights(self, h: Tensor, layout: Layout) -> Tensor:
        """Attention weights: h (*, D) -> (*); they sum to one over each input."""
        return segment_softmax(torch.tanh(self.key(h)) @ self.query, layout)


POOLERS: dict[str, type[Pooler]] = {
    "first": First, "last": Last, "mean": Mean, "max": Max, "concat": Concat, "attention": AttentivePooler,
}  # fmt: skip


def segment_softmax(scores: Tensor, layout: Layout) -> Tensor:
    """exp(e_i) / sum_j exp(e_j) over the tokens j of the input of i: (*) -> (*), 0 at padding."""
    e = to_float32(scores).masked_fill(~not_padding(layout), -torch.inf)[..., None]
    exp = (e - expand_segments(segment_max(e.detach(), layout), layout)).exp()
    total = segment_sum(exp, layout)  # 0 for an input without tokens; otherwise at least 1, since the largest term is 1
    return (exp / expand_segments(total.masked_fill(total == 0, 1), layout))[..., 0]


def segment_sum(x: Tensor, layout: Layout) -> Tensor:
    """The sum over each input: (*, D) -> (B, D), 0 for an input without tokens.

    In a stream each input is added up from its first token to its last, so that the result is deterministic on a GPU
    too; `index_add` adds in arbitrary order.
    """
    if isinstance(layout, Packed):
        return torch.segment_reduce(x, "sum", offsets=layout.offsets, axis=0, unsafe=True, initial=0)
    return x.masked_fill(~not_padding(layout)[..., None], 0).sum(dim=1)


def segment_max(x: Tensor, layout: Layout) -> Tensor:
    """The maximum over each input, per component: (*, D) -> (B, D), 0 for an input without tokens."""
    x = x.masked_fill(~not_padding(layout)[..., None], -torch.inf)
    if isinstance(layout, Packed):
        lowest = x.new_full((len(layout.offsets) - 1, x.size(1)), -torch.inf)
        maximum = lowest.scatter_reduce(0, layout.rows[:, None].expand_as(x), x, "amax")
    else:
        maximum = x.amax(dim=1)
    return maximum.masked_fill(maximum == -torch.inf, 0)


def expand_segments(y: Tensor, layout: Layout) -> Tensor:
    """The row of its input for every token: (B, D) -> broadcastable to (*, D)."""
    return y[layout.rows] if isinstance(layout, Packed) else y[:, None]


def lengths(layout: Layout) -> Tensor:
    """Number of tokens of each input, (B,)."""
    if isinstance(layout, Packed):
        return layout.offsets.diff()
    assert isinstance(layout, Padded)
    return layout.lengths


def not_padding(layout: Layout) -> Tensor:
    """(*): False at padding."""
    if isinstance(layout, Packed):
        return torch.arange(len(layout.rows), device=layout.rows.device) < layout.offsets[-1]
    assert isinstance(layout, Padded)
    return layout.not_padding
