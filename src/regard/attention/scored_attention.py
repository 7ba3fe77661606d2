"""Attention with another score, and with biases that depend on the distance of two tokens.

    e_ij = score(q_i, k_j) + b_ij
    a_ij = softmax_j(e_ij)
    z_i  = sum_j a_ij v_j + c_i

With the scaled dot product, b = 0 and c = 0 this is `attend`. The scores are those of scoring.py; b and c belong to
positions that are distances (layers/positions.py): ALiBi has b, Shaw's relative positions have b and c.

T queries, S keys, H heads, K head size; `...` are any leading dimensions: sentences, blocks of a sentence
(windowed.py), hypotheses of a search (cache.py).
"""

from typing import Protocol

import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import attend, masked_softmax
from regard.attention.scoring import Scoring


class AttentionFunction(Protocol):
    """A formula of attention.

    q (..., H, T, K), k (..., H, S, K), v (..., H, S, K), distances (T, S) = position of the key - position of the
    query, mask broadcastable to (..., H, T, S) -> output (..., H, T, K) and weights (..., H, T, S).
    """

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, distances: Tensor, mask: Tensor | None, dropout: float
    ) -> tuple[Tensor, Tensor]: ...


def scaled_dot_attention(
    q: Tensor, k: Tensor, v: Tensor, distances: Tensor, mask: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor]:
    """`attend`, which does not use distances."""
    return attend(q, k, v, mask, dropout)


class PositionBias(Protocol):
    """A bias of attention that depends on the distance of query and key."""

    def scores(self, q: Tensor, distances: Tensor) -> Tensor:
        """b_ij, broadcastable to (..., H, T, S)."""

    def values(self, weights: Tensor, distances: Tensor) -> Tensor:
        """c_i, broadcastable to (..., H, T, K)."""


class ScoredAttention(nn.Module):
    """A score, the same for all heads, and a position bias; a part of `MultiHeadAttention`."""

    def __init__(self, scoring: Scoring, position_bias: PositionBias | None = None) -> None:
        super().__init__()
        self.scoring, self.position_bias = scoring, position_bias

    def keys(self, k: Tensor) -> Tensor:
        """The part of the score that depends on the keys alone, (*, K) -> (*, *); computed once and cached."""
        return self.scoring.keys(k)

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, distances: Tensor, mask: Tensor | None, dropout: float
    ) -> tuple[Tensor, Tensor]:
        """Compute the attention (see `AttentionFunction`); k are prepared by `keys`."""
        scores = self.scoring(q, k)
        if self.position_bias is None:
            weights = masked_softmax(scores, mask)
            return F.dropout(weights, dropout) @ v, weights
        weights = masked_softmax(scores + self.position_bias.scores(q, distances), mask)
        dropped = F.dropout(weights, dropout)
        return dropped @ v + self.position_bias.values(dropped, distances), weights
