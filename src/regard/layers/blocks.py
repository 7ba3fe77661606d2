"""The two layers a Transformer is stacked from (Vaswani et al. 2017, section 3.1 and figure 1).

    encoder layer   self-attention, feed-forward
    decoder layer   causal self-attention, attention to the encoder, feed-forward

Each sublayer stands inside a residual connection (residual.py). A decoder layer can also advance by one position
(`step`), with what it computed before handed in and handed back.

B sentences, W hypotheses, S source, T target, D model; `*` is (B, T) padded or (N,) packed.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from regard.attention.cache import KVCache
from regard.attention.layouts import AttentionPattern, Layout
from regard.attention.multihead import MultiHeadAttention
from regard.layers.feedforward import FeedForward
from regard.layers.residual import PostNorm, PreNorm


class EncoderLayer(nn.Module):
    """Every word looks at every word of its sentence, then thinks for itself."""

    def __init__(
        self, attention: MultiHeadAttention, feedforward: FeedForward, residual: Callable[[], PostNorm | PreNorm]
    ) -> None:
        super().__init__()
        self.attention, self.attention_residual = attention, residual()
        self.feedforward, self.feedforward_residual = feedforward, residual()

    def forward(self, x: Tensor, pattern: AttentionPattern) -> Tensor:
        y = self.attention_residual.pre(x)
        x = self.attention_residual.post(x, self.attention(y, y, pattern))
        y = self.feedforward_residual.pre(x)
        return self.feedforward_residual.post(x, self.feedforward(y))


@dataclass(frozen=True)
class DecoderLayerState:
    """What a decoder layer keeps between steps: its own past, and the memory's keys and values (B, S, H, K)."""

    past: KVCache
    memory_keys: Tensor
    memory_values: Tensor

    def reorder(self, parents: Tensor) -> "DecoderLayerState":
        """All hypotheses of a sentence share its memory, so only the past is rearranged."""
        return DecoderLayerState(self.past.reorder(parents), self.memory_keys, self.memory_values)

    def keep(self, sentences: Tensor) -> "DecoderLayerState":
        memory = (x.index_select(0, sentences) for x in (self.memory_keys, self.memory_values))
        return DecoderLayerState(self.past.keep(sentences), *memory)


class DecoderLayer(nn.Module):
    """Every word looks at the words written before it, then at the source, then thinks for itself."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feedforward: FeedForward,
        residual: Callable[[], PostNorm | PreNorm],
    ) -> None:
        super().__init__()
        self.attention, self.attention_residual = attention, residual()
        self.cross_attention, self.cross_attention_residual = cross_attention, residual()
        self.feedforward, self.feedforward_residual = feedforward, residual()

    def forward(self, x: Tensor, memory: Tensor, pattern: AttentionPattern, cross_pattern: AttentionPattern) -> Tensor:
        y = self.attention_residual.pre(x)
        x = self.attention_residual.post(x, self.attention(y, y, pattern))
        y = self.cross_attention_residual.pre(x)
        x = self.cross_attention_residual.post(x, self.cross_attention(y, memory, cross_pattern))
        y = self.feedforward_residual.pre(x)
        return self.feedforward_residual.post(x, self.feedforward(y))

    def start(self, memory: Tensor, layout: Layout, window: int = 0) -> DecoderLayerState:
        """Before the first word: an empty past, and the memory (B, S, D) projected once."""
        keys, values = self.cross_attention.project_keys_values(memory, layout.positions)
        return DecoderLayerState(self.attention.start(memory.size(0), keys, window), keys, values)

    def step(
        self, x: Tensor, state: DecoderLayerState, cross_pattern: AttentionPattern
    ) -> tuple[Tensor, DecoderLayerState]:
        """One word further: x (B, W, D). To the source, W hypotheses look like a sentence of W words."""
        y, past = self.attention.step(self.attention_residual.pre(x), state.past)
        x = self.attention_residual.post(x, y)
        y = self.cross_attention_residual.pre(x)
        y = self.cross_attention.attend(y, state.memory_keys, state.memory_values, cross_pattern)
        x = self.cross_attention_residual.post(x, y)
        y = self.feedforward_residual.pre(x)
        x = self.feedforward_residual.post(x, self.feedforward(y))
        return x, DecoderLayerState(past, state.memory_keys, state.memory_values)
