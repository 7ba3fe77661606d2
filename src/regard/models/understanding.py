"""Understanding: a reader that makes vectors of a text, and one linear layer that makes an answer of them.

    o   = W dropout(s) + b      one for the input, from its pooled vector s: a class, a number, how well a choice fits
    o_i = W dropout(h_i) + b    one for each token: its tag, or whether the answer begins or ends there

All that a task adds to its reader is W and b (Devlin et al. 2018, section 3.2 and figure 4). The readers:

    bert           every word looks at every word; it has read much before it is asked      bert.py
    transformer    the same, beginning from nothing                                         reader_transformer.py
    recurrent      a state is carried from word to word, both ways, and then looked at      reader_recurrent.py

B inputs, D model; `*` is (B, T) padded or (N,) packed.
"""

from collections.abc import Callable
from typing import Annotated, Any, Protocol

from pydantic import Tag
from torch import Tensor, nn

from regard.attention.layouts import Layout, Tokens
from regard.config import by_kind
from regard.models.attentions import Attentions
from regard.models.bert import Bert, truncated_normal
from regard.models.bert_settings import BertSettings
from regard.models.encoder_recurrent import RecurrentEncoder, RecurrentEncoderSettings
from regard.models.encoder_transformer import TransformerEncoder, TransformerEncoderSettings
from regard.models.settings import ModelSettings

EncoderSettings = Annotated[
    Annotated[BertSettings, Tag("bert")]
    | Annotated[TransformerEncoderSettings, Tag("transformer")]
    | Annotated[RecurrentEncoderSettings, Tag("recurrent")],
    by_kind("transformer"),
]

BUILDERS: dict[str, Callable[[Any, int], nn.Module]] = {
    "bert": Bert,
    "transformer": TransformerEncoder,
    "recurrent": RecurrentEncoder,
}


class TextEncoder(Protocol):
    """What is asked of a reader, beside being a module."""

    @property
    def settings(self) -> ModelSettings: ...

    def __call__(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """Tokens, and which text each is of (*) -> h (*, D)."""
        ...

    def pool(self, h: Tensor, layout: Layout) -> Tensor:
        """h (*, D) -> one vector for each input (B, D)."""
        ...

    def hidden_states(self, tokens: Tokens, segments: Tensor | None = None) -> list[Tensor]:
        """The embeddings and what each layer made of them, (*, D) each."""
        ...

    def attentions(self, tokens: Tokens, segments: Tensor | None = None) -> Attentions: ...


class EncoderWithHead(nn.Module):
    """A reader and a head: one answer for the input where `pooled`, else one for each token."""

    encoder: Any  # a TextEncoder

    def __init__(self, encoder: nn.Module, outputs: int, pooled: bool, dropout: float) -> None:
        super().__init__()
        self.encoder, self.pooled = encoder, pooled
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(self.encoder.settings.d_model, outputs)
        truncated_normal(self.head)
        # Weights that take no part must not learn: processes that share a step wait for the gradient of all that do.
        self.encoder.pooler.requires_grad_(pooled)

    def forward(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """Tokens, and which text each is of (*) -> o: (B, outputs) where pooled, else (*, outputs)."""
        h = self.encoder(tokens, segments)
        return self.head(self.dropout(self.encoder.pool(h, tokens.layout) if self.pooled else h))


def build_encoder(settings: ModelSettings, vocabulary: int) -> Any:
    """The reader its settings describe, with fresh weights, over a vocabulary of this size."""
    return BUILDERS[settings.kind](settings, vocabulary)
