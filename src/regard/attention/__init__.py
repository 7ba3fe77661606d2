"""The room the house is named after: who may look at whom, how much, and what they take from it."""

from regard.attention.attend import attend, masked_softmax
from regard.attention.cache import KeyValues
from regard.attention.glance import Glance, Look, Memory, build_glance
from regard.attention.hard import Choices, HardGumbel, HardReinforce
from regard.attention.kinds import Global, LocalM, LocalP
from regard.attention.layouts import Layout, Packed, Padded, Sight, Tokens, Watched
from regard.attention.masks import causal_mask, padding_mask, window_mask
from regard.attention.multihead import MultiHeadAttention
from regard.attention.scores import additive, concat, cosine, dot, general, scaled_dot
from regard.attention.scoring import SCORINGS, Additive, Concat, Cosine, Dot, General, ScaledDot, Scoring
from regard.attention.weighing import Between, Weighing
from regard.attention.windowed import attend_near

__all__ = [
    "SCORINGS",
    "Additive",
    "Between",
    "Choices",
    "Concat",
    "Cosine",
    "Dot",
    "General",
    "Glance",
    "Global",
    "HardGumbel",
    "HardReinforce",
    "KeyValues",
    "Layout",
    "LocalM",
    "LocalP",
    "Look",
    "Memory",
    "MultiHeadAttention",
    "Packed",
    "Padded",
    "ScaledDot",
    "Scoring",
    "Sight",
    "Tokens",
    "Watched",
    "Weighing",
    "additive",
    "attend",
    "attend_near",
    "build_glance",
    "causal_mask",
    "concat",
    "cosine",
    "dot",
    "general",
    "masked_softmax",
    "padding_mask",
    "scaled_dot",
    "window_mask",
]
