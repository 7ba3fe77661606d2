"""Masks: boolean, True = may attend, broadcastable to (B, H, T, S).

B batch, H heads, T queries, S keys.
"""

import torch
from torch import Tensor


def padding_mask(lengths: Tensor, size: int) -> Tensor:
    """(B,) -> (B, 1, 1, S): every query of sentence b may look at its first `lengths[b]` keys, never at padding."""
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None, None, :]


def causal_mask(size: int, device: torch.device | None = None) -> Tensor:
    """(T, T): position t may look at positions 0..t, so that a prediction depends only on what came before it."""
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


def window_mask(size: int, window: int, device: torch.device | None = None) -> Tensor:
    """(T, T): position t may look at t - window .. t + window (Vaswani et al. 2017, section 4, "restricted")."""
    return torch.ones(size, size, dtype=torch.bool, device=device).tril(window).triu(-window)
