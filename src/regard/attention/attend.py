"""Attention itself (Vaswani et al. 2017, equation 1):

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V

This is the page to read. It is what every faster path (layouts.py) is tested against.

T queries, S keys, K head size; leading dimensions (batch, heads) are whatever the caller has.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.scores import scaled_dot


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0) -> tuple[Tensor, Tensor]:
    """Each query takes a weighted mean of the values; the weights are how well it fits each key.

    q (..., T, K), k (..., S, K), v (..., S, K), mask broadcastable to (..., T, S)
    -> output (..., T, K) and weights (..., T, S), whose rows sum to one.
    """
    scores = scaled_dot(q, k)
    weights = masked_softmax(scores, mask)
    return F.dropout(weights, dropout) @ v, weights


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the keys that may be attended; a row that may attend to nothing gives zeros, not NaN."""
    if mask is None:
        return scores.softmax(dim=-1)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    return weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
