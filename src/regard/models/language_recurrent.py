"""Recurrent language models (Mikolov et al. 2010; Zaremba et al. 2014; Merity et al. 2017, "AWD-LSTM").

    x_t = E[w_t],    h_t = layers(x_t, h_{t-1}),    p(w_{t+1} | w_1 .. w_t) = softmax(O h_t)

h_t summarises all earlier tokens, so the context has no fixed length. A long text is read in segments: the state is
passed on from one to the next, the gradient is not (truncated backpropagation through time). The output matrix O is E
(Inan et al. 2017; Press & Wolf 2017), after a projection where the sizes differ. With `output_bias` the logits are
O h_t + b.

Dropout masks are the same at every position of a segment:

    locked       x_t <- m * x_t,  one mask m for all t               Gal & Ghahramani 2016, section 4
    words        E[w] <- m_w E[w],  m_w for the whole row of a token  Gal & Ghahramani 2016, section 4.2
    weights      U <- M * U,  one mask for a whole segment            Wan et al. 2013; Merity et al. 2017, section 2

With a new mask at every position the noise adds up along the sequence and hides what the state should keep.

B streams of a text or sentences of a search, W hypotheses, T tokens, E embedding, D model, V vocabulary, L layers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.layouts import Attentions, Tokens
from regard.config import Field, Unused, unless
from regard.layers.embeddings import OutputProjection, TokenEmbedding
from regard.layers.recurrent import CELLS, CellKind, Hidden, RecurrentLayer, build_layer
from regard.messages import Count, Message
from regard.models.settings import OUTPUT_BIAS, WordVectorSettings

STATE_NAMES = {kind: ("h", "c")[: cell.num_states] for kind, cell in CELLS.items()}  # the tensors of a layer's state
KERNELS: dict[str, Callable[..., tuple[Tensor, ...]]] = {  # torch's kernels, which take the weights as arguments
    "rnn": torch.rnn_tanh,
    "gru": torch.gru,
    "lstm": torch.lstm,
}
RecurrentState = dict[str, Tensor]
"""The state of a language model after a segment: tensors by name, (B, ...) each."""


@dataclass(frozen=True)
class LanguageSearchState:
    """The state of B x W hypotheses: each tensor (B, W, ...)."""

    tensors: RecurrentState

    def reorder(self, parents: Tensor) -> "LanguageSearchState":
        sentences = torch.arange(parents.size(0), device=parents.device)[:, None]
        return LanguageSearchState({name: x[sentences, parents] for name, x in self.tensors.items()})

    def keep(self, sentences: Tensor) -> "LanguageSearchState":
        return LanguageSearchState({name: x.index_select(0, sentences) for name, x in self.tensors.items()})


class StatefulLanguageModel(nn.Module, ABC):
    """A language model that passes a state from segment to segment.

    A segment of one token is a step of a search, so `forward` serves training, scoring and generation.
    """

    is_stateful = True

    @abstractmethod
    def forward(self, ids: Tensor, state: RecurrentState | None = None) -> tuple[OutputProjection, RecurrentState]:
        """ids (B, T) -> projection to (B, T, V), and the state after the last token."""

    @abstractmethod
    def initial_state(self, batch_size: int) -> RecurrentState:
        """The state before the first token."""

    def start(self, source: Tokens) -> LanguageSearchState:
        """The state of a search; a language model has no source, only its number of sentences is used."""
        return LanguageSearchState({name: x.unsqueeze(1) for name, x in self.initial_state(source.ids.size(0)).items()})

    def step(self, tokens: Tensor, state: LanguageSearchState) -> tuple[Tensor, LanguageSearchState]:
        rows = {name: x.flatten(0, 1) for name, x in state.tensors.items()}  # (B W, ...)
        projection, after = self(tokens.reshape(-1, 1), rows)
        logits = projection.logits().view(*tokens.shape, -1)
        return logits, LanguageSearchState({name: x.unflatten(0, tokens.shape) for name, x in after.items()})

    def attentions(self, ids: Tensor) -> Attentions:
        return Attentions()


class RecurrentLanguageSettings(WordVectorSettings):
    """Settings of a recurrent language model."""

    kind: CellKind = "lstm"
    d_model: int = Field(650, gt=0, description="width of the recurrent state")
    d_embedding: int = Field(0, ge=0, description="width of the token embeddings; 0: `d_model`")
    layers: int = Field(2, gt=0, description="number of recurrent layers")
    input_dropout: float = Field(0.5, ge=0, lt=1, description="dropout on the embeddings; one mask per segment")
    hidden_dropout: float = Field(0.3, ge=0, lt=1, description="dropout between layers, one mask per segment")
    output_dropout: float = Field(0.5, ge=0, lt=1, description="dropout before the output, one mask per segment")
    word_dropout: float = Field(0.1, ge=0, lt=1, description="dropout of whole tokens, one mask per segment")
    weight_drop: float = Field(0.0, ge=0, lt=1, description="dropout on the recurrent matrices (DropConnect)")
    tie: Literal["output", "none"] = Field(
        "output", description="weight tying: output (one matrix for embedding and output) or none (two matrices)"
    )
    output_bias: bool = Field(False, description=OUTPUT_BIAS)

    def no_effect(self) -> Iterator[Unused]:
        yield from super().no_effect()
        yield from unless(self.kind in KERNELS, f"kind = {', '.join(KERNELS)}", "weight_drop")

    @property
    def width(self) -> int:
        return self.d_embedding or self.d_model

    @property
    def has_attention(self) -> bool:
        return False

    @property
    def summary(self) -> str:
        values = {"kind": self.kind.upper(), "layers": Count(self.layers), "width": self.d_model, "size": self.width}
        return Message("{kind} language model, {layers:layer} of {width}, embeddings of {size}", **values)


class WeightDropLayer(RecurrentLayer):
    """A recurrent layer with dropout on U in training, the same mask for every position of a segment."""

    def __init__(self, cell: str, input_size: int, hidden_size: int, drop: float) -> None:
        super().__init__(cell, input_size, hidden_size)
        self.kernel = KERNELS.get(cell)
        self.drop = drop

    def _fused(self, x: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        if not (self.training and self.drop) or self.kernel is None:
            return super()._fused(x, hidden)
        before = tuple(tensor[None].to(x.dtype).contiguous() for tensor in hidden)
        start = before if len(before) == 2 else before[0]
        y, *after = self.kernel(x, start, self.dropped_weights(), True, 1, 0.0, True, False, True)
        return y, tuple(tensor[0] for tensor in after)

    def dropped_weights(self) -> list[Tensor]:
        """W, U with dropout, b and d: views of one contiguous tensor, as GPU kernels need them."""
        W, U, b, d = self.matrices()
        weights = (W, F.dropout(U, self.drop), b, d)
        contiguous = torch.cat([weight.flatten() for weight in weights]).split([weight.numel() for weight in weights])
        return [flat.view_as(weight) for flat, weight in zip(contiguous, weights, strict=True)]


class RecurrentReader(nn.Module):
    """Embedding and recurrent layers, which read a text from left to right."""

    def __init__(self, settings: RecurrentLanguageSettings, vocabulary: int, bias: bool = False) -> None:
        super().__init__()
        s = self.settings = settings
        self.embedding = TokenEmbedding(vocabulary, s.width, bias, frozen=s.freeze_embeddings)
        sizes = (s.width, *[s.d_model] * (s.layers - 1))
        # Not a ModuleList, whose layers are compiled: that would replace the fused kernels by a loop over all tokens.
        self.layers = nn.Sequential(
            *(
                WeightDropLayer(s.kind, size, s.d_model, s.weight_drop)
                if s.kind in KERNELS
                else build_layer(s.kind, size, s.d_model)
                for size in sizes
            )
        )

    def initial_state(self, batch_size: int) -> RecurrentState:
        """Zeros (B, L, D)."""
        s, like = self.settings, self.embedding.weight
        shape = batch_size, s.layers, s.d_model
        return {name: torch.zeros(shape, dtype=like.dtype, device=like.device) for name in STATE_NAMES[s.kind]}

    def read(self, ids: Tensor, state: RecurrentState | None = None) -> tuple[list[Tensor], RecurrentState]:
        """ids (B, T) -> the embeddings (B, T, E) and the output of each layer (B, T, D); the state after it, without a
        gradient."""
        s, training = self.settings, self.training
        state = self.initial_state(ids.size(0)) if state is None else state
        x = word_dropout(self.embedding(ids), ids, len(self.embedding.weight), s.word_dropout, training)  # (B, T, E)
        outputs, after = [x], []
        for number, layer in enumerate(self.layers):
            x = locked_dropout(x, s.hidden_dropout if number else s.input_dropout, training)
            x, hidden = layer(x, hidden=tuple(state[name][:, number] for name in STATE_NAMES[s.kind]))  # (B, T, D)
            outputs.append(x)
            after.append(hidden)
        tensors = zip(STATE_NAMES[s.kind], zip(*after, strict=True), strict=True)
        return outputs, {name: torch.stack(layers, dim=1).detach() for name, layers in tensors}


class RecurrentLanguageModel(RecurrentReader, StatefulLanguageModel):
    """Embedding, recurrent layers, output projection."""

    def __init__(self, settings: RecurrentLanguageSettings, vocabulary: int) -> None:
        s, tied = settings, settings.tie == "output"
        super().__init__(s, vocabulary, s.output_bias and tied)
        self.projection = nn.Identity() if s.width == s.d_model else nn.Linear(s.d_model, s.width)
        self.output = self.embedding if tied else TokenEmbedding(vocabulary, s.width, s.output_bias)

    def forward(self, ids: Tensor, state: RecurrentState | None = None) -> tuple[OutputProjection, RecurrentState]:
        """ids (B, T) -> projection of (B, T, E) to (B, T, V), and the state after it, without a gradient."""
        outputs, after = self.read(ids, state)
        x = self.projection(locked_dropout(outputs[-1], self.settings.output_dropout, self.training))  # (B, T, E)
        return self.output.project(x), after


def locked_dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Dropout on x (B, T, D) with one mask (B, 1, D) for all positions."""
    if not (training and p):
        return x
    return x * F.dropout(x.new_ones(x.size(0), 1, x.size(2)), p)


def word_dropout(x: Tensor, ids: Tensor, vocabulary: int, p: float, training: bool) -> Tensor:
    """Dropout on x (B, T, D), the embeddings of ids (B, T): a dropped token is zero wherever it occurs."""
    if not (training and p):
        return x
    return x * F.dropout(x.new_ones(vocabulary), p)[ids].unsqueeze(-1)
