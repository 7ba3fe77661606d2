"""Attention itself (Vaswani et al. 2017, equation 1):

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V

This is the reference that every faster path (layouts.py) is tested against.

Masks are boolean, True = may attend, broadcastable to (B, H, T, S).

B batch, H heads, T queries, S keys, K head size; `...` are any leading dimensions (batch, heads).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.scores import scaled_dot


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0) -> tuple[Tensor, Tensor]:
    """Weighted mean of the values for each query; the weights are a softmax of the scores of query and keys.

    q (..., T, K), k (..., S, K), v (..., S, K), mask broadcastable to (..., T, S)
    -> output (..., T, K) and weights (..., T, S), whose rows sum to one.
    """
    scores = scaled_dot(q, k)
    weights = masked_softmax(scores, mask)
    return F.dropout(weights, dropout) @ v, weights


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the keys that may be attended to; a row that may attend to nothing gives zeros, not NaN."""
    if mask is None:
        return scores.softmax(dim=-1)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    return weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)


def to_float32(x: Tensor) -> Tensor:
    """Convert to float32 for sums and comparisons; float64 stays."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def padding_mask(lengths: Tensor, size: int) -> Tensor:
    """(B,) -> (B, 1, 1, S): every query of sentence b may attend to its first `lengths[b]` keys, never to padding."""
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None, None, :]


def causal_mask(size: int, device: torch.device | None = None) -> Tensor:
    """(T, T): position t may attend to positions 0..t, so that a prediction depends only on earlier tokens."""
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


def window_mask(size: int, window: int, device: torch.device | None = None) -> Tensor:
    """(T, T): position t may attend to t - window .. t + window (Vaswani et al. 2017, section 4, "restricted")."""
    return torch.ones(size, size, dtype=torch.bool, device=device).tril(window).triu(-window)
