"""A recurrent reader: layers that read both ways, and one look at all they have read (Yang et al. 2016, section 2.2).

    x_i = sqrt(D) (E[w_i] + S[s_i])                                the word, and which of two texts it is of
    h_i = [h_i rightward; h_i leftward], for L layers of x         a token with all before and all after it
    s   = pooled h                                                 reader_pooling.py

The words speak through a state of fixed size, so the farther two stand apart the less they know of each other; pooled
by attention, each is still heard at the end, and the weights show which ones were.

B inputs, T tokens, D model, half of it each way, V vocabulary.
"""

from typing import Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor, nn

from regard.attention.layouts import Layout, Padded, Tokens
from regard.config import Field
from regard.layers.embeddings import TokenEmbedding
from regard.layers.recurrent import Recurrent
from regard.models.attentions import Attentions
from regard.models.pooling import POOLERS, AttentivePooler, Pooling
from regard.models.settings import ModelSettings


class RecurrentEncoderSettings(ModelSettings):
    """The shape of a recurrent network that only reads."""

    kind: Literal["recurrent"] = "recurrent"
    cell: Literal["rnn", "gru", "lstm"] = Field("lstm", description="kind of recurrent layer")
    layers: int = Field(1, gt=0, description="recurrent layers, one above the other, each reading both ways")
    d_model: int = Field(256, gt=0, description="width of every token's vector, half of it for each way of reading")
    dropout: float = Field(0.3, ge=0, lt=1, description="on the embeddings and between layers")
    pooling: Pooling = Field("attention", description="how the tokens' vectors become one for the whole input")
    segments: int = Field(2, gt=0, description="texts of one input that are told apart")

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.d_model % 2:
            raise ValueError(f"d_model = {self.d_model} has no half for each way of reading; write an even number")
        return self

    @property
    def has_attention(self) -> bool:
        return self.pooling == "attention"

    @property
    def summary(self) -> str:
        layers = f"{self.layers} {self.cell.upper()} layer{'s' * (self.layers > 1)} both ways, width {self.d_model}"
        return f"recurrent reader, {layers}, {self.pooling} pooling"


class RecurrentEncoder(nn.Module):
    """Embeddings, layers that read both ways, pooling."""

    def __init__(self, settings: RecurrentEncoderSettings, vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        self.words = TokenEmbedding(vocabulary, s.d_model)
        self.segments = TokenEmbedding(s.segments, s.d_model)
        self.dropout = nn.Dropout(s.dropout)
        self.rnn = Recurrent(s.cell, s.d_model, s.d_model // 2, s.layers, "both", s.dropout)
        self.pooler = POOLERS[s.pooling](s.d_model)

    def forward(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """Padded tokens, and which text each is of (B, T), the first if it is not said -> h (B, T, D)."""
        assert isinstance(tokens.layout, Padded)
        return self.rnn(self.embed(tokens, segments), tokens.layout.lengths)[0]

    def embed(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """-> x (B, T, D)."""
        segments = torch.zeros_like(tokens.ids) if segments is None else segments
        return self.dropout(self.words(tokens.ids) + self.segments(segments))

    def pool(self, h: Tensor, layout: Layout) -> Tensor:
        """h (B, T, D) -> s (B, D)."""
        return self.pooler(h, layout)

    def hidden_states(self, tokens: Tokens, segments: Tensor | None = None) -> list[Tensor]:
        """x and what each layer made of it, (B, T, D) each."""
        assert isinstance(tokens.layout, Padded)
        states = [self.embed(tokens, segments)]
        for number, layer in enumerate(self.rnn.layers):
            below = self.rnn.dropout(states[-1]) if number else states[-1]
            states.append(layer(below, tokens.layout.lengths)[0])
        return states

    @torch.no_grad()
    def attentions(self, tokens: Tokens, segments: Tensor | None = None) -> Attentions:
        """Which tokens were heard, as the one query of one head of one layer (B, 1, 1, 1, T), where pooling attends."""
        if not isinstance(self.pooler, AttentivePooler):
            return Attentions()
        weights = self.pooler.weights(self(tokens, segments), tokens.layout)
        return Attentions(encoder=weights[:, None, None, None])
