"""Linear model of a bag of words: softmax regression for classes, linear regression for numbers.

    x_w = sum_i a_i [w_i = w]        the bag (V,): how much of token w the text has, whatever its place
    o   = W x + b                    W (O, V), b (O,)
        = sum_i a_i W[:, w_i] + b    the same without x: every token adds its column of W

    presence    a_i = 1 at the first w_i of its kind, otherwise 0: x_w is 1 or 0
    count       a_i = 1
    frequency   a_i = 1 / L

With p = softmax(o) and cross-entropy the loss is convex, and so it is with the squared error of a number: there is no
bad start, and W begins with zeros. The special tokens around a text are in every bag and act as a second bias.

The evidence of token i for class c is a_i (W[c, w_i] - mean_c' W[c', w_i]): a number added to all outputs changes no
probability. The outputs are the sum of the evidence, so it explains a prediction exactly. For a number it is
a_i W[w_i].

B inputs, T tokens, L tokens of one input, V vocabulary, O outputs.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens
from regard.config import Field
from regard.messages import Message
from regard.models.settings import ModelSettings


class LinearSettings(ModelSettings):
    """Settings of a linear model of a bag of words."""

    kind: Literal["linear"] = "linear"
    d_model: Literal[0] = Field(0, description="always 0: a linear model has no hidden states")
    features: Literal["presence", "count", "frequency"] = Field(
        "presence",
        description="feature of each token: whether the text has it (presence), how often (count), or its share of the "
        "text (frequency)",
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="probability to leave out a token in training")

    @property
    def summary(self) -> str:
        return Message("linear model of a bag of words ({features})", features=self.features)


class LinearModel(nn.Module):
    """o = W x + b for the bag of words x of each input."""

    def __init__(self, settings: LinearSettings, vocabulary: int, outputs: int) -> None:
        super().__init__()
        self.settings = settings
        self.dropout = nn.Dropout(settings.dropout)
        self.head = nn.Linear(vocabulary, outputs)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """Padded tokens (B, T) -> o (B, O); both texts of a pair are in one bag."""
        a = self.dropout(self.token_weights(tokens))  # (B, T)
        return (a[..., None] * F.embedding(tokens.ids, self.head.weight.t())).sum(dim=1) + self.head.bias

    def token_weights(self, tokens: Tokens) -> Tensor:
        """a (B, T), 0 at padding."""
        assert isinstance(tokens.layout, Padded)
        mask = tokens.layout.not_padding
        if self.settings.features == "presence":
            mask = mask & is_first(tokens.ids.masked_fill(~mask, -1))
        a = mask.to(self.head.weight.dtype)
        return a / tokens.layout.lengths[:, None] if self.settings.features == "frequency" else a

    @torch.no_grad()
    def evidence(self, tokens: Tokens) -> Tensor:
        """The evidence of each token for each class, or for a larger number, (B, O, T)."""
        w = F.embedding(tokens.ids, self.head.weight.t())  # (B, T, O)
        w = w - w.mean(dim=-1, keepdim=True) if w.size(-1) > 1 else w
        return (self.token_weights(tokens)[..., None] * w).transpose(1, 2)


def is_first(ids: Tensor) -> Tensor:
    """(B, T) -> (B, T): True where a token occurs for the first time in its row."""
    ordered, order = ids.sort(dim=1, stable=True)
    new = torch.cat([torch.ones_like(ordered[:, :1]), ordered.diff(dim=1)], dim=1) != 0
    return torch.zeros_like(new).scatter(1, order, new)
