"""A neural language model with a fixed context (Bengio et al. 2003, "A Neural Probabilistic Language Model", 2):

    x = (C[w_{t-tau}], .., C[w_{t-1}]),    y = U tanh(d + H x) + W x,    p(w_t | w_{t-tau} .. w_{t-1}) = softmax(y)

A feed-forward network predicts the next token from the embeddings of the last tau tokens: a Markov model of order tau,
as an n-gram is, but similar tokens give similar predictions. W, the direct connection, is optional; U and W are one
matrix over (tanh(d + H x), x). Tied to C, that matrix is C after a projection, so W has a low rank. The paper adds an
output bias b to y; here it is optional, as in the other language models.

A text is read in segments. The state is the last tau - 1 tokens, so the cuts between segments change nothing.

B streams, T tokens, E embedding, D model (hidden units), V vocabulary.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from regard.config import Field
from regard.layers.embeddings import OutputProjection, TokenEmbedding
from regard.messages import Message
from regard.models.language_recurrent import RecurrentState, StatefulLanguageModel
from regard.models.settings import OUTPUT_BIAS, ModelSettings


class MarkovLanguageSettings(ModelSettings):
    """Settings of Bengio's network."""

    kind: Literal["markov"] = "markov"
    history: int = Field(5, gt=0, description="number of context tokens")
    d_model: int = Field(512, gt=0, description="number of hidden units")
    d_embedding: int = Field(256, gt=0, description="width of the token embeddings")
    direct: bool = Field(False, description="also connect the embeddings directly to the output (W)")
    dropout: float = Field(0.3, ge=0, lt=1, description="dropout on the embeddings and on the hidden units")
    tie: Literal["output", "none"] = Field(
        "output",
        description="weight tying: output (one matrix for embedding and output) or none (two, as in the paper)",
    )
    output_bias: bool = Field(False, description=OUTPUT_BIAS)

    @property
    def has_attention(self) -> bool:
        return False

    @property
    def summary(self) -> str:
        return Message("Markov language model of the last {history} tokens, {d_model} hidden units", **dict(self))


class MarkovLanguageModel(StatefulLanguageModel):
    """Embeddings of the last tokens, one hidden layer, output projection."""

    def __init__(self, settings: MarkovLanguageSettings, vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        inputs = s.history * s.d_embedding
        outputs = s.d_model + (inputs if s.direct else 0)  # tanh(d + H x) and, with a direct connection, x
        self.embedding = TokenEmbedding(vocabulary, s.d_embedding, s.output_bias and s.tie == "output")
        self.hidden = nn.Linear(inputs, s.d_model)
        if s.tie == "output":
            self.projection: nn.Module = nn.Linear(outputs, s.d_embedding, bias=False)
            self.output = self.embedding
        else:
            self.projection = nn.Identity()
            self.output = TokenEmbedding(vocabulary, outputs, s.output_bias)
        self.dropout = nn.Dropout(s.dropout)
        nn.init.xavier_uniform_(self.hidden.weight)
        nn.init.zeros_(self.hidden.bias)

    def initial_state(self, batch_size: int) -> RecurrentState:
        """Padding (B, tau - 1), whose embedding learns to mark the beginning."""
        like = self.embedding.weight
        return {"before": torch.zeros(batch_size, self.settings.history - 1, dtype=torch.long, device=like.device)}

    def forward(self, ids: Tensor, state: RecurrentState | None = None) -> tuple[OutputProjection, RecurrentState]:
        """ids (B, T) -> projection of (B, T, *) to (B, T, V), and the last tau - 1 tokens."""
        state = self.initial_state(ids.size(0)) if state is None else state
        length = ids.size(1)
        ids = torch.cat([state["before"], ids], dim=1)  # (B, tau - 1 + T)
        words = self.dropout(self.embedding(ids))
        context = [words[:, start : start + length] for start in range(self.settings.history)]
        x = torch.cat(context, dim=-1)  # (B, T, tau E)
        h = self.dropout(torch.tanh(self.hidden(x)))  # (B, T, D)
        outputs = torch.cat([h, x.to(h.dtype)], dim=-1) if self.settings.direct else h
        return self.output.project(self.projection(outputs)), {"before": ids[:, length:]}
