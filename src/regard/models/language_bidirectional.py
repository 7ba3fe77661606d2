"""A bidirectional language model and its layers as features: ELMo (Peters et al. 2018, section 3).

    p(w_t | w_1 .. w_{t-1}) = softmax(E forward h_{t-1})      forward language model: LSTM layers from left to right
    p(w_t | w_{t+1} .. w_N) = softmax(E backward h_{t+1})     backward language model: LSTM layers from right to left

    L = - sum_t [log p(w_t | w_1 .. w_{t-1}) + log p(w_t | w_{t+1} .. w_N)]

The two share E, the embedding and output matrix, and nothing else: no layer sees both sides, or it would see the token
that it predicts. Only the layers, after training, are put together. Token t has L + 1 vectors

    h_t0 = [x_t; x_t],    h_tj = [forward h_tj; backward h_tj]  for layers j = 1 .. L

and a task uses their weighted sum as an input, with learned s = softmax(w) and gamma, while the language model is
frozen (equation 1):

    ELMo_t = gamma sum_j s_j h_tj

The authors embed tokens by their characters and have residual connections; here a token has a row of E, and there are
none. Scoring and generation use the forward language model. The backward one reads each segment of a text alone.

B streams or sentences, T tokens, D model, V vocabulary, L layers.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from regard.config import Field
from regard.layers.embeddings import OutputProjection, TokenEmbedding
from regard.layers.recurrent import RecurrentLayer
from regard.messages import Count, Message
from regard.models.language_recurrent import RecurrentState, StatefulLanguageModel, locked_dropout
from regard.models.settings import ModelSettings


class BidirectionalLanguageSettings(ModelSettings):
    """Settings of a bidirectional language model."""

    kind: Literal["bilstm"] = "bilstm"
    d_model: int = Field(512, gt=0, description="width of the token embeddings and of each direction's hidden states")
    layers: int = Field(2, gt=0, description="number of LSTM layers per direction")
    dropout: float = Field(
        0.3, ge=0, lt=1, description="dropout on embeddings, between layers and before the output; one mask per segment"
    )

    @property
    def has_attention(self) -> bool:
        return False

    @property
    def summary(self) -> str:
        values = dict(self) | {"layers": Count(self.layers)}
        return Message("bidirectional LSTM language model, {layers:layer} of {d_model} in each direction", **values)


class BidirectionalLanguageModel(StatefulLanguageModel):
    """A forward and a backward language model that share the embedding and output matrix."""

    def __init__(self, settings: BidirectionalLanguageSettings, vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        self.embedding = TokenEmbedding(vocabulary, s.d_model)
        self.forward_layers = nn.Sequential(*(RecurrentLayer("lstm", s.d_model, s.d_model) for _ in range(s.layers)))
        self.backward_layers = nn.Sequential(
            *(RecurrentLayer("lstm", s.d_model, s.d_model, backward=True) for _ in range(s.layers))
        )

    def initial_state(self, batch_size: int) -> RecurrentState:
        """Zeros (B, L, D), of the forward language model."""
        s, like = self.settings, self.embedding.weight
        shape = batch_size, s.layers, s.d_model
        return {name: torch.zeros(shape, dtype=like.dtype, device=like.device) for name in ("h", "c")}

    def forward(
        self, ids: Tensor, state: RecurrentState | None = None, following: Tensor | None = None
    ) -> tuple[OutputProjection, RecurrentState]:
        """ids (B, T) -> projection to (B, T, V) of the next tokens, and the state after the last, without a gradient.

        In training `following` (B, T) are the next tokens. The backward language model reads them from right to left,
        and the projection is to (B, 2 T, V): of the next tokens, then of ids (`both_directions`).
        """
        state = self.initial_state(ids.size(0)) if state is None else state
        x, after = self.embed(ids), []
        for number, layer in enumerate(self.forward_layers):
            x, hidden = layer(x, hidden=(state["h"][:, number], state["c"][:, number]))  # (B, T, D)
            x = locked_dropout(x, self.settings.dropout, self.training)
            after.append(hidden)
        if following is not None:
            x = torch.cat([x, self.read_backward(following)], dim=1)  # (B, 2 T, D)
        states = zip(("h", "c"), zip(*after, strict=True), strict=True)
        return self.embedding.project(x), {name: torch.stack(layers, dim=1).detach() for name, layers in states}

    def read_backward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> states of the backward language model (B, T, D): that of w_{t+1} predicts w_t."""
        x = self.embed(ids)
        for layer in self.backward_layers:
            x = locked_dropout(layer(x)[0], self.settings.dropout, self.training)
        return x

    def embed(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> x (B, T, D)."""
        return locked_dropout(self.embedding(ids), self.settings.dropout, self.training)

    def features(self, ids: Tensor, lengths: Tensor | None = None) -> list[Tensor]:
        """h_t0 .. h_tL of sentences: ids (B, T) -> L + 1 tensors (B, T, 2 D), without dropout."""
        x = self.embedding(ids)
        columns = [[x, *read_layers(layers, x, lengths)] for layers in (self.forward_layers, self.backward_layers)]
        return [torch.cat(pair, dim=-1) for pair in zip(*columns, strict=True)]


def read_layers(layers: Iterable[nn.Module], x: Tensor, lengths: Tensor | None) -> list[Tensor]:
    """The outputs of recurrent layers one above the other, (B, T, D) each."""
    states = []
    for layer in layers:
        x = layer(x, lengths)[0]
        states.append(x)
    return states


def both_directions(projection: OutputProjection) -> tuple[OutputProjection, OutputProjection]:
    """The projections of the forward and of the backward language model."""
    forward, backward = projection.hidden.chunk(2, dim=1)
    return OutputProjection(forward, projection.weight), OutputProjection(backward, projection.weight)


class WeightedLayers(nn.Module):
    """gamma sum_j s_j h_j with learned gamma and s = softmax(w); at first the mean of the layers."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """(*, D) each -> (*, D)."""
        s = self.weights.softmax(dim=0)
        return self.gamma * sum((s[j] * h for j, h in enumerate(layers)), torch.zeros_like(layers[0]))
