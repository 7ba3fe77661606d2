"""What a Transformer layer is made of, each part on a page of its own."""

from regard.layers.blocks import DecoderLayer, DecoderLayerState, EncoderLayer
from regard.layers.embeddings import TokenEmbedding
from regard.layers.feedforward import FeedForward
from regard.layers.positions import (
    ALiBi,
    Concatenated,
    Learned,
    NoPositions,
    Positions,
    Relative,
    Rotary,
    Sinusoidal,
    sinusoid,
)
from regard.layers.residual import PostNorm, PreNorm, Residual

__all__ = [
    "ALiBi",
    "Concatenated",
    "DecoderLayer",
    "DecoderLayerState",
    "EncoderLayer",
    "FeedForward",
    "Learned",
    "NoPositions",
    "Positions",
    "PostNorm",
    "PreNorm",
    "Relative",
    "Residual",
    "Rotary",
    "Sinusoidal",
    "TokenEmbedding",
    "sinusoid",
]
