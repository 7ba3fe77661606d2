"""The Transformer (Vaswani et al. 2017, "Attention Is All You Need").

    source tokens -> embedding + positions -> N encoder layers -> memory
    target tokens -> embedding + positions -> N decoder layers with attention to the memory -> logits of the next token

Its variants are parts: other positions, other attention scores, heads of any size, local self-attention, other norms,
no residual connections, and layers without one of their sublayers.

`forward` is the training path: all positions at once, each with attention to earlier ones only. `start` and `step` are
the same model one token at a time, with a KV cache; a test holds the two equal.

B sentences, W hypotheses, S source, T target, D model, V vocabulary; `*` is (B, T) padded or (N,) packed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Literal

import torch
from pydantic import model_validator
from torch import Tensor, nn

from regard.attention.layouts import AttentionPattern, Attentions, Padded, RecordingPattern, Tokens
from regard.attention.multihead import MultiHeadAttention, NoAttention
from regard.config import Field
from regard.layers.blocks import DecoderLayer, DecoderLayerState, EncoderLayer, FeedForward, TransformerStack
from regard.layers.embeddings import OutputProjection, TokenEmbedding
from regard.layers.norms import LayerNorm, NoNorm
from regard.layers.positions import Learned, NoPositions, Rotary, Sinusoidal
from regard.layers.residual import PostNorm, PreNorm
from regard.layers.ssru import SSRU
from regard.messages import Count, Message, join_messages
from regard.models.backbone import LayerFactory, LayerSettings, build_combine, build_positions, xavier
from regard.models.settings import OUTPUT_BIAS, TIE, Tie, fill_from_size

SIZES: dict[str, dict[str, int | float]] = {
    "tiny": dict(d_model=128, num_heads=4, d_ff=512, encoder_layers=2, decoder_layers=2),
    "small": dict(d_model=256, num_heads=4, d_ff=1024, encoder_layers=3, decoder_layers=3),
    "base": dict(d_model=512, num_heads=8, d_ff=2048, encoder_layers=6, decoder_layers=6),
    "big": dict(d_model=1024, num_heads=16, d_ff=4096, encoder_layers=6, decoder_layers=6, dropout=0.3),
}


class TransformerSettings(LayerSettings):
    """Settings of a Transformer. `size` sets the values of table 3; each of them can be set as well."""

    kind: Literal["transformer"] = "transformer"
    size: Literal["tiny", "small", "base", "big", "custom"] = Field(
        "base", description="size preset: base and big as in the paper; custom: set the sizes yourself"
    )
    encoder_layers: int = Field(6, gt=0, description="number of encoder layers")
    decoder_layers: int = Field(6, gt=0, description="number of decoder layers")
    decoder_layer: Literal["attention", "ssru"] = Field(
        "attention",
        description="first sublayer of a decoder layer: self-attention, or a recurrent unit (ssru, Kim et al. 2019), "
        "which makes small students faster on a CPU",
    )
    tie: Tie = Field("all", description=TIE)
    output_bias: bool = Field(False, description=OUTPUT_BIAS)

    @model_validator(mode="before")
    @classmethod
    def fill_from_size(cls, values: object) -> object:
        return fill_from_size(values, SIZES, "base")

    @property
    def shared_vocabulary(self) -> bool:
        return self.tie == "all"

    @property
    def supports_packing(self) -> bool:
        return self.fits_kernel

    @property
    def is_standard(self) -> bool:
        """True if the fast engines, which implement the standard Transformer only, support this model."""
        attention = self.fits_kernel and not self.window and self.head_width * self.num_heads == self.d_model
        layers = self.norm_kind == "layer" and self.residual and self.self_attention and self.d_ff > 0
        layers = layers and self.bias and not self.gated and not self.experts and self.decoder_layer == "attention"
        return attention and layers and self.combine == "add" and self.relative_positions == "none"

    @property
    def summary(self) -> str:
        values = dict(self) | {"heads": Count(self.num_heads)}
        decoder = [] if self.decoder_layer == "attention" else [f"decoder_layer = {self.decoder_layer}"]
        name = Message(
            "Transformer, {encoder_layers} + {decoder_layers} layers of {heads:head}, width {d_model}", **values
        )
        return join_messages(", ", [name, *self.variations, *decoder])


FIRST_SUBLAYERS: dict[str, Callable[[LayerFactory], MultiHeadAttention | NoAttention | SSRU]] = {
    "attention": lambda build: build.self_attention(causal=True),
    "ssru": lambda build: SSRU(build.settings.d_model),
}
"""The first sublayer of a decoder layer, by `model.decoder_layer`."""


@dataclass(frozen=True)
class TransformerState:
    """State of a search: cache and memory of every decoder layer, and the layout of the source."""

    layers: list[DecoderLayerState]
    source: Padded

    @property
    def position(self) -> int:
        return self.layers[0].past.length

    def reorder(self, parents: Tensor) -> "TransformerState":
        return TransformerState([layer.reorder(parents) for layer in self.layers], self.source)

    def keep(self, sentences: Tensor) -> "TransformerState":
        source = Padded(self.source.lengths.index_select(0, sentences), self.source.size)
        return TransformerState([layer.keep(sentences) for layer in self.layers], source)


STANDARD_PARTS = {
    TransformerStack, EncoderLayer, DecoderLayer, MultiHeadAttention, FeedForward, PostNorm, PreNorm, LayerNorm, NoNorm,
    TokenEmbedding, Sinusoidal, Learned, Rotary, NoPositions, nn.Embedding, nn.Linear, nn.Dropout,
}  # fmt: skip
"""The parts that the fast engines implement."""


class Transformer(nn.Module):
    encoder: TransformerStack[EncoderLayer]
    decoder: TransformerStack[DecoderLayer]

    def __init__(self, settings: TransformerSettings, src_vocabulary: int, tgt_vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        if s.tie == "all" and src_vocabulary != tgt_vocabulary:
            raise ValueError("tie = all needs one shared vocabulary")
        embedding = partial(TokenEmbedding, d_model=s.d_model, scale=s.embedding_scale)
        self.tgt_embedding = embedding(tgt_vocabulary, bias=s.output_bias and s.tie != "none")
        self.src_embedding = self.tgt_embedding if s.tie == "all" else embedding(src_vocabulary)
        self.output = embedding(tgt_vocabulary, bias=s.output_bias) if s.tie == "none" else self.tgt_embedding
        self.positions = build_positions(s)
        self.combine = build_combine(s)
        self.dropout = nn.Dropout(s.dropout)
        build, first_sublayer = LayerFactory(s, self.positions), FIRST_SUBLAYERS[s.decoder_layer]
        self.encoder = build.encoder_layers(s.encoder_layers)
        self.decoder = TransformerStack(
            DecoderLayer(first_sublayer(build), build.cross_attention(), build.feedforward(), build.residual)
            for _ in range(s.decoder_layers)
        )
        self.encoder_norm, self.decoder_norm = (build.final_norm() for _ in range(2))
        self.apply(xavier)

    @property
    def is_standard(self) -> bool:
        """True if the fast engines compute what this model does: standard settings and parts, unchanged, no hooks."""
        known = type(self) is Transformer and self.settings.kind == "transformer" and self.settings.is_standard
        return (
            known
            and is_unchanged(self)
            and all(type(part) in STANDARD_PARTS and is_unchanged(part) for part in islice(self.modules(), 1, None))
        )

    def forward(self, src: Tokens, tgt: Tokens) -> OutputProjection:
        """Source and shifted target in the same layout -> projection of (*, D) to (*, V)."""
        window = self.settings.window
        memory = self.encode(src, src.layout.pattern(src.layout, window=window))  # (*, D)
        pattern = tgt.layout.pattern(tgt.layout, causal=True, window=window)
        x = self.decode(tgt, memory, pattern, tgt.layout.pattern(src.layout))  # (*, D)
        return self.output.project(x)

    def encode(self, src: Tokens, pattern: AttentionPattern) -> Tensor:
        """-> memory (*, D)."""
        x = self.embed(self.src_embedding, src.ids, src.layout.positions)  # (*, D)
        return self.encoder_norm(self.encoder(x, pattern), src.layout)

    def decode(self, tgt: Tokens, memory: Tensor, pattern: AttentionPattern, cross_pattern: AttentionPattern) -> Tensor:
        """-> hidden states (*, D), the input of the output projection."""
        x = self.embed(self.tgt_embedding, tgt.ids, tgt.layout.positions)  # (*, D)
        return self.decoder_norm(self.decoder(x, memory, pattern, cross_pattern), tgt.layout)

    def embed(self, embedding: nn.Module, ids: Tensor, positions: Tensor) -> Tensor:
        """ids (*) at these positions -> (*, D)."""
        x = embedding(ids)
        return self.dropout(self.combine(x, self.positions(positions).to(x.dtype)))

    def start(self, src: Tokens) -> TransformerState:
        assert isinstance(src.layout, Padded)
        window = self.settings.window
        memory = self.encode(src, src.layout.pattern(src.layout, window=window))  # (B, S, D)
        return TransformerState([layer.start(memory, src.layout, window) for layer in self.decoder], src.layout)

    def step(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        position = torch.full((1,), state.position, dtype=torch.long, device=tokens.device)
        x = self.embed(self.tgt_embedding, tokens, position)  # (B, W, D)
        hypotheses = Padded(state.source.lengths, tokens.size(1))
        cross_pattern = hypotheses.pattern(state.source)
        layers = []
        for layer, layer_state in zip(self.decoder, state.layers, strict=True):
            x, layer_state = layer.step(x, layer_state, cross_pattern)
            layers.append(layer_state)
        return self.output.scores(self.decoder_norm(x)), TransformerState(layers, state.source)

    @torch.no_grad()
    def attentions(self, src: Tokens, tgt: Tokens) -> Attentions:
        """The attention weights of every layer and head for a padded batch."""
        assert isinstance(src.layout, Padded) and isinstance(tgt.layout, Padded)
        window = self.settings.window
        encoder = RecordingPattern(src.layout, src.layout, causal=False, window=window)
        decoder = RecordingPattern(tgt.layout, tgt.layout, causal=True, window=window)
        cross = RecordingPattern(tgt.layout, src.layout, causal=False)
        self.decode(tgt, self.encode(src, encoder), decoder, cross)
        return Attentions(encoder.stacked_or_none(), decoder.stacked_or_none(), cross.stacked())


def is_unchanged(module: nn.Module) -> bool:
    """True if a module has no hooks, and no method of its own in place of one of its class."""
    hooks = module._forward_hooks or module._forward_pre_hooks
    return not hooks and not any(callable(getattr(type(module), name, None)) for name in vars(module))
