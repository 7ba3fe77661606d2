"""Convolutional sequence to sequence (Gehring et al. 2017, "Convolutional Sequence to Sequence Learning").

    source tokens -> e = embedding + position -> W -> N gated convolutions -> W -> z
    target tokens -> g = embedding + position -> W -> N gated convolutions with attention to (z, z + e) -> W -> logits

The last model before the Transformer: nothing is recurrent, so all positions are computed at once, positions are
learned vectors (section 3.1), and every decoder layer has attention; but tokens of one side meet by convolution only.
`forward` is the training path. `start` and `step` are the same model one token at a time; their state is the last k - 1
inputs of each layer.

B sentences, W hypotheses, S source, T target, D model, E embedding, V vocabulary, k kernel.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.layouts import AttentionPattern, Attentions, Padded, RecordingPattern, Tokens
from regard.config import Field
from regard.layers.convolution import (
    ConvolutionalDecoderLayer,
    ConvolutionalEncoderLayer,
    NormalizedLinear,
    SourceKeyValues,
    with_gradient_times,
)
from regard.layers.embeddings import OutputProjection, TokenEmbedding
from regard.layers.positions import Learned
from regard.messages import Message
from regard.models.settings import TIE, ModelSettings, Tie

INIT_STD = 0.1


class ConvolutionalSettings(ModelSettings):
    """Settings of a convolutional model."""

    kind: Literal["convolutional"] = "convolutional"
    d_model: int = Field(256, gt=0, description="width of the convolutions")
    d_embedding: int = Field(256, gt=0, description="width of token embeddings, queries and keys")
    encoder_layers: int = Field(4, gt=0, description="number of encoder layers")
    decoder_layers: int = Field(3, gt=0, description="number of decoder layers, each with its own attention")
    kernel: int = Field(3, gt=0, description="kernel width: number of tokens that a layer reads at once")
    dropout: float = Field(
        0.2, ge=0, lt=1, description="dropout on the embeddings, before each convolution and on the output"
    )
    max_positions: int = Field(
        1024, gt=0, description="maximum sentence length in tokens: the number of learned positions"
    )
    tie: Tie = Field("all", description=TIE)

    @property
    def length_limit(self) -> int | None:
        return self.max_positions

    @property
    def shared_vocabulary(self) -> bool:
        return self.tie == "all"

    @property
    def summary(self) -> str:
        return Message(
            "convolutional, {encoder_layers} + {decoder_layers} layers of {kernel} words, width {d_model}", **dict(self)
        )


@dataclass(frozen=True)
class ConvolutionalState:
    """State of a search: the source, its layout, and the last inputs of each layer."""

    memory: SourceKeyValues
    source: Padded
    pasts: list[Tensor]  # (B, W, k - 1, D) each
    position: int

    def reorder(self, parents: Tensor) -> "ConvolutionalState":
        pasts = [past.take_along_dim(parents[:, :, None, None], dim=1) for past in self.pasts]
        return ConvolutionalState(self.memory, self.source, pasts, self.position)

    def keep(self, sentences: Tensor) -> "ConvolutionalState":
        source = Padded(self.source.lengths.index_select(0, sentences), self.source.size)
        pasts = [past.index_select(0, sentences) for past in self.pasts]
        return ConvolutionalState(self.memory.keep(sentences), source, pasts, self.position)


class Convolutional(nn.Module):
    def __init__(self, settings: ConvolutionalSettings, src_vocabulary: int, tgt_vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        if s.tie == "all" and src_vocabulary != tgt_vocabulary:
            raise ValueError("tie = all needs one shared vocabulary")
        self.tgt_embedding = build_embedding(tgt_vocabulary, s.d_embedding)
        self.src_embedding = self.tgt_embedding if s.tie == "all" else build_embedding(src_vocabulary, s.d_embedding)
        self.output = build_embedding(tgt_vocabulary, s.d_embedding) if s.tie == "none" else self.tgt_embedding
        self.src_positions, self.tgt_positions = (build_positions(s.max_positions, s.d_embedding) for _ in range(2))
        self.dropout = nn.Dropout(s.dropout)

        keep = 1 - s.dropout
        self.encoder_in, self.decoder_in = (NormalizedLinear(s.d_embedding, s.d_model, variance=keep) for _ in range(2))
        self.encoder: Sequence[ConvolutionalEncoderLayer] = nn.ModuleList(  # type: ignore[assignment]
            ConvolutionalEncoderLayer(s.d_model, s.kernel, s.dropout) for _ in range(s.encoder_layers)
        )
        self.decoder: Sequence[ConvolutionalDecoderLayer] = nn.ModuleList(  # type: ignore[assignment]
            ConvolutionalDecoderLayer(s.d_model, s.d_embedding, s.kernel, s.dropout) for _ in range(s.decoder_layers)
        )
        self.encoder_out, self.decoder_out = (NormalizedLinear(s.d_model, s.d_embedding) for _ in range(2))

    def forward(self, src: Tokens, tgt: Tokens) -> OutputProjection:
        """Padded source and shifted target -> projection of (B, T, E) to (B, T, V)."""
        x = self.decode(tgt, self.encode(src), tgt.layout.pattern(src.layout))
        return self.output.project(x)

    def encode(self, src: Tokens) -> SourceKeyValues:
        """The keys and values of the source, the same for all decoder layers.

        Each decoder layer sends a gradient back into the encoder; it is divided by twice their number (section 3.4).
        The gradient of the embeddings in the values is not.
        """
        assert isinstance(src.layout, Padded)
        e = self.embed(self.src_embedding, src.ids, self.src_positions, src.layout.positions)
        x, padding = self.encoder_in(e), ~src.layout.not_padding[:, :, None]
        for layer in self.encoder:
            x = layer(x, padding)
        z = with_gradient_times(self.encoder_out(x), 1 / (2 * len(self.decoder)))
        return SourceKeyValues.of(z, e, src.layout)

    def decode(self, tgt: Tokens, memory: SourceKeyValues, pattern: AttentionPattern) -> Tensor:
        """-> hidden states (B, T, E), the input of the output projection."""
        g = self.embed(self.tgt_embedding, tgt.ids, self.tgt_positions, tgt.layout.positions)
        x = self.decoder_in(g)
        for layer in self.decoder:
            x = layer(x, g, memory, pattern)
        return self.dropout(self.decoder_out(x))

    def embed(self, embedding: TokenEmbedding, ids: Tensor, table: Learned, positions: Tensor) -> Tensor:
        """ids (*) at these positions -> (*, E)."""
        return self.dropout(embedding(ids) + table(positions))

    def start(self, src: Tokens) -> ConvolutionalState:
        assert isinstance(src.layout, Padded)
        memory = self.encode(src)
        pasts = [layer.start(memory.keys, len(src.ids)) for layer in self.decoder]
        return ConvolutionalState(memory, src.layout, pasts, 0)

    def step(self, tokens: Tensor, state: ConvolutionalState) -> tuple[Tensor, ConvolutionalState]:
        position = torch.full((1,), state.position, dtype=torch.long, device=tokens.device)
        g = self.embed(self.tgt_embedding, tokens, self.tgt_positions, position)
        x, pattern = self.decoder_in(g), Padded(state.source.lengths, tokens.size(1)).pattern(state.source)
        pasts = []
        for layer, past in zip(self.decoder, state.pasts, strict=True):
            x, past = layer.step(x, past, g, state.memory, pattern)
            pasts.append(past)
        logits = self.output.scores(self.dropout(self.decoder_out(x)))
        return logits, ConvolutionalState(state.memory, state.source, pasts, state.position + 1)

    @torch.no_grad()
    def attentions(self, src: Tokens, tgt: Tokens) -> Attentions:
        """The attention weights of every decoder layer for a padded batch; the encoder has none."""
        assert isinstance(src.layout, Padded) and isinstance(tgt.layout, Padded)
        pattern = RecordingPattern(tgt.layout, src.layout, causal=False)
        self.decode(tgt, self.encode(src), pattern)
        return Attentions(cross=pattern.stacked())


def build_embedding(vocabulary: int, d_embedding: int) -> TokenEmbedding:
    """Token embeddings from N(0, 0.1), not scaled (section 3.5).

    The layers keep the variance of their input. So the dot products of attention, which are not divided by sqrt(E), are
    small enough for a softmax at the start.
    """
    embedding = TokenEmbedding(vocabulary, d_embedding, scale=1.0)
    nn.init.normal_(embedding.weight, std=INIT_STD)
    return embedding


def build_positions(max_positions: int, d_embedding: int) -> Learned:
    """Learned positions from N(0, 0.1), as the embeddings they are added to."""
    positions = Learned(d_embedding, max_positions)
    nn.init.normal_(positions.table.weight, std=INIT_STD)
    return positions
