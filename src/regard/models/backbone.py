"""Components of all Transformers: settings, positions, layers, and the backbone of models that read one text.

    x_i = embedding of token i, with its position
    h   = L layers of self-attention and feed-forward networks, and a final norm where the layers are pre-norm

BERT, the text encoder and the language model are backbones; the translation model has a stack for each side
(transformer.py).

B sentences, T tokens, D model, H heads; `*` is (B, T) padded or (N,) packed.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Literal, Self, TypeVar

import torch
from pydantic import model_validator
from torch import Tensor, nn

from regard.attention.layouts import AttentionPattern, Layout, Padded, RecordingPattern, Tokens
from regard.attention.multihead import MultiHeadAttention, NoAttention
from regard.attention.scored_attention import PositionBias, ScoredAttention
from regard.attention.scoring import SCORINGS
from regard.config import Field, NameIn, SettingError, Unused, unless
from regard.layers.blocks import (
    ACTIVATION,
    ACTIVATIONS,
    ActivationKind,
    EncoderLayer,
    FeedForward,
    GatedFeedForward,
    NoFeedForward,
    TransformerStack,
)
from regard.layers.experts import MixtureOfExperts
from regard.layers.norms import NORMS
from regard.layers.positions import (
    ALiBi,
    Both,
    Buckets,
    Concatenated,
    Learned,
    NoPositions,
    Positions,
    Relative,
    Rotary,
    Sinusoidal,
)
from regard.layers.residual import RESIDUALS, Residual
from regard.models.settings import ModelSettings
from regard.plugins import Registry

POSITIONS: Registry[Callable[["LayerSettings"], Positions]] = Registry(
    "position encoding",
    {
        "sinusoidal": lambda s: Sinusoidal(s.d_model),
        "learned": lambda s: Learned(s.d_model, s.max_positions),
        "rotary": lambda s: Rotary(),
        "relative": lambda s: Relative(s.head_width, s.max_distance),
        "alibi": lambda s: ALiBi(s.num_heads),
        "buckets": lambda s: Buckets(s.num_heads, s.buckets, s.max_distance),
        "none": lambda s: NoPositions(),
    },
)
"""How each kind of positions is built, by its name in a recipe."""
P = TypeVar("P", bound=Callable[["LayerSettings"], Positions])


def register_positions(name: str) -> Callable[[P], P]:
    """Add a position encoding: use `@register_positions("name")` on a subclass of `Positions`.

    Its constructor takes the settings of the model. Models with it run in the reference engine.
    """
    return POSITIONS.adder(name)


PositionKind = Annotated[str, NameIn(POSITIONS)]
ScoreKind = Annotated[str, NameIn(SCORINGS)]


class LayerSettings(ModelSettings):
    """Settings of the layers of every Transformer."""

    d_model: int = Field(512, gt=0, description="model size: width of the hidden states")
    num_heads: int = Field(
        8, gt=0, description="number of attention heads; must divide `d_model` unless `head_dim` is set"
    )
    head_dim: int | None = Field(None, gt=0, description="size of each head; default: `d_model` / `num_heads`")
    share_qk: bool = Field(False, description="use one projection for both queries and keys")
    d_ff: int = Field(2048, ge=0, description="hidden width of the feed-forward layers; 0: no feed-forward layers")
    self_attention: bool = Field(True, description="use self-attention in every layer")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout on the embeddings and on the output of each sublayer")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="dropout on the attention weights")
    activation_dropout: float = Field(0.0, ge=0, lt=1, description="dropout inside the feed-forward layers")
    activation: ActivationKind = Field("relu", description=ACTIVATION)
    gated: bool = Field(False, description="gated feed-forward layers: (activation(x W_1) * x V) W_2")
    experts: int = Field(
        0, ge=0, le=1024, description="mixture of experts: number of feed-forward networks per layer; 0: one network"
    )
    experts_used: int = Field(2, gt=0, description="only with `experts`: number of experts that compute a token")
    experts_balance: float = Field(
        0.1, ge=0, description="only with `experts`: weight of the loss that keeps all experts in use"
    )
    bias: bool = Field(True, description="use biases in attention and feed-forward layers")
    norm: Literal["post", "pre"] = Field(
        "post",
        description="where to normalise: post (after the residual connection, the paper) or pre (before the sublayer)",
    )
    norm_kind: Literal["layer", "rms", "batch", "none"] = Field(
        "layer",
        description="normalisation: layer (LayerNorm), rms (RMSNorm), batch (over all tokens in a batch, with one "
        "process only) or none",
    )
    residual: bool = Field(True, description="use residual connections: add each sublayer's input to its output")
    score: ScoreKind = Field("scaled_dot", description="attention score function")
    window: int = Field(
        0, ge=0, description="local self-attention: visible tokens on each side (decoder: only before); 0: all"
    )
    scale_embeddings: bool = Field(True, description="multiply the embeddings by sqrt(`d_model`), as in the paper")
    positions: PositionKind = Field("sinusoidal", description="position encoding")
    relative_positions: Literal["none", "rotary", "relative", "alibi"] = Field(
        "none",
        description="only with sinusoidal or learned `positions`: additional position encoding in self-attention",
    )
    combine: Literal["add", "concat"] = Field(
        "add", description="how to combine absolute positions p and embeddings x: add (x + p) or concat ([x; p] W)"
    )
    max_positions: int = Field(1024, gt=0, description="only with learned positions: maximum sentence length in tokens")
    max_distance: int = Field(
        16,
        gt=0,
        description="only with relative positions and buckets: maximum distance; larger distances share one value",
    )
    buckets: int = Field(32, ge=4, description='only with `positions = "buckets"`: number of distance groups')

    def no_effect(self) -> Iterator[Unused]:
        yield from super().no_effect()
        yield from unless(self.d_ff > 0, "d_ff > 0", "activation", "activation_dropout", "gated", "experts")
        yield from unless(self.experts > 0, "experts", "experts_used", "experts_balance")
        yield from unless(self.self_attention, "self_attention = true", "window")
        yield from unless(self.positions == "learned", 'positions = "learned"', "max_positions")
        relative = 'positions or relative_positions = "relative", or positions = "buckets"'
        yield from unless(self.attention_positions in ("relative", "buckets"), relative, "max_distance")
        yield from unless(self.positions == "buckets", 'positions = "buckets"', "buckets")

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.head_dim is None and self.d_model % self.num_heads:
            problem = f"num_heads = {self.num_heads} does not divide d_model = {self.d_model}"
            raise SettingError("num_heads", f"{problem}; change one of them, or set the head size with `head_dim`")
        if self.experts and self.experts_used > self.experts:
            raise SettingError("experts_used", f"{self.experts_used} is more than experts = {self.experts}")
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise SettingError("d_model", f'`positions = "sinusoidal"` needs an even `d_model`, not {self.d_model}')
        if self.relative_positions != "none" and self.positions not in ("sinusoidal", "learned"):
            kind = self.relative_positions
            problem = f'`relative_positions = "{kind}"` needs sinusoidal or learned `positions`, not {self.positions}'
            raise SettingError("relative_positions", f'{problem}; or write only `positions = "{kind}"`')
        if self.attention_positions == "rotary" and self.head_width % 2:
            raise SettingError("num_heads", f'`positions = "rotary"` needs an even head size, not {self.head_width}')
        if self.attention_positions == "rotary" and self.score not in ("scaled_dot", "dot", "cosine"):
            problem = f'`positions = "rotary"` needs a dot product, not `score = "{self.score}"`'
            raise SettingError("score", f'{problem}; change one of them, e.g. to `positions = "alibi"`')
        if self.attention_positions == "relative" and self.score != "scaled_dot":
            problem = f'`positions = "relative"` needs `score = "scaled_dot"`, not {self.score}'
            raise SettingError("score", f'{problem}; change one of them, e.g. to `positions = "alibi"`')
        if self.positions == "buckets" and self.max_distance <= self.buckets // 2:
            needed = f'`positions = "buckets"` needs more than `buckets` / 2 = {self.buckets // 2}'
            problem = f"{self.max_distance} is too small; {needed}"
            raise SettingError("max_distance", problem)
        if self.combine == "concat" and self.positions in ("rotary", "relative", "alibi", "buckets", "none"):
            problem = f'`combine = "concat"` needs position vectors; `positions = "{self.positions}"` has none'
            raise SettingError("combine", f'{problem}; write `combine = "add"`, or sinusoidal or learned `positions`')
        return self

    @property
    def head_width(self) -> int:
        return self.head_dim or self.d_model // self.num_heads

    @property
    def attention_positions(self) -> str:
        """The kind of positions in self-attention: rotary, relative, alibi, buckets, none, or one of a plug-in."""
        if self.positions in ("sinusoidal", "learned"):
            return self.relative_positions
        return self.positions

    @property
    def embedding_scale(self) -> float:
        return math.sqrt(self.d_model) if self.scale_embeddings else 1.0

    @property
    def variations(self) -> list[str]:
        """The settings of the layers that differ from their defaults."""
        names = (
            "self_attention", "norm_kind", "residual", "head_dim", "share_qk", "score", "window", "scale_embeddings",
            "positions", "relative_positions", "combine", "gated", "bias", "experts",
        )  # fmt: skip
        fields = type(self).model_fields
        return [f"{name} = {getattr(self, name)}" for name in names if getattr(self, name) != fields[name].default]

    @property
    def length_limit(self) -> int | None:
        return self.max_positions if self.positions == "learned" else None

    @property
    def one_process_only(self) -> bool:
        return self.norm_kind == "batch"

    @property
    def normalises_output(self) -> bool:
        return self.norm_kind in ("layer", "rms")

    @property
    def fits_kernel(self) -> bool:
        """True if the kernel for packed batches computes this attention: scaled dot products, without a bias. Packed
        batches are recorded as CUDA graphs, in which no gate can choose experts."""
        return self.score == "scaled_dot" and self.attention_positions in ("rotary", "none") and not self.experts


def build_positions(settings: LayerSettings) -> Positions:
    absolute = POSITIONS[settings.positions](settings)
    if settings.relative_positions == "none":
        return absolute
    return Both(absolute, POSITIONS[settings.relative_positions](settings))


def build_combine(settings: LayerSettings) -> Callable[[Tensor, Tensor], Tensor]:
    """Build the combination of embeddings and positions: a sum, or a linear map of both."""
    return Concatenated(settings.d_model) if settings.combine == "concat" else torch.add


class LayerFactory:
    """Builds the parts of Transformer layers by their settings."""

    def __init__(self, settings: LayerSettings, positions: Positions) -> None:
        self.settings, self.positions = settings, positions

    def norm(self) -> nn.Module:
        return NORMS[self.settings.norm_kind](self.settings.d_model)

    def residual(self) -> Residual:
        """The residual connection and the norm around a sublayer."""
        s = self.settings
        return RESIDUALS[s.norm, s.residual](self.norm(), s.dropout)

    def final_norm(self) -> nn.Module:
        """The norm at the top of a stack."""
        s = self.settings
        return RESIDUALS[s.norm, s.residual].final(self.norm)

    def feedforward(self) -> FeedForward | MixtureOfExperts | NoFeedForward:
        s = self.settings
        if not s.d_ff:
            return NoFeedForward()
        kind = GatedFeedForward if s.gated else FeedForward
        build = partial(kind, s.d_model, s.d_ff, s.activation_dropout, ACTIVATIONS[s.activation], s.bias)
        return (
            MixtureOfExperts(build, s.d_model, s.experts, s.experts_used, s.experts_balance) if s.experts else build()
        )

    def self_attention(self, causal: bool = False) -> MultiHeadAttention | NoAttention:
        """Self-attention with the positions of the model; `causal` if it will only see earlier tokens."""
        if not self.settings.self_attention:
            return NoAttention()
        s, scored = self.settings, self.scored_attention(self.positions.position_bias(causal))
        return MultiHeadAttention(
            s.d_model, s.num_heads, s.attention_dropout, self.positions.rotate, s.head_dim, scored, s.share_qk, s.bias
        )

    def cross_attention(self) -> MultiHeadAttention:
        """Attention to a memory; source and target positions are not compared."""
        s, scored = self.settings, self.scored_attention(None)
        return MultiHeadAttention(
            s.d_model,
            s.num_heads,
            s.attention_dropout,
            head_dim=s.head_dim,
            scored_attention=scored,
            share_qk=s.share_qk,
            bias=s.bias,
        )

    def scored_attention(self, position_bias: PositionBias | None) -> ScoredAttention | None:
        """The score and the bias; None for scaled dot products without a bias, which have a fused kernel."""
        s, width = self.settings, self.settings.head_width
        if s.score == "scaled_dot" and position_bias is None:
            return None
        return ScoredAttention(SCORINGS[s.score](width, width, width), position_bias)

    def encoder_layers(self, count: int, causal: bool = False) -> TransformerStack[EncoderLayer]:
        """A stack of layers with self-attention."""
        return TransformerStack(
            EncoderLayer(self.self_attention(causal), self.feedforward(), self.residual) for _ in range(count)
        )


class TransformerBackbone(nn.Module, ABC):
    """Base of models that read one text: embedding -> layers -> final norm."""

    layers: TransformerStack[EncoderLayer]
    causal = False
    window = 0

    @abstractmethod
    def embed(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """Tokens, and the segment of each (*), 0 by default -> x (*, D)."""

    def final_norm(self, x: Tensor, layout: Layout) -> Tensor:
        return x

    def pattern(self, layout: Layout) -> AttentionPattern:
        return layout.pattern(layout, causal=self.causal, window=self.window)

    def encode(self, tokens: Tokens, segments: Tensor | None = None, pattern: AttentionPattern | None = None) -> Tensor:
        """-> h (*, D); `pattern` may record or restrict the attention."""
        x = self.embed(tokens, segments)  # (*, D)
        return self.final_norm(self.layers(x, pattern or self.pattern(tokens.layout)), tokens.layout)

    def hidden_states(self, tokens: Tokens, segments: Tensor | None = None) -> list[Tensor]:
        """The embeddings and the output of every layer, (*, D) each."""
        x, pattern = self.embed(tokens, segments), self.pattern(tokens.layout)
        *lower, last = self.layers.hidden_states(x, pattern)
        return [*lower, self.final_norm(last, tokens.layout)]

    @torch.no_grad()
    def record_attention(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor | None:
        """The attention weights of every layer and head for a padded batch, (B, layers, H, T, T); None without any."""
        assert isinstance(tokens.layout, Padded)
        pattern = RecordingPattern(tokens.layout, tokens.layout, self.causal, self.window)
        self.encode(tokens, segments, pattern)
        return pattern.stacked_or_none()


def xavier(module: nn.Module) -> None:
    """Initialise as Glorot & Bengio 2010: weights uniform in +-sqrt(6 / (fan_in + fan_out)), biases zero."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
