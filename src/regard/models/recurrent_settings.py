"""The settings of recurrent translation models: a style of decoder, and whatever differs from its paper."""

from typing import Any, Literal, Self

from pydantic import model_validator

from regard.config import Field
from regard.models.settings import ModelSettings

# What the papers trained: Sutskever et al. 2014, section 3.4; Bahdanau et al. 2014, appendix A; Luong et al. 2015,
# section 4.1, the best single system of table 1. Reading the source backward is what the first and last call reversing.
STYLES: dict[str, dict[str, Any]] = {
    "plain": dict(cell="lstm", layers=4, encoder="backward", d_embedding=1000, attention="none"),
    "bahdanau": dict(cell="gru", layers=1, encoder="both", d_embedding=620, score="additive", attention="global"),
    "luong": dict(
        cell="lstm", layers=4, encoder="backward", d_embedding=1000, score="general", attention="local-p",
        input_feeding=True, dropout=0.2,
    ),
}  # fmt: skip


class RecurrentSettings(ModelSettings):
    """`decoder` sets what its paper used; any of it can be given beside it."""

    kind: Literal["recurrent"] = "recurrent"
    decoder: Literal["plain", "bahdanau", "luong"] = Field(
        "bahdanau",
        description="no attention (Sutskever 2014), attention before a step or after it; the paper's defaults",
    )
    cell: Literal["rnn", "gru", "lstm"] = Field("gru", description="kind of recurrent layer")
    layers: int = Field(1, gt=0, description="recurrent layers of the encoder and of the decoder")
    encoder: Literal["forward", "backward", "both"] = Field("both", description="the way the source is read")
    d_model: int = Field(1000, gt=0, description="size of a recurrent layer's state, in each direction")
    d_embedding: int = Field(620, gt=0, description="width of the vectors of words")
    attention: Literal["none", "global", "local-m", "local-p", "hard-gumbel", "hard-reinforce"] = Field(
        "global", description="which source words are looked at; none for decoder = plain alone"
    )
    score: Literal["dot", "scaled_dot", "general", "additive", "concat", "cosine"] = Field(
        "additive", description="how well a state fits a source word"
    )
    window: int = Field(10, gt=0, description="local attention: source words on either side of the middle")
    input_feeding: bool = Field(False, description="decoder = luong: what was read out goes into the next step")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="on the embeddings, between layers and on what words are read from"
    )
    tie: Literal["all", "output", "none"] = Field(
        "none", description="one matrix for source, target and output; for target and output; or three"
    )

    @model_validator(mode="before")
    @classmethod
    def fill_from_style(cls, values: Any) -> Any:
        return STYLES.get(values.get("decoder", "bahdanau"), {}) | values if isinstance(values, dict) else values

    @model_validator(mode="after")
    def check(self) -> Self:
        if (self.decoder == "plain") != (self.attention == "none"):
            instead = "attention = none" if self.decoder == "plain" else "decoder = plain, or attention = global"
            raise ValueError(f"decoder = {self.decoder} cannot have attention = {self.attention}; write {instead}")
        if self.decoder == "plain" and self.encoder == "both":
            raise ValueError(
                "decoder = plain begins where the encoder ends, which reads one way; write encoder = backward"
            )
        if self.input_feeding and self.decoder != "luong":
            raise ValueError(f"input_feeding is of decoder = luong, not {self.decoder}; write input_feeding = false")
        if self.encoder == "both" and self.score in ("dot", "scaled_dot", "cosine") and self.attention != "none":
            raise ValueError(
                f"score = {self.score} needs one width, but encoder = both has states of twice the decoder's; "
                "write score = general, or encoder = backward"
            )
        return self

    @property
    def has_attention(self) -> bool:
        return self.attention != "none"

    @property
    def shared_vocabulary(self) -> bool:
        return self.tie == "all"

    @property
    def summary(self) -> str:
        layers = f"{self.layers} + {self.layers} {self.cell.upper()} layers, width {self.d_model}"
        if self.attention == "none":
            return f"recurrent, {layers}, no attention"
        return f"recurrent, {layers}, {self.decoder.capitalize()}'s decoder, {self.score} {self.attention} attention"
