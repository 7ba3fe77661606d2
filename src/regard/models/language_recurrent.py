"""Recurrent language models (Mikolov et al. 2010; Zaremba et al. 2014; Merity et al. 2017, "AWD-LSTM").

    x_t = E[w_t],    h_t = layers(x_t, h_{t-1}),    p(w_{t+1} | w_1 .. w_t) = softmax(O h_t)

All that was read is in h_t, so the past has no bound but the memory of the cell. A long text is read in stretches:
the state goes on from one to the next, the gradient does not (truncated backpropagation through time). The output
matrix O is E again (Inan et al. 2017; Press & Wolf 2017), behind a projection where the sizes differ.

B columns, T tokens, E embedding, D model, V vocabulary, L layers.
"""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.config import Field
from regard.layers.embeddings import OutputProjection, TokenEmbedding
from regard.layers.recurrent import Hidden, RecurrentLayer
from regard.models.language_carried import RecurrentState, StatefulLanguageModel
from regard.models.language_dropout import locked_dropout, weight_drop, word_dropout
from regard.models.settings import ModelSettings

KEPT = {"rnn": ("h",), "gru": ("h",), "lstm": ("h", "c")}  # the names of what a layer keeps between two words
KERNELS = {"rnn": torch.rnn_tanh, "gru": torch.gru, "lstm": torch.lstm}  # torch's, with the weights handed in


class RecurrentLanguageSettings(ModelSettings):
    """The shape of a recurrent language model and what it is kept from learning by heart with."""

    kind: Literal["rnn", "gru", "lstm"] = "lstm"
    d_model: int = Field(650, gt=0, description="width of the recurrent state")
    d_embedding: int = Field(0, ge=0, description="width of the words' vectors; 0: that of the state")
    layers: int = Field(2, gt=0, description="recurrent layers, one above the other")
    input_dropout: float = Field(0.5, ge=0, lt=1, description="on the words' vectors, one mask for a stretch")
    hidden_dropout: float = Field(0.3, ge=0, lt=1, description="between the layers, one mask for a stretch")
    output_dropout: float = Field(0.5, ge=0, lt=1, description="before the output, one mask for a stretch")
    word_dropout: float = Field(0.1, ge=0, lt=1, description="of whole words, wherever they stand in a stretch")
    weight_drop: float = Field(0.0, ge=0, lt=1, description="of the entries of the recurrent matrices")
    tie: Literal["output", "none"] = Field("output", description="one matrix reads and writes words, or two")

    @property
    def width(self) -> int:
        """The size of a word's vector."""
        return self.d_embedding or self.d_model

    @property
    def summary(self) -> str:
        return f"{self.kind.upper()} language model, {self.layers} layers of {self.d_model}, words of {self.width}"


class WeightDropLayer(RecurrentLayer):
    """A recurrent layer that is trained with entries of U missing, the same for every word of a stretch."""

    def __init__(self, cell: str, input_size: int, hidden_size: int, drop: float) -> None:
        super().__init__(cell, input_size, hidden_size)
        self.kernel: Any = KERNELS[cell]
        self.drop = drop

    def _fused(self, x: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        if not (self.training and self.drop):
            return super()._fused(x, hidden)
        before = tuple(part[None].to(x.dtype) for part in hidden)
        start = before if len(before) == 2 else before[0]
        y, *after = self.kernel(x, start, self.thinned(), True, 1, 0.0, True, False, True)
        return y, tuple(part[0] for part in after)

    def thinned(self) -> list[Tensor]:
        """W, U with entries missing, b and d: views of one strip of memory, which is how a GPU's kernels want them."""
        W, U, b, d = self.parts()
        parts = (W, weight_drop(U, self.drop), b, d)
        strip = torch.cat([part.flatten() for part in parts]).split([part.numel() for part in parts])
        return [piece.view_as(part) for piece, part in zip(strip, parts, strict=True)]


class RecurrentLanguageModel(StatefulLanguageModel):
    """Embedding, recurrent layers, tied output."""

    def __init__(self, settings: RecurrentLanguageSettings, vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        self.embedding = TokenEmbedding(vocabulary, s.width)
        sizes = (s.width, *[s.d_model] * (s.layers - 1))
        # Not a list of layers to be compiled: that would unroll the fused kernels into a loop over all words.
        self.layers = nn.Sequential(*(WeightDropLayer(s.kind, size, s.d_model, s.weight_drop) for size in sizes))
        self.projection = nn.Identity() if s.width == s.d_model else nn.Linear(s.d_model, s.width)
        self.output = self.embedding if s.tie == "output" else TokenEmbedding(vocabulary, s.width)

    def initial_state(self, columns: int) -> RecurrentState:
        """Nothing remembered: zeros (B, L, D)."""
        s, like = self.settings, self.embedding.weight
        return {name: like.new_zeros(columns, s.layers, s.d_model) for name in KEPT[s.kind]}

    def forward(self, ids: Tensor, state: RecurrentState | None = None) -> tuple[OutputProjection, RecurrentState]:
        """ids (B, T) -> projection of (B, T, E) to (B, T, V), and the state after, cut off from its past."""
        s, training = self.settings, self.training
        state = self.initial_state(ids.size(0)) if state is None else state
        x = word_dropout(self.embedding(ids), ids, len(self.embedding.weight), s.word_dropout, training)
        x = locked_dropout(x, s.input_dropout, training)
        after = []
        for number, layer in enumerate(self.layers):
            if number:
                x = locked_dropout(x, s.hidden_dropout, training)
            x, hidden = layer(x, hidden=tuple(state[name][:, number] for name in KEPT[s.kind]))
            after.append(hidden)
        x = self.projection(locked_dropout(x, s.output_dropout, training))
        carried = zip(KEPT[s.kind], zip(*after, strict=True), strict=True)
        return self.output.project(x), {name: torch.stack(each, dim=1).detach() for name, each in carried}
