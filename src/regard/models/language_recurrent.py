"""Recurrent language models (Mikolov et al. 2010; Zaremba et al. 2014; Merity et al. 2017, "AWD-LSTM").

    x_t = E[w_t],    h_t = cell(x_t, h_{t-1}),    p(w_{t+1} | w_1 .. w_t) = softmax(O h_t)

All that was read is in h_t, so the past has no bound but the memory of the cell. A long text is read in stretches:
the state goes on from one to the next, the gradient does not (truncated backpropagation through time). The output
matrix O is E again (Inan et al. 2017; Press & Wolf 2017), behind a projection where the sizes differ.

B columns, T tokens, E embedding, D model, V vocabulary, L layers, G gates of a cell.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.config import Field
from regard.layers.embeddings import TokenEmbedding
from regard.models.language_carried import Carried, Carrying
from regard.models.language_dropout import locked_dropout, weight_drop, word_dropout
from regard.models.settings import ModelSettings

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
MEMORIES = {"rnn": ("h",), "gru": ("h",), "lstm": ("h", "c")}


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


class Cell(nn.Module):
    """One recurrent layer over a whole stretch by torch's fused kernels, with the weights handed to each call.

    The gates are stacked as torch has them: LSTM i, f, g, o; GRU r, z, n. Recurrent matrices begin orthogonal, so
    that they neither swell nor shrink what passes (Saxe et al. 2014), and an LSTM's forget gate begins open
    (Jozefowicz et al. 2015).
    """

    def __init__(self, kind: Literal["rnn", "gru", "lstm"], d_input: int, d_model: int, drop: float) -> None:
        super().__init__()
        self.kind, self.drop = kind, drop
        gates = GATES[kind]
        self.input = nn.Parameter(torch.empty(gates * d_model, d_input))
        self.recurrent = nn.Parameter(torch.empty(gates * d_model, d_model))
        self.input_bias = nn.Parameter(torch.zeros(gates * d_model))
        self.recurrent_bias = nn.Parameter(torch.zeros(gates * d_model))
        nn.init.uniform_(self.input, -math.sqrt(3 / d_input), math.sqrt(3 / d_input))
        with torch.no_grad():
            for gate in self.recurrent.chunk(gates):
                nn.init.orthogonal_(gate)
            if kind == "lstm":
                self.input_bias.chunk(gates)[1].fill_(1.0)

    def forward(self, x: Tensor, memories: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """x (B, T, d_input) from memories (B, D) -> every h_t (B, T, D) and the memories after the last.

        In the precision of the weights whatever surrounds it: what is added up over hundreds of steps is kept exact.
        """
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(self.input.dtype)
            before = tuple(memory.to(x.dtype).unsqueeze(0).contiguous() for memory in memories)
            run: Any = {"rnn": torch.rnn_tanh, "gru": torch.gru, "lstm": torch.lstm}[self.kind]
            first = before if self.kind == "lstm" else before[0]
            out, *after = run(x, first, self.weights(), True, 1, 0.0, self.training, False, True)
        return out, tuple(memory.squeeze(0) for memory in after)

    def weights(self) -> Sequence[Tensor]:
        """The four weights, as views of one strip of memory, which is how a GPU's kernels want them."""
        recurrent = weight_drop(self.recurrent, self.drop, self.training)
        parts = (self.input, recurrent, self.input_bias, self.recurrent_bias)
        strip = torch.cat([part.flatten() for part in parts])
        pieces = strip.split([part.numel() for part in parts])
        return [piece.view(part.shape) for piece, part in zip(pieces, parts, strict=True)]


class RecurrentLanguageModel(Carrying):
    """Embedding, stacked cells, tied output."""

    def __init__(self, settings: RecurrentLanguageSettings, vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        self.embedding = TokenEmbedding(vocabulary, s.width)
        sizes = [s.width] + [s.d_model] * (s.layers - 1)
        # Not a list of layers to be compiled: that would unroll the fused kernels into a loop over all words.
        self.cells = nn.Sequential(*(Cell(s.kind, size, s.d_model, s.weight_drop) for size in sizes))
        self.projection = nn.Identity() if s.width == s.d_model else nn.Linear(s.d_model, s.width)
        self.output = self.embedding if s.tie == "output" else TokenEmbedding(vocabulary, s.width)

    def begin(self, columns: int) -> Carried:
        """Nothing remembered: zeros (B, L, D)."""
        s, like = self.settings, self.embedding.weight
        return {name: like.new_zeros(columns, s.layers, s.d_model) for name in MEMORIES[s.kind]}

    def forward(self, ids: Tensor, state: Carried | None = None, read_out: Any = nn.functional.linear) -> Any:
        """ids (B, T) -> what `read_out` makes of (B, T, E), (V, E), and the state after, cut off from its past."""
        s, training = self.settings, self.training
        state = self.begin(ids.size(0)) if state is None else state
        x = word_dropout(self.embedding(ids), ids, len(self.embedding.weight), s.word_dropout, training)
        x = locked_dropout(x, s.input_dropout, training)
        after = []
        for layer, cell in enumerate(self.cells):
            if layer:
                x = locked_dropout(x, s.hidden_dropout, training)
            x, memories = cell(x, tuple(state[name][:, layer] for name in MEMORIES[s.kind]))
            after.append(memories)
        x = self.projection(locked_dropout(x, s.output_dropout, training))
        carried = zip(MEMORIES[s.kind], zip(*after, strict=True), strict=True)
        return read_out(x, self.output.weight), {name: torch.stack(each, dim=1).detach() for name, each in carried}
