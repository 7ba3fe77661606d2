"""The shape of a BERT: its sizes, and the few things published ones differ in."""

from typing import Any, Literal, Self

from pydantic import model_validator

from regard.config import Field
from regard.models.settings import ModelSettings

SIZES: dict[str, dict[str, Any]] = {
    "tiny": dict(layers=2, d_model=128, num_heads=2, d_ff=512),
    "mini": dict(layers=4, d_model=256, num_heads=4, d_ff=1024),
    "small": dict(layers=4, d_model=512, num_heads=8, d_ff=2048),
    "minilm": dict(layers=6, d_model=384, num_heads=12, d_ff=1536),
    "base": dict(layers=12, d_model=768, num_heads=12, d_ff=3072),
    "large": dict(layers=24, d_model=1024, num_heads=16, d_ff=4096),
}


class BertSettings(ModelSettings):
    """The shape of a BERT. `size` sets width, layers and heads; any of them can be given beside it."""

    kind: Literal["bert"] = "bert"
    size: Literal["tiny", "mini", "small", "minilm", "base", "large"] = Field(
        "base",
        description="named size; base and large are the paper's (Devlin et al. 2018, section 3), tiny, mini and small "
        "those of Turc et al. 2019, minilm that of Wang et al. 2020 with 6 layers",
    )
    d_model: int = Field(768, gt=0, description="width of every token's vector")
    num_heads: int = Field(12, gt=0, description="attention heads; must divide d_model")
    d_ff: int = Field(3072, gt=0, description="inner width of the feed-forward layers")
    layers: int = Field(12, gt=0, description="layers")
    dropout: float = Field(0.1, ge=0, lt=1, description="on the embeddings and on each sublayer's output")
    attention_dropout: float = Field(0.1, ge=0, lt=1, description="on the attention weights")
    activation: Literal["gelu", "relu", "silu"] = Field("gelu", description="bend of the feed-forward layers")
    max_positions: int = Field(512, gt=0, description="longest input, special symbols included")
    segments: int = Field(2, gt=0, description="texts of one input that are told apart")
    epsilon: float = Field(1e-12, gt=0, description="what layer norm adds to the variance")

    @model_validator(mode="before")
    @classmethod
    def fill_from_size(cls, values: Any) -> Any:
        return SIZES.get(values.get("size", "base"), {}) | values if isinstance(values, dict) else values

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.d_model % self.num_heads:
            raise ValueError(
                f"num_heads = {self.num_heads} does not divide d_model = {self.d_model}; change one of them"
            )
        return self

    @property
    def length_limit(self) -> int:
        return self.max_positions

    @property
    def supports_packing(self) -> bool:
        return True

    @property
    def summary(self) -> str:
        return f"BERT, {self.layers} layers of {self.num_heads} heads, width {self.d_model}"
