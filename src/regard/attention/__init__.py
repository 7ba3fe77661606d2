"""The room the house is named after: who may look at whom, how much, and what they take from it."""

from regard.attention.attend import attend, masked_softmax
from regard.attention.cache import KeyValues
from regard.attention.glance import Glance, Look, Memory, build_glance
from regard.attention.layouts import Layout, Packed, Padded, Sight, Tokens, Watched
from regard.attention.masks import causal_mask, padding_mask
from regard.attention.multihead import MultiHeadAttention
from regard.attention.scores import additive, concat, cosine, dot, general, scaled_dot
from regard.attention.scoring import SCORINGS, Scoring

__all__ = [
    "SCORINGS",
    "Glance",
    "KeyValues",
    "Layout",
    "Look",
    "Memory",
    "MultiHeadAttention",
    "Packed",
    "Padded",
    "Scoring",
    "Sight",
    "Tokens",
    "Watched",
    "additive",
    "attend",
    "build_glance",
    "causal_mask",
    "concat",
    "cosine",
    "dot",
    "general",
    "masked_softmax",
    "padding_mask",
    "scaled_dot",
]
