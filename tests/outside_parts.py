"""Parts from outside of the package: a position encoding, a score, a loss and two model kinds."""

from typing import Literal

import torch
from torch import Tensor, nn

from regard import (
    Attentions,
    LayerSettings,
    Layout,
    ModelSettings,
    Positions,
    Scoring,
    Transformer,
    TransformerSettings,
    register_loss,
    register_positions,
    register_score,
    register_text_encoder,
    register_translation_model,
)
from regard.models.pooling import POOLERS
from regard.tasks import Padded, Tokens


@register_positions("triangle")
class Triangle(Positions):
    """Triangle waves in place of sinusoids."""

    def __init__(self, settings: LayerSettings) -> None:
        super().__init__()
        self.d_model = settings.d_model

    def forward(self, positions: Tensor) -> Tensor:
        """(T,) -> (T, D)."""
        periods = torch.arange(2, self.d_model + 2, device=positions.device)
        phase = positions[..., None] / periods
        return 4 * (phase - (phase + 0.5).floor()).abs() - 1


@register_score("distance")
class Distance(Scoring):
    """-|q - k|^2 / sqrt(K): a near key has a high score."""

    def forward(self, q: Tensor, prepared: Tensor) -> Tensor:
        return -torch.cdist(q, prepared).square() / q.size(-1) ** 0.5


@register_loss("focal")
def focal(logits: Tensor, labels: Tensor) -> Tensor:
    """-(1 - p)^2 log p (Lin et al. 2017): labels that are easy count less."""
    log_p = logits.log_softmax(dim=-1).gather(-1, labels[:, None])[:, 0]
    return -((1 - log_p.exp()) ** 2) * log_p


class BagSettings(ModelSettings):
    """Settings of a bag of words."""

    kind: Literal["bag"] = "bag"
    d_model: int = 64

    @property
    def has_attention(self) -> bool:
        return False


@register_text_encoder(BagSettings)
class BagOfWords(nn.Module):
    """Every token is its embedding alone; a text is their mean."""

    def __init__(self, settings: BagSettings, vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        self.words = nn.Embedding(vocabulary, settings.d_model)
        self.pooler = POOLERS["mean"](settings.d_model)

    def forward(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        return self.words(tokens.ids)

    def pool(self, h: Tensor, layout: Layout) -> Tensor:
        return self.pooler(h, layout)

    def hidden_states(self, tokens: Tokens, segments: Tensor | None = None) -> list[Tensor]:
        return [self(tokens)]

    def attentions(self, tokens: Tokens, segments: Tensor | None = None) -> Attentions:
        return Attentions()


class MeanSettings(TransformerSettings):
    """Settings of a Transformer that adds the mean of the source."""

    kind: Literal["mean"] = "mean"  # type: ignore[assignment]

    @property
    def supports_packing(self) -> bool:
        return False


@register_translation_model(MeanSettings)
class MeanTransformer(Transformer):
    """A Transformer whose decoder attends to every source vector plus the mean of all."""

    def encode(self, src: Tokens, pattern: object) -> Tensor:
        assert isinstance(src.layout, Padded)
        memory, mask = super().encode(src, pattern), src.layout.not_padding[..., None]  # type: ignore[arg-type]
        return memory + (memory * mask).sum(dim=1, keepdim=True) / mask.sum(dim=1, keepdim=True)
