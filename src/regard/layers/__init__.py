"""What models are stacked from, each part on a page of its own."""

from regard.layers.blocks import DecoderLayer, DecoderLayerState, EncoderLayer
from regard.layers.convolution import ConvolutionalDecoderLayer, ConvolutionalEncoderLayer, GatedConvolution
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
from regard.layers.recurrent import Bidirectional, Recurrent, RecurrentLayer
from regard.layers.residual import PostNorm, PreNorm, Residual

__all__ = [
    "ALiBi",
    "Bidirectional",
    "Concatenated",
    "ConvolutionalDecoderLayer",
    "ConvolutionalEncoderLayer",
    "DecoderLayer",
    "DecoderLayerState",
    "EncoderLayer",
    "FeedForward",
    "GatedConvolution",
    "Learned",
    "NoPositions",
    "Positions",
    "PostNorm",
    "PreNorm",
    "Recurrent",
    "RecurrentLayer",
    "Relative",
    "Residual",
    "Rotary",
    "Sinusoidal",
    "TokenEmbedding",
    "sinusoid",
]
