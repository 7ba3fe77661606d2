"""The room the house is named after: who may look at whom, how much, and what they take from it."""

from regard.attention.attend import attend, masked_softmax
from regard.attention.cache import KeyValues
from regard.attention.layouts import Layout, Packed, Padded, Sight, Tokens, Watched
from regard.attention.masks import causal_mask, padding_mask
from regard.attention.multihead import MultiHeadAttention
from regard.attention.scores import dot, scaled_dot

__all__ = [
    "KeyValues",
    "Layout",
    "MultiHeadAttention",
    "Packed",
    "Padded",
    "Sight",
    "Tokens",
    "Watched",
    "attend",
    "causal_mask",
    "dot",
    "masked_softmax",
    "padding_mask",
    "scaled_dot",
]
