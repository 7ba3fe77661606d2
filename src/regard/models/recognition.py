"""Models that read feature vectors in place of tokens, and write text.

    attention   frames -> subsampling -> encoder -> memory <- decoder -> next token   Chan et al. 2016; Dong et al. 2018
    ctc         frames -> subsampling -> encoder -> a token or blank at every position           Graves et al. 2006

Both have the Transformer's encoder over subsampled frames (layers/subsampling.py). With attention, the decoder chooses
where to look for every token. With CTC, there is no decoder: the loss sums over all alignments (losses/ctc.py).

A decoder learns slowly where to look, because nothing tells it that text follows speech from left to right. CTC knows
this. So in training the encoder of an attention model predicts tokens too, and the losses are added, with a weight w
(Kim et al. 2017, equation 9): L = (1 - w) L_attention + w L_ctc.

B recordings, T frames, S positions after subsampling, F features, D model, V vocabulary.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import torch
from pydantic import Tag, model_validator
from torch import Tensor, nn

from regard.attention.layouts import Attentions, Layout, Tokens
from regard.config import Field, SettingError, Unused, by_kind
from regard.layers.embeddings import OutputProjection, TokenEmbedding
from regard.layers.subsampling import Subsampling
from regard.messages import Message, join_messages
from regard.models import backbone
from regard.models.settings import describe_layers
from regard.models.transformer import Transformer, TransformerSettings, TransformerState


class FrameSettings(backbone.LayerSettings):
    """Settings of every model that reads frames."""

    subsampling: int = Field(
        4, ge=1, le=16, description="frames per encoder position: 1, 2, 4, 8 or 16; each factor 2 is a convolution"
    )
    encoder_layers: int = Field(6, gt=0, description="number of encoder layers")

    @model_validator(mode="after")
    def check_subsampling(self) -> Self:
        if self.subsampling.bit_count() != 1:
            raise SettingError("subsampling", f"{self.subsampling} is not a power of 2; write 1, 2, 4, 8 or 16")
        return self

    @property
    def supports_packing(self) -> bool:
        return False


class FrameTransformerSettings(FrameSettings, TransformerSettings):
    """Settings of an encoder-decoder that reads frames."""

    kind: Literal["attention"] = "attention"  # type: ignore[assignment]
    ctc_weight: float = Field(
        0.3, ge=0, lt=1, description="weight of a second loss, CTC on the encoder, which teaches alignment; 0: off"
    )
    tie: Literal["output", "none"] = Field(
        "output", description="weight tying: output: one matrix for target and output; none: two"
    )


class CTCSettings(FrameSettings):
    """Settings of an encoder that is trained with CTC."""

    kind: Literal["ctc"] = "ctc"

    def no_effect(self) -> Iterator[Unused]:
        yield from super().no_effect()
        yield "scale_embeddings", 'kind = "attention"'

    @property
    def summary(self) -> str:
        layers = describe_layers(self.encoder_layers, self.num_heads, self.d_model)
        return join_messages(", ", [Message("Transformer encoder with CTC"), layers, *self.variations])


RecognitionModelSettings = Annotated[
    Annotated[FrameTransformerSettings, Tag("attention")] | Annotated[CTCSettings, Tag("ctc")], by_kind("attention")
]


@dataclass(frozen=True)
class JointProjection(OutputProjection):
    """The projection of a decoder, and in training the logits of its encoder for CTC."""

    ctc: Tokens | None = None


class FrameTransformer(Transformer):
    """The Transformer with subsampled frames (B, T, F) in place of source embeddings."""

    def __init__(self, settings: FrameTransformerSettings, features: int, vocabulary: int) -> None:
        super().__init__(settings, 1, vocabulary)
        self.src_embedding = nn.Identity()  # type: ignore[assignment]  # frames are vectors already
        self.subsampling = Subsampling(features, settings.d_model, settings.subsampling)
        self.ctc = nn.Linear(settings.d_model, vocabulary) if settings.ctc_weight else None

    def forward(self, src: Tokens, tgt: Tokens) -> JointProjection:
        """Frames and shifted target -> projection of (B, T, D) to (B, T, V); in training also logits (B, S, V)."""
        window, x = self.settings.window, self.subsampling(src)
        memory = self.encode(x, x.layout.pattern(x.layout, window=window))  # (B, S, D)
        pattern = tgt.layout.pattern(tgt.layout, causal=True, window=window)
        hidden = self.decode(tgt, memory, pattern, tgt.layout.pattern(x.layout))  # (B, T, D)
        logits = Tokens(self.ctc(memory), x.layout) if self.training and self.ctc is not None else None
        return JointProjection(hidden, self.output.weight, self.output.bias, ctc=logits)

    def start(self, src: Tokens) -> TransformerState:
        return super().start(self.subsampling(src))

    @torch.no_grad()
    def attentions(self, src: Tokens, tgt: Tokens) -> Attentions:
        return super().attentions(self.subsampling(src), tgt)


class CTCModel(backbone.TransformerBackbone):
    """Subsampled frames -> encoder layers -> logits of a token, or of the blank, at every position."""

    def __init__(self, settings: CTCSettings, features: int, vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        self.window = s.window
        self.subsampling = Subsampling(features, s.d_model, s.subsampling)
        self.positions, self.combine = backbone.build_positions(s), backbone.build_combine(s)
        self.dropout = nn.Dropout(s.dropout)
        build = backbone.LayerFactory(s, self.positions)
        self.layers = build.encoder_layers(s.encoder_layers)
        self.norm = build.final_norm()
        self.output = TokenEmbedding(vocabulary, s.d_model, bias=True)
        self.apply(backbone.xavier)

    def forward(self, src: Tokens) -> Tokens:
        """Frames (B, T, F) -> logits (B, S, V) and their layout."""
        x = self.subsampling(src)
        return Tokens(self.output.scores(self.encode(x)), x.layout)

    def embed(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """Subsampled vectors -> x (B, S, D)."""
        x = tokens.ids
        return self.dropout(self.combine(x, self.positions(tokens.layout.positions).to(x.dtype)))

    def final_norm(self, x: Tensor, layout: Layout) -> Tensor:
        return self.norm(x, layout)

    @torch.no_grad()
    def attentions(self, src: Tokens) -> Attentions:
        return Attentions(encoder=self.record_attention(self.subsampling(src)))


RECOGNITION_MODELS: dict[str, Callable[..., nn.Module]] = {"attention": FrameTransformer, "ctc": CTCModel}
"""The model of each kind: `Model(settings, features, vocabulary size)`."""
