"""The two layers of a Transformer (Vaswani et al. 2017, section 3.1 and figure 1), and a stack of them.

    encoder layer   self-attention, feed-forward
    decoder layer   causal self-attention, attention to the encoder, feed-forward

A recurrent unit (ssru.py) may stand in the place of the self-attention of a decoder layer, and a mixture of experts
(experts.py) in that of a feed-forward network.

Each sublayer stands inside a residual connection (residual.py). Both layers can also advance by one position (`step`),
with a cache of what they computed before; a search calls that.

B sentences, W hypotheses, S source, T target, D model; `*` is (B, T) padded or (N,) packed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.cache import KVCache
from regard.attention.layouts import AttentionPattern, Layout
from regard.attention.multihead import MultiHeadAttention, NoAttention
from regard.kernels import kernels_available
from regard.layers.experts import MixtureOfExperts
from regard.layers.residual import NoSublayer, Residual
from regard.layers.ssru import SSRU, SSRUState

Activation = Callable[[Tensor], Tensor]
ActivationKind = Literal["relu", "gelu", "gelu_tanh", "silu"]


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU by tanh, 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): Hendrycks and Gimpel 2016, section 2."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Activation] = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": gelu_tanh, "silu": F.silu}
ACTIVATION = "activation function of the feed-forward layers; gelu_tanh is the approximation of GPT-2"


class FeedForward(nn.Module):
    """The position-wise feed-forward network (Vaswani et al. 2017, equation 2): (*, D) -> (*, D_ff) -> (*, D).

        FFN(x) = max(0, x W_1 + b_1) W_2 + b_2

    Attention moves information between positions; this layer works on each position alone.
    """

    def __init__(
        self, d_model: int, d_ff: int, dropout: float = 0.0, activation: Activation = F.relu, bias: bool = True
    ) -> None:
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff, bias)
        self.fc2 = nn.Linear(d_ff, d_model, bias)
        self.dropout = nn.Dropout(dropout)
        self.activation = activation
        self.has_kernels = bias and not dropout and activation in (F.relu, F.gelu) and kernels_available()

    def forward(self, x: Tensor, layout: Layout | None = None) -> Tensor:
        if self.has_kernels and self.training and x.is_cuda:
            from regard.layers.row_kernels import linear_activation

            return self.fc2(linear_activation(x, self.fc1, self.activation is F.relu))
        return self.fc2(self.dropout(self.activation(self.fc1(x))))


class GatedFeedForward(FeedForward):
    """A feed-forward network with a gate (Shazeer 2020, equation 6): (*, D) -> (*, D_ff) -> (*, D).

        FFN(x) = (activation(x W_1) * x V) W_2

    A second linear map of x, without an activation, says how much of each inner component passes.
    """

    def __init__(
        self, d_model: int, d_ff: int, dropout: float = 0.0, activation: Activation = F.relu, bias: bool = True
    ) -> None:
        super().__init__(d_model, d_ff, dropout, activation, bias)
        self.gate = nn.Linear(d_model, d_ff, bias)

    def forward(self, x: Tensor, layout: Layout | None = None) -> Tensor:
        return self.fc2(self.dropout(self.activation(self.fc1(x)) * self.gate(x)))


class NoFeedForward(nn.Module):
    """The place of a feed-forward network that is left out."""

    def forward(self, x: Tensor, layout: Layout | None = None) -> Tensor:
        return x


def residual_around(sublayer: nn.Module, residual: Callable[[], Residual]) -> Residual:
    """The residual connection of a sublayer; a sublayer that is left out has none."""
    return NoSublayer() if isinstance(sublayer, NoAttention | NoFeedForward) else residual()


class EncoderLayer(nn.Module):
    """Transformer encoder layer: self-attention, then a position-wise feed-forward network; one may be left out.

    With a causal attention pattern it is the layer of a decoder without a source: a language model.
    """

    attention: MultiHeadAttention
    feedforward: FeedForward

    def __init__(
        self,
        attention: MultiHeadAttention | NoAttention,
        feedforward: FeedForward | MixtureOfExperts | NoFeedForward,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention  # type: ignore[assignment]
        self.attention_residual = residual_around(attention, residual)
        self.feedforward = feedforward  # type: ignore[assignment]
        self.feedforward_residual = residual_around(feedforward, residual)

    def forward(self, x: Tensor, pattern: AttentionPattern) -> Tensor:
        layout = pattern.queries
        y = self.attention_residual.pre(x, layout)  # (*, D)
        x = self.attention_residual.post(x, self.attention(y, y, pattern), layout)
        y = self.feedforward_residual.pre(x, layout)
        return self.feedforward_residual.post(x, self.feedforward(y, layout), layout)

    def step(self, x: Tensor, past: KVCache) -> tuple[Tensor, KVCache]:
        """Advance by one position: x (B, W, D)."""
        y, past = self.attention.step(self.attention_residual.pre(x), past)
        x = self.attention_residual.post(x, y)
        y = self.feedforward_residual.pre(x)
        return self.feedforward_residual.post(x, self.feedforward(y)), past


@dataclass(frozen=True)
class DecoderLayerState:
    """State of a decoder layer between steps: of its self-attention, and keys and values of the memory (B, S, H, K)."""

    past: KVCache | SSRUState
    memory_keys: Tensor
    memory_values: Tensor

    def reorder(self, parents: Tensor) -> "DecoderLayerState":
        """Rearrange the hypotheses; all hypotheses of a sentence share its memory."""
        return DecoderLayerState(self.past.reorder(parents), self.memory_keys, self.memory_values)

    def keep(self, sentences: Tensor) -> "DecoderLayerState":
        memory = (x.index_select(0, sentences) for x in (self.memory_keys, self.memory_values))
        return DecoderLayerState(self.past.keep(sentences), *memory)


class DecoderLayer(nn.Module):
    """Transformer decoder layer: causal self-attention, attention to the memory, then a feed-forward network.

    Self-attention and the feed-forward network may be left out; a recurrent unit may replace self-attention.
    """

    attention: MultiHeadAttention
    feedforward: FeedForward

    def __init__(
        self,
        attention: MultiHeadAttention | NoAttention | SSRU,
        cross_attention: MultiHeadAttention,
        feedforward: FeedForward | MixtureOfExperts | NoFeedForward,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention  # type: ignore[assignment]
        self.attention_residual = residual_around(attention, residual)
        self.cross_attention, self.cross_attention_residual = cross_attention, residual()
        self.feedforward = feedforward  # type: ignore[assignment]
        self.feedforward_residual = residual_around(feedforward, residual)

    def forward(self, x: Tensor, memory: Tensor, pattern: AttentionPattern, cross_pattern: AttentionPattern) -> Tensor:
        layout = pattern.queries
        y = self.attention_residual.pre(x, layout)  # (*, D)
        x = self.attention_residual.post(x, self.attention(y, y, pattern), layout)
        y = self.cross_attention_residual.pre(x, layout)
        x = self.cross_attention_residual.post(x, self.cross_attention(y, memory, cross_pattern), layout)
        y = self.feedforward_residual.pre(x, layout)
        return self.feedforward_residual.post(x, self.feedforward(y, layout), layout)

    def start(self, memory: Tensor, layout: Layout, window: int = 0) -> DecoderLayerState:
        """The state before the first token: an empty cache, and the memory (B, S, D) projected once."""
        keys, values = self.cross_attention.project_keys_values(memory, layout.positions)
        return DecoderLayerState(self.attention.start(memory.size(0), keys, window), keys, values)

    def step(
        self, x: Tensor, state: DecoderLayerState, cross_pattern: AttentionPattern
    ) -> tuple[Tensor, DecoderLayerState]:
        """Advance by one position: x (B, W, D). In cross-attention, W hypotheses are like a sentence of W tokens."""
        y, past = self.attention.step(self.attention_residual.pre(x), state.past)  # type: ignore[arg-type]
        x = self.attention_residual.post(x, y)
        y = self.cross_attention_residual.pre(x)
        y = self.cross_attention.attend(y, state.memory_keys, state.memory_values, cross_pattern)
        x = self.cross_attention_residual.post(x, y)
        y = self.feedforward_residual.pre(x)
        x = self.feedforward_residual.post(x, self.feedforward(y))
        return x, DecoderLayerState(past, state.memory_keys, state.memory_values)


L = TypeVar("L", EncoderLayer, DecoderLayer)


class TransformerStack(nn.ModuleList, Generic[L]):
    """Transformer layers, one above the other: (*, D) -> (*, D).

    `context` is what every layer takes besides x: the attention pattern, in a decoder also the memory. The stack is a
    `ModuleList`, so that layers are compiled one by one and weights are named by the number of their layer.
    """

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[L]: ...

        def __getitem__(self, index: int) -> L: ...  # type: ignore[override]

    def forward(self, x: Tensor, *context: object) -> Tensor:
        for layer in self:
            x = layer(x, *context)
        return x

    def hidden_states(self, x: Tensor, *context: object) -> list[Tensor]:
        """The input and the output of every layer, (*, D) each."""
        states = [x]
        for layer in self:
            states.append(layer(states[-1], *context))
        return states
