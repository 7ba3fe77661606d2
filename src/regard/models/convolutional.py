"""Convolutional sequence to sequence (Gehring et al. 2017, "Convolutional Sequence to Sequence Learning").

    source words -> e = embedding + position -> W -> N gated convolutions -> W -> z
    target words -> g = embedding + position -> W -> N gated convolutions, each looking at (z, z + e) -> W -> scores

The last rung before the Transformer: nothing recurs, so all words are computed at once, positions are told by learned
vectors (section 3.1), and every decoder layer attends; but words of one side still meet by convolution alone.
`forward` is the training path. `start` and `step` are the same model one word at a time; all they keep of the past are
the last k - 1 inputs of each layer.

B sentences, W hypotheses, S source, T target, D model, E embedding, V vocabulary, k kernel.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.layouts import AttentionPattern, Padded, RecordingPattern, Tokens
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
from regard.models.attentions import Attentions
from regard.models.settings import ModelSettings


class ConvolutionalSettings(ModelSettings):
    """The shape of a convolutional model."""

    kind: Literal["convolutional"] = "convolutional"
    d_model: int = Field(256, gt=0, description="width of the convolutions")
    d_embedding: int = Field(256, gt=0, description="width of the words' vectors, in which attention compares as well")
    encoder_layers: int = Field(4, gt=0, description="layers of the encoder")
    decoder_layers: int = Field(3, gt=0, description="layers of the decoder, each with an attention of its own")
    kernel: int = Field(3, gt=0, description="words a layer sees at once")
    dropout: float = Field(0.2, ge=0, lt=1, description="on the embeddings, before each convolution and on the output")
    max_positions: int = Field(1024, gt=0, description="longest sentence, in tokens: positions are learned")
    tie: Literal["all", "output", "none"] = Field(
        "all", description="one matrix for source, target and output; for target and output; or three"
    )

    @property
    def length_limit(self) -> int | None:
        return self.max_positions

    @property
    def shared_vocabulary(self) -> bool:
        return self.tie == "all"

    @property
    def summary(self) -> str:
        layers = f"{self.encoder_layers} + {self.decoder_layers} layers of {self.kernel} words"
        return f"convolutional, {layers}, width {self.d_model}"


@dataclass(frozen=True)
class ConvolutionalState:
    """Between two steps of decoding: the source, where its padding begins, and each layer's last inputs."""

    memory: SourceKeyValues
    source: Padded
    pasts: list[Tensor]  # (B, W, k - 1, D) each
    position: int

    def reorder(self, parents: Tensor) -> "ConvolutionalState":
        """parents (B, W'): hypothesis w of sentence b continues hypothesis parents[b, w]; the source is shared."""
        pasts = [past.take_along_dim(parents[:, :, None, None], dim=1) for past in self.pasts]
        return ConvolutionalState(self.memory, self.source, pasts, self.position)

    def keep(self, sentences: Tensor) -> "ConvolutionalState":
        """Only these sentences go on."""
        source = Padded(self.source.lengths.index_select(0, sentences), self.source.size)
        pasts = [past.index_select(0, sentences) for past in self.pasts]
        return ConvolutionalState(self.memory.keep(sentences), source, pasts, self.position)


class Convolutional(nn.Module):
    """Encoder, decoder, and the matrices between words and vectors."""

    def __init__(self, settings: ConvolutionalSettings, src_vocabulary: int, tgt_vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        if s.tie == "all" and src_vocabulary != tgt_vocabulary:
            raise ValueError("tie = all needs one joint vocabulary")
        self.tgt_embedding = embedding(tgt_vocabulary, s.d_embedding)
        self.src_embedding = self.tgt_embedding if s.tie == "all" else embedding(src_vocabulary, s.d_embedding)
        self.output = embedding(tgt_vocabulary, s.d_embedding) if s.tie == "none" else self.tgt_embedding
        self.src_positions, self.tgt_positions = (positions(s.max_positions, s.d_embedding) for _ in range(2))
        self.dropout = nn.Dropout(s.dropout)

        kept = 1 - s.dropout
        self.encoder_in, self.decoder_in = (NormalizedLinear(s.d_embedding, s.d_model, spread=kept) for _ in range(2))
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
        """The source as all decoder layers see it.

        Each of them sends a gradient back into the encoder; it is divided by twice their number, or the encoder would
        move too fast (section 3.4). The embeddings added to the values are left out of that.
        """
        assert isinstance(src.layout, Padded)
        e = self.embed(self.src_embedding, src.ids, self.src_positions, src.layout.positions)
        x, padding = self.encoder_in(e), ~src.layout.not_padding[:, :, None]
        for layer in self.encoder:
            x = layer(x, padding)
        z = with_gradient_times(self.encoder_out(x), 1 / (2 * len(self.decoder)))
        return SourceKeyValues.of(z, e, src.layout)

    def decode(self, tgt: Tokens, memory: SourceKeyValues, pattern: AttentionPattern) -> Tensor:
        """-> (B, T, E), to be compared with each word's row of the output matrix."""
        g = self.embed(self.tgt_embedding, tgt.ids, self.tgt_positions, tgt.layout.positions)
        x = self.decoder_in(g)
        for layer in self.decoder:
            x = layer(x, g, memory, pattern)
        return self.dropout(self.decoder_out(x))

    def embed(self, words: TokenEmbedding, ids: Tensor, places: Learned, positions: Tensor) -> Tensor:
        return self.dropout(words(ids) + places(positions))

    def start(self, src: Tokens) -> ConvolutionalState:
        """Read the source (padded) once; every step looks back at it."""
        assert isinstance(src.layout, Padded)
        memory = self.encode(src)
        pasts = [layer.start(memory.keys, len(src.ids)) for layer in self.decoder]
        return ConvolutionalState(memory, src.layout, pasts, 0)

    def step(self, tokens: Tensor, state: ConvolutionalState) -> tuple[Tensor, ConvolutionalState]:
        """The newest word of every hypothesis, (B, W) -> logits (B, W, V) of the next."""
        position = torch.full((1,), state.position, device=tokens.device)
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
        """What attended to what: the weights of every decoder layer for a padded batch; convolutions have none."""
        assert isinstance(src.layout, Padded) and isinstance(tgt.layout, Padded)
        pattern = RecordingPattern(tgt.layout, src.layout, causal=False)
        self.decode(tgt, self.encode(src), pattern)
        return Attentions(cross=torch.stack(pattern.weights, dim=1))


def embedding(vocabulary: int, d_embedding: int) -> TokenEmbedding:
    """Rows from N(0, 0.1), read as they are (section 3.5).

    Layers keep the variance of what they are given, so everything stays of that size; the dot products of attention,
    which nobody divides by sqrt(E), then begin small enough for a softmax.
    """
    words = TokenEmbedding(vocabulary, d_embedding)
    nn.init.normal_(words.weight, std=0.1)
    words.scale = 1.0
    return words


def positions(max_positions: int, d_embedding: int) -> Learned:
    """As large as the words they are added to."""
    places = Learned(d_embedding, max_positions)
    nn.init.normal_(places.table.weight, std=0.1)
    return places
