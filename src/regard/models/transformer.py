"""The Transformer (Vaswani et al. 2017, "Attention Is All You Need").

    source words -> embedding + positions -> N encoder layers -> memory
    target words -> embedding + positions -> N decoder layers, looking at the memory -> scores of the next word

`forward` is the training path: all positions at once, each seeing only those before it. `start` and `step` are the
same model one word at a time, with the past kept in a state; a test holds the two equal.

B sentences, W hypotheses, S source, T target, D model, V vocabulary; `*` is (B, T) padded or (N,) packed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor, nn

from regard.attention import MultiHeadAttention, Padded, Sight, Tokens, Watched
from regard.config import Field
from regard.layers.blocks import DecoderLayer, DecoderLayerState, EncoderLayer
from regard.layers.embeddings import TokenEmbedding
from regard.layers.feedforward import ACTIVATIONS, FeedForward
from regard.layers.positions import Learned, NoPositions, Positions, Rotary, Sinusoidal
from regard.layers.residual import NORMS
from regard.models.attentions import Attentions
from regard.models.settings import ModelSettings

SIZES: dict[str, dict[str, Any]] = {
    "tiny": dict(d_model=128, num_heads=4, d_ff=512, encoder_layers=2, decoder_layers=2),
    "small": dict(d_model=256, num_heads=4, d_ff=1024, encoder_layers=3, decoder_layers=3),
    "base": dict(d_model=512, num_heads=8, d_ff=2048, encoder_layers=6, decoder_layers=6),
    "big": dict(d_model=1024, num_heads=16, d_ff=4096, encoder_layers=6, decoder_layers=6, dropout=0.3),
}


class TransformerSettings(ModelSettings):
    """The shape of a Transformer. `size` sets the numbers of table 3; any of them can be given beside it."""

    kind: Literal["transformer"] = "transformer"
    size: Literal["tiny", "small", "base", "big"] = Field(
        "base", description="named size; base and big are the paper's"
    )
    d_model: int = Field(512, gt=0, description="width of every token's vector")
    num_heads: int = Field(8, gt=0, description="attention heads; must divide d_model")
    d_ff: int = Field(2048, gt=0, description="inner width of the feed-forward layers")
    encoder_layers: int = Field(6, gt=0, description="layers of the encoder")
    decoder_layers: int = Field(6, gt=0, description="layers of the decoder")
    dropout: float = Field(0.1, ge=0, lt=1, description="on the embeddings and on each sublayer's output")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="on the attention weights")
    activation_dropout: float = Field(0.0, ge=0, lt=1, description="inside the feed-forward layers")
    activation: Literal["relu", "gelu", "silu"] = Field("relu", description="bend of the feed-forward layers")
    norm: Literal["post", "pre"] = Field("post", description="layer norm after the residual (paper) or before")
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = Field("sinusoidal", description="kind of positions")
    max_positions: int = Field(1024, gt=0, description="longest sentence with learned positions")
    tie: Literal["all", "output", "none"] = Field(
        "all", description="one matrix for source, target and output; for target and output; or three"
    )

    @model_validator(mode="before")
    @classmethod
    def fill_from_size(cls, values: Any) -> Any:
        return SIZES.get(values.get("size", "base"), {}) | values if isinstance(values, dict) else values

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.d_model % self.num_heads:
            raise ValueError(f"num_heads = {self.num_heads} does not divide d_model = {self.d_model}")
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"positions = sinusoidal needs an even d_model, not {self.d_model}")
        if self.positions == "rotary" and (self.d_model // self.num_heads) % 2:
            raise ValueError(f"positions = rotary needs an even head size, not {self.d_model // self.num_heads}")
        return self

    @property
    def longest(self) -> int | None:
        return self.max_positions if self.positions == "learned" else None

    @property
    def joint(self) -> bool:
        return self.tie == "all"

    @property
    def packs(self) -> bool:
        return True

    @property
    def summary(self) -> str:
        layers = f"{self.encoder_layers} + {self.decoder_layers} layers of {self.num_heads} heads"
        return f"Transformer, {layers}, width {self.d_model}"


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
        self.tgt_embedding = TokenEmbedding(tgt_vocabulary, s.d_model)
        self.src_embedding = self.tgt_embedding if s.tie == "all" else TokenEmbedding(src_vocabulary, s.d_model)
        self.output = TokenEmbedding(tgt_vocabulary, s.d_model) if s.tie == "none" else self.tgt_embedding
        self.positions = positions(s)
        self.dropout = nn.Dropout(s.dropout)

        residual = partial(NORMS[s.norm], s.d_model, s.dropout)
        attention: Any = partial(MultiHeadAttention, s.d_model, s.num_heads, s.attention_dropout)
        feedforward = partial(FeedForward, s.d_model, s.d_ff, s.activation_dropout, ACTIVATIONS[s.activation])
        self.encoder: Sequence[EncoderLayer] = nn.ModuleList(  # type: ignore[assignment]
            EncoderLayer(attention(rotate=self.positions.rotate), feedforward(), residual)
            for _ in range(s.encoder_layers)
        )
        self.decoder: Sequence[DecoderLayer] = nn.ModuleList(  # type: ignore[assignment]
            DecoderLayer(attention(rotate=self.positions.rotate), attention(), feedforward(), residual)
            for _ in range(s.decoder_layers)
        )
        self.encoder_norm, self.decoder_norm = (NORMS[s.norm].final(s.d_model) for _ in range(2))
        self.apply(xavier)

    def forward(self, src: Tokens, tgt: Tokens, read_out: Any = nn.functional.linear) -> Any:
        """Source and shifted target in the same layout -> logits (*, V), or what `read_out` makes of (*, D), (V, D)."""
        memory = self.encode(src, src.layout.sees(src.layout))
        x = self.decode(tgt, memory, tgt.layout.sees(tgt.layout, causal=True), tgt.layout.sees(src.layout))
        return read_out(x, self.output.weight)

    def encode(self, src: Tokens, sight: Sight) -> Tensor:
        """-> memory (*, D)."""
        x = self.embed(self.src_embedding, src.ids, src.layout.positions)
        for layer in self.encoder:
            x = layer(x, sight)
        return self.encoder_norm(x)

    def decode(self, tgt: Tokens, memory: Tensor, sight: Sight, cross_sight: Sight) -> Tensor:
        """-> (*, D), to be compared with each word's row of the output matrix."""
        x = self.embed(self.tgt_embedding, tgt.ids, tgt.layout.positions)
        for layer in self.decoder:
            x = layer(x, memory, sight, cross_sight)
        return self.decoder_norm(x)

    def embed(self, embedding: TokenEmbedding, ids: Tensor, positions: Tensor) -> Tensor:
        x = embedding(ids)
        return self.dropout(x + self.positions(positions).to(x.dtype))

    def start(self, src: Tokens) -> TransformerState:
        """Read the source (padded) once; every step looks back at it."""
        assert isinstance(src.layout, Padded)
        memory = self.encode(src, src.layout.sees(src.layout))
        return TransformerState([layer.start(memory, src.layout) for layer in self.decoder], src.layout)

    def step(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """The newest word of every hypothesis, (B, W) -> logits (B, W, V) of the next."""
        position = torch.full((1,), state.position, device=tokens.device)
        x = self.embed(self.tgt_embedding, tokens, position)
        hypotheses = Padded(state.source.lengths, tokens.size(1))
        cross_sight = hypotheses.sees(state.source)
        layers = []
        for layer, layer_state in zip(self.decoder, state.layers, strict=True):
            x, layer_state = layer.step(x, layer_state, cross_sight)
            layers.append(layer_state)
        return self.output.scores(self.decoder_norm(x)), TransformerState(layers, state.source)

    @torch.no_grad()
    def attentions(self, src: Tokens, tgt: Tokens) -> Attentions:
        """What attended to what: the weights of every layer and head for a padded batch."""
        assert isinstance(src.layout, Padded) and isinstance(tgt.layout, Padded)
        sights = (
            Watched(src.layout, src.layout, causal=False),
            Watched(tgt.layout, tgt.layout, causal=True),
            Watched(tgt.layout, src.layout, causal=False),
        )
        memory = self.encode(src, sights[0])
        self.decode(tgt, memory, sights[1], sights[2])
        return Attentions(*(torch.stack(sight.weights, dim=1) for sight in sights))


def positions(settings: TransformerSettings) -> Positions:
    """The positional part the settings name."""
    match settings.positions:
        case "sinusoidal":
            return Sinusoidal(settings.d_model)
        case "learned":
            return Learned(settings.d_model, settings.max_positions)
        case "rotary":
            return Rotary()
        case "none":
            return NoPositions()


def xavier(module: nn.Module) -> None:
    """Glorot & Bengio 2010: weights uniform in +-sqrt(6 / (fan_in + fan_out)), biases zero."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)
