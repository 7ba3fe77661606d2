"""A neural language model with a bounded past (Bengio et al. 2003, "A Neural Probabilistic Language Model", section 2):

    x = (C[w_{t-tau}], .., C[w_{t-1}]),    y = U tanh(d + H x) + W x,    p(w_t | w_{t-tau} .. w_{t-1}) = softmax(y)

The last tau words become vectors, and an ordinary network guesses the next from them: a Markov model of order tau, as
an n-gram is, but one in which similar words make for similar guesses. W, the direct connection, is optional, and
U and W stand side by side as one matrix over (tanh(d + H x), x). Tied to C, that matrix is C behind a projection,
which makes W a matrix of low rank. The paper's output bias b is left out, here as in every model of this house.

Read in stretches, the model carries the tau - 1 words before the stretch, so that where one is cut changes nothing.

B columns, T tokens, E embedding, D model (hidden units), V vocabulary.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from regard.config import Field
from regard.layers.embeddings import OutputProjection, TokenEmbedding
from regard.models.language_carried import RecurrentState, StatefulLanguageModel
from regard.models.settings import ModelSettings


class MarkovLanguageSettings(ModelSettings):
    """The shape of Bengio's network."""

    kind: Literal["markov"] = "markov"
    history: int = Field(5, gt=0, description="tau, the words looked back at")
    d_model: int = Field(512, gt=0, description="hidden units")
    d_embedding: int = Field(256, gt=0, description="width of the words' vectors")
    direct: bool = Field(False, description="connect the words' vectors with the output directly, too (W)")
    dropout: float = Field(0.3, ge=0, lt=1, description="on the words' vectors and on the hidden units")
    tie: Literal["output", "none"] = Field("output", description="one matrix reads and writes words, or two (paper)")

    @property
    def summary(self) -> str:
        return f"Markov language model of the last {self.history} words, {self.d_model} hidden units"


class MarkovLanguageModel(StatefulLanguageModel):
    """Vectors of the last words, one hidden layer, scores of the next."""

    def __init__(self, settings: MarkovLanguageSettings, vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        read = s.history * s.d_embedding
        shown = s.d_model + (read if s.direct else 0)  # what the output matrix sees: tanh(d + H x), and x
        self.embedding = TokenEmbedding(vocabulary, s.d_embedding)
        self.hidden = nn.Linear(read, s.d_model)
        if s.tie == "output":
            self.projection: nn.Module = nn.Linear(shown, s.d_embedding, bias=False)
            self.output = self.embedding
        else:
            self.projection = nn.Identity()
            self.output = TokenEmbedding(vocabulary, shown)
        self.dropout = nn.Dropout(s.dropout)
        nn.init.xavier_uniform_(self.hidden.weight)
        nn.init.zeros_(self.hidden.bias)

    def initial_state(self, columns: int) -> RecurrentState:
        """The words before the first: padding (B, tau - 1), whose vector learns to mean the beginning."""
        like = self.embedding.weight
        return {"before": torch.zeros(columns, self.settings.history - 1, dtype=torch.long, device=like.device)}

    def forward(self, ids: Tensor, state: RecurrentState | None = None) -> tuple[OutputProjection, RecurrentState]:
        """ids (B, T) -> projection of (B, T, D') to (B, T, V), and the last tau - 1 words."""
        state = self.initial_state(ids.size(0)) if state is None else state
        length = ids.size(1)
        ids = torch.cat([state["before"], ids], dim=1)  # (B, tau - 1 + T)
        words = self.dropout(self.embedding(ids))
        x = torch.cat(
            [words[:, back : back + length] for back in range(self.settings.history)], dim=-1
        )  # (B, T, tau E)
        h = self.dropout(torch.tanh(self.hidden(x)))
        shown = torch.cat([h, x.to(h.dtype)], dim=-1) if self.settings.direct else h
        return self.output.project(self.projection(shown)), {"before": ids[:, length:]}
