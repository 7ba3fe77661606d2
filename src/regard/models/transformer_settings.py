"""The shape of a Transformer: its sizes, and which part is handed in where there are several."""

from typing import Any, Literal, Self

from pydantic import model_validator

from regard.config import Field
from regard.models.settings import ModelSettings

SIZES: dict[str, dict[str, Any]] = {
    "tiny": dict(d_model=128, num_heads=4, d_ff=512, encoder_layers=2, decoder_layers=2),
    "small": dict(d_model=256, num_heads=4, d_ff=1024, encoder_layers=3, decoder_layers=3),
    "base": dict(d_model=512, num_heads=8, d_ff=2048, encoder_layers=6, decoder_layers=6),
    "big": dict(d_model=1024, num_heads=16, d_ff=4096, encoder_layers=6, decoder_layers=6, dropout=0.3),
}


class LayerSettings(ModelSettings):
    """What all Transformers are stacked from, whether they translate or only write."""

    d_model: int = Field(512, gt=0, description="width of every token's vector")
    num_heads: int = Field(8, gt=0, description="attention heads; must divide d_model unless head_dim is given")
    head_dim: int | None = Field(None, gt=0, description="width of a head; d_model / num_heads if not given")
    d_ff: int = Field(2048, gt=0, description="inner width of the feed-forward layers")
    dropout: float = Field(0.1, ge=0, lt=1, description="on the embeddings and on each sublayer's output")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="on the attention weights")
    activation_dropout: float = Field(0.0, ge=0, lt=1, description="inside the feed-forward layers")
    activation: Literal["relu", "gelu", "silu"] = Field("relu", description="bend of the feed-forward layers")
    norm: Literal["post", "pre"] = Field("post", description="layer norm after the residual (paper) or before")
    score: Literal["scaled_dot", "dot", "general", "additive", "concat", "cosine"] = Field(
        "scaled_dot", description="how well a query fits a key, in every head"
    )
    window: int = Field(
        0, ge=0, description="neighbours on either side that self-attention sees, before it in the decoder; 0: all"
    )
    positions: Literal["sinusoidal", "learned", "rotary", "relative", "alibi", "none"] = Field(
        "sinusoidal", description="kind of positions"
    )
    combine: Literal["add", "concat"] = Field(
        "add", description="how sinusoidal and learned positions meet the words: x + p, or [x; p] W"
    )
    max_positions: int = Field(1024, gt=0, description="longest sentence with learned positions")
    max_distance: int = Field(16, gt=0, description="farthest distance that relative positions tell apart")

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.head_dim is None and self.d_model % self.num_heads:
            raise ValueError(
                f"num_heads = {self.num_heads} does not divide d_model = {self.d_model}; "
                "change one of them, or give the width of a head as head_dim"
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"positions = sinusoidal needs an even d_model, not {self.d_model}")
        if self.positions == "rotary" and self.head_width % 2:
            raise ValueError(f"positions = rotary needs an even head size, not {self.head_width}")
        if self.positions == "rotary" and self.score not in ("scaled_dot", "dot", "cosine"):
            raise ValueError(
                f"positions = rotary turns what a dot product compares, and score = {self.score} is none; "
                "choose another of the two, for example positions = alibi"
            )
        if self.positions == "relative" and self.score != "scaled_dot":
            raise ValueError(
                f"positions = relative is part of the scaled dot product, not of score = {self.score}; "
                "choose another of the two, for example positions = alibi"
            )
        if self.combine == "concat" and self.positions not in ("sinusoidal", "learned"):
            raise ValueError(
                f"positions = {self.positions} has no vector beside a word's that combine = concat could take; "
                "use combine = add, or positions = sinusoidal or learned"
            )
        return self

    @property
    def head_width(self) -> int:
        """`head_dim` as it is given, or the model's width shared out among the heads."""
        return self.head_dim or self.d_model // self.num_heads

    @property
    def variations(self) -> list[str]:
        """The parts that are not the usual ones, as they are set."""
        parts = ("head_dim", "score", "window", "positions", "combine")
        usual = type(self).model_fields
        return [f"{part} = {getattr(self, part)}" for part in parts if getattr(self, part) != usual[part].default]

    @property
    def length_limit(self) -> int | None:
        return self.max_positions if self.positions == "learned" else None


class TransformerSettings(LayerSettings):
    """The shape of a Transformer. `size` sets the numbers of table 3; any of them can be given beside it."""

    kind: Literal["transformer"] = "transformer"
    size: Literal["tiny", "small", "base", "big"] = Field(
        "base", description="named size; base and big are the paper's"
    )
    encoder_layers: int = Field(6, gt=0, description="layers of the encoder")
    decoder_layers: int = Field(6, gt=0, description="layers of the decoder")
    tie: Literal["all", "output", "none"] = Field(
        "all", description="one matrix for source, target and output; for target and output; or three"
    )
    output_bias: bool = Field(False, description="a number of its own for every word of the output, added to its score")

    @model_validator(mode="before")
    @classmethod
    def fill_from_size(cls, values: Any) -> Any:
        return SIZES.get(values.get("size", "base"), {}) | values if isinstance(values, dict) else values

    @property
    def shared_vocabulary(self) -> bool:
        return self.tie == "all"

    @property
    def supports_packing(self) -> bool:
        """The kernel for packed batches knows scaled dot products; windows and any width of heads are fine with it."""
        return self.score == "scaled_dot" and self.positions not in ("relative", "alibi")

    @property
    def is_standard(self) -> bool:
        """Whether the faster engines apply, which are written for the usual parts."""
        usual = self.supports_packing and self.combine == "add" and not self.window
        return usual and self.head_width * self.num_heads == self.d_model

    @property
    def summary(self) -> str:
        layers = f"{self.encoder_layers} + {self.decoder_layers} layers of {self.num_heads} heads"
        return ", ".join([f"Transformer, {layers}, width {self.d_model}", *self.variations])
