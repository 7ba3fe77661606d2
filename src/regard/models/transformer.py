"""The Transformer (Vaswani et al. 2017, "Attention Is All You Need").

    source words -> embedding + positions -> N encoder layers -> memory
    target words -> embedding + positions -> N decoder layers, looking at the memory -> scores of the next word

Its variants are parts handed in: other positions, other scores inside the heads, heads of any width, and sights that
reach no farther than a window.

`forward` is the training path: all positions at once, each seeing only those before it. `start` and `step` are the
same model one word at a time, with the past kept in a state; a test holds the two equal.

B sentences, W hypotheses, S source, T target, D model, V vocabulary; `*` is (B, T) padded or (N,) packed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.layouts import AttentionPattern, Padded, RecordingPattern, Tokens
from regard.attention.multihead import MultiHeadAttention
from regard.attention.scored_attention import PositionBias, ScoredAttention
from regard.attention.scoring import SCORINGS
from regard.layers.blocks import DecoderLayer, DecoderLayerState, EncoderLayer
from regard.layers.embeddings import OutputProjection, TokenEmbedding
from regard.layers.feedforward import ACTIVATIONS, FeedForward
from regard.layers.positions import ALiBi, Concatenated, Learned, NoPositions, Positions, Relative, Rotary, Sinusoidal
from regard.layers.residual import NORMS
from regard.models.attentions import Attentions
from regard.models.transformer_settings import LayerSettings, TransformerSettings

__all__ = ["Transformer", "TransformerSettings", "TransformerState", "positions", "scored_attention", "stack", "xavier"]


@dataclass(frozen=True)
class TransformerState:
    """Between two steps of decoding: each layer's past and memory, and where the source's padding begins."""

    layers: list[DecoderLayerState]
    source: Padded

    @property
    def position(self) -> int:
        return self.layers[0].past.length

    def reorder(self, parents: Tensor) -> "TransformerState":
        """parents (B, W): hypothesis w of sentence b continues hypothesis parents[b, w]."""
        return TransformerState([layer.reorder(parents) for layer in self.layers], self.source)

    def keep(self, sentences: Tensor) -> "TransformerState":
        """Only these sentences go on."""
        source = Padded(self.source.lengths.index_select(0, sentences), self.source.size)
        return TransformerState([layer.keep(sentences) for layer in self.layers], source)


class Transformer(nn.Module):
    """Encoder, decoder and the matrices between words and vectors."""

    def __init__(self, settings: TransformerSettings, src_vocabulary: int, tgt_vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        if s.tie == "all" and src_vocabulary != tgt_vocabulary:
            raise ValueError("tie = all needs one joint vocabulary")
        self.tgt_embedding = TokenEmbedding(tgt_vocabulary, s.d_model, s.output_bias and s.tie != "none")
        self.src_embedding = self.tgt_embedding if s.tie == "all" else TokenEmbedding(src_vocabulary, s.d_model)
        apart = TokenEmbedding(tgt_vocabulary, s.d_model, s.output_bias) if s.tie == "none" else None
        self.output = apart or self.tgt_embedding
        self.positions = positions(s)
        self.combine = Concatenated(s.d_model) if s.combine == "concat" else torch.add
        self.dropout = nn.Dropout(s.dropout)

        residual = partial(NORMS[s.norm], s.d_model, s.dropout)
        attention: Any = partial(MultiHeadAttention, s.d_model, s.num_heads, s.attention_dropout, head_dim=s.head_dim)

        def to_itself() -> MultiHeadAttention:
            return attention(
                rotate=self.positions.rotate, scored_attention=scored_attention(s, self.positions.position_bias())
            )

        feedforward = partial(FeedForward, s.d_model, s.d_ff, s.activation_dropout, ACTIVATIONS[s.activation])
        self.encoder: Sequence[EncoderLayer] = nn.ModuleList(  # type: ignore[assignment]
            EncoderLayer(to_itself(), feedforward(), residual) for _ in range(s.encoder_layers)
        )
        self.decoder: Sequence[DecoderLayer] = nn.ModuleList(  # type: ignore[assignment]
            DecoderLayer(to_itself(), attention(scored_attention=scored_attention(s)), feedforward(), residual)
            for _ in range(s.decoder_layers)
        )
        self.encoder_norm, self.decoder_norm = (NORMS[s.norm].final(s.d_model) for _ in range(2))
        self.apply(xavier)

    def forward(self, src: Tokens, tgt: Tokens) -> OutputProjection:
        """Source and shifted target in the same layout -> projection of (*, D) to (*, V)."""
        window = self.settings.window
        memory = self.encode(src, src.layout.pattern(src.layout, window=window))
        pattern = tgt.layout.pattern(tgt.layout, causal=True, window=window)
        x = self.decode(tgt, memory, pattern, tgt.layout.pattern(src.layout))
        return self.output.project(x)

    def encode(self, src: Tokens, pattern: AttentionPattern) -> Tensor:
        """-> memory (*, D)."""
        x = self.embed(self.src_embedding, src.ids, src.layout.positions)
        for layer in self.encoder:
            x = layer(x, pattern)
        return self.encoder_norm(x)

    def decode(self, tgt: Tokens, memory: Tensor, pattern: AttentionPattern, cross_pattern: AttentionPattern) -> Tensor:
        """-> (*, D), to be compared with each word's row of the output matrix."""
        x = self.embed(self.tgt_embedding, tgt.ids, tgt.layout.positions)
        for layer in self.decoder:
            x = layer(x, memory, pattern, cross_pattern)
        return self.decoder_norm(x)

    def embed(self, embedding: TokenEmbedding, ids: Tensor, positions: Tensor) -> Tensor:
        x = embedding(ids)
        return self.dropout(self.combine(x, self.positions(positions).to(x.dtype)))

    def start(self, src: Tokens) -> TransformerState:
        """Read the source (padded) once; every step looks back at it."""
        assert isinstance(src.layout, Padded)
        window = self.settings.window
        memory = self.encode(src, src.layout.pattern(src.layout, window=window))
        return TransformerState([layer.start(memory, src.layout, window) for layer in self.decoder], src.layout)

    def step(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """The newest word of every hypothesis, (B, W) -> logits (B, W, V) of the next."""
        position = torch.full((1,), state.position, device=tokens.device)
        x = self.embed(self.tgt_embedding, tokens, position)
        hypotheses = Padded(state.source.lengths, tokens.size(1))
        cross_pattern = hypotheses.pattern(state.source)
        layers = []
        for layer, layer_state in zip(self.decoder, state.layers, strict=True):
            x, layer_state = layer.step(x, layer_state, cross_pattern)
            layers.append(layer_state)
        return self.output.scores(self.decoder_norm(x)), TransformerState(layers, state.source)

    @torch.no_grad()
    def attentions(self, src: Tokens, tgt: Tokens) -> Attentions:
        """What attended to what: the weights of every layer and head for a padded batch."""
        assert isinstance(src.layout, Padded) and isinstance(tgt.layout, Padded)
        window = self.settings.window
        patterns = (
            RecordingPattern(src.layout, src.layout, causal=False, window=window),
            RecordingPattern(tgt.layout, tgt.layout, causal=True, window=window),
            RecordingPattern(tgt.layout, src.layout, causal=False),
        )
        memory = self.encode(src, patterns[0])
        self.decode(tgt, memory, patterns[1], patterns[2])
        return Attentions(*(torch.stack(pattern.weights, dim=1) for pattern in patterns))


def positions(settings: LayerSettings) -> Positions:
    """The positional part the settings name."""
    match settings.positions:
        case "sinusoidal":
            return Sinusoidal(settings.d_model)
        case "learned":
            return Learned(settings.d_model, settings.max_positions)
        case "rotary":
            return Rotary()
        case "relative":
            return Relative(settings.head_width, settings.max_distance)
        case "alibi":
            return ALiBi(settings.num_heads)
        case "none":
            return NoPositions()


def scored_attention(settings: LayerSettings, position_bias: PositionBias | None = None) -> ScoredAttention | None:
    """The score the settings name and what lies between tokens; None for scaled dot products alone."""
    if settings.score == "scaled_dot" and position_bias is None:
        return None
    width = settings.head_width
    return ScoredAttention(SCORINGS[settings.score](width, width, width), position_bias)


def stack(layer: type[EncoderLayer], settings: LayerSettings, count: int, positions: Positions) -> Any:
    """So many layers in which the words of one text look at each other: a reader's, or a language model's."""
    s = settings
    attention: Any = partial(MultiHeadAttention, s.d_model, s.num_heads, s.attention_dropout, positions.rotate)
    feedforward = partial(FeedForward, s.d_model, s.d_ff, s.activation_dropout, ACTIVATIONS[s.activation])
    residual = partial(NORMS[s.norm], s.d_model, s.dropout)
    return nn.ModuleList(
        layer(
            attention(head_dim=s.head_dim, scored_attention=scored_attention(s, positions.position_bias())),
            feedforward(),
            residual,
        )
        for _ in range(count)
    )


def xavier(module: nn.Module) -> None:
    """Glorot & Bengio 2010: weights uniform in +-sqrt(6 / (fan_in + fan_out)), biases zero."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
