"""Multi-head attention (Vaswani et al. 2017, section 3.2.2):

    MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O
    head_i             = Attention(Q W_i^Q, K W_i^K, V W_i^V)

One head averages all it attends to into one vector; several heads, each in its own smaller subspace, can attend to
different positions at the same cost. The h projections W_i are one matrix, split afterwards. Heads may have another
size than D / H: W^O projects the concatenated heads back to D.

D model, H heads, K head size, D / H by default; `*` is (B, T) in the padded layout, (N,) in the packed one.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.cache import KVCache
from regard.attention.layouts import AttentionPattern, PackedPattern
from regard.attention.scored_attention import ScoredAttention

Rotation = Callable[[Tensor, Tensor], Tensor]


def unrotated(x: Tensor, positions: Tensor) -> Tensor:
    """No rotation: for positions that are not rotary."""
    return x


def stacked(x: Tensor, *linears: nn.Linear) -> Tensor:
    """Several linear maps of the same x as one matrix product, (*, D) -> their outputs in one row."""
    weight = torch.cat([linear.weight for linear in linears])
    biases = tuple(linear.bias for linear in linears if linear.bias is not None)  # all of them, or none
    return F.linear(x, weight, torch.cat(biases) if biases else None)


class MultiHeadAttention(nn.Module):
    """Multi-head attention of tokens x to a memory; in self-attention the memory is x itself.

    `rotate` is applied to queries and keys with their positions (rotary embeddings). `scored_attention` replaces
    softmax(q k^T / sqrt(K)) v: other scores and relative positions. With `share_qk` queries and keys have one
    projection, W^Q = W^K: in self-attention the score of i for j is then that of j for i, unless positions are rotary
    or relative. Without `bias` the four projections are matrices alone.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        dropout: float = 0.0,
        rotate: Rotation = unrotated,
        head_dim: int | None = None,
        scored_attention: ScoredAttention | None = None,
        share_qk: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if head_dim is None and d_model % num_heads:
            raise ValueError(f"d_model {d_model} does not divide into {num_heads} heads")
        self.num_heads, self.head_dim = num_heads, head_dim or d_model // num_heads
        self.dropout, self.rotate, self.scored_attention = dropout, rotate, scored_attention
        self.is_plain = rotate is unrotated and scored_attention is None
        inner = self.num_heads * self.head_dim
        self.query = nn.Linear(d_model, inner, bias)
        self.key = self.query if share_qk else nn.Linear(d_model, inner, bias)
        self.value = nn.Linear(d_model, inner, bias)
        self.output = nn.Linear(inner, d_model, bias)

    def forward(self, x: Tensor, memory: Tensor, pattern: AttentionPattern) -> Tensor:
        """Attention of x (*, D) to memory (*, D) -> (*, D)."""
        if x is memory:
            products = [stacked(x, self.query, self.key, self.value)]
        else:
            products = [self.query(x), stacked(memory, self.key, self.value)]
        if isinstance(pattern, PackedPattern) and x.is_cuda and self.is_plain:
            dropout = self.dropout if self.training else 0.0
            return self.output(pattern.attend_stacked(products, self.num_heads, dropout))
        *first, last = products
        q, k, v = (*first, *last.chunk(4 - len(products), dim=-1))
        q = self.rotate(self.heads(q), pattern.queries.positions)
        return self._attend(q, self._keys(k, pattern.keys.positions), self.heads(v), pattern)

    def project_keys_values(self, memory: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a memory (*, D) -> (*, H, K) each; computed once if a memory is used often."""
        return self._keys(self.key(memory), positions), self.heads(self.value(memory))

    def attend(self, x: Tensor, keys: Tensor, values: Tensor, pattern: AttentionPattern) -> Tensor:
        """Attention of x (*, D) to keys and values that are computed already -> (*, D)."""
        return self._attend(self.rotate(self.heads(self.query(x)), pattern.queries.positions), keys, values, pattern)

    def _keys(self, k: Tensor, positions: Tensor) -> Tensor:
        """Projected keys (*, H * K), rotated and prepared for the score -> (*, H, K)."""
        k = self.rotate(self.heads(k), positions)
        return k if self.scored_attention is None else self.scored_attention.keys(k)

    def _attend(self, q: Tensor, keys: Tensor, values: Tensor, pattern: AttentionPattern) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        return self.output(pattern.attend(q, keys, values, dropout, self.scored_attention).flatten(-2))

    def start(self, sentences: int, like: Tensor, window: int = 0) -> KVCache:
        """An empty cache for a batch of sentences."""
        past = KVCache.empty(sentences, self.num_heads, self.head_dim, like, window)
        return past if self.scored_attention is None else replace(past, keys=self.scored_attention.keys(past.keys))

    def step(self, x: Tensor, past: KVCache) -> tuple[Tensor, KVCache]:
        """Self-attention of one new position x (B, W, D) to the cached positions and itself."""
        position = torch.full((1,), past.length, dtype=torch.long, device=x.device)
        present = past.append(*self.project_keys_values(x, position))
        context = present.attend(self.rotate(self.heads(self.query(x)), position), self.scored_attention)
        return self.output(context.flatten(-2)), present

    def heads(self, x: Tensor) -> Tensor:
        """(*, D) -> (*, H, K)."""
        return x.unflatten(-1, (self.num_heads, self.head_dim))


class NoAttention(nn.Module):
    """The place of a self-attention that is left out: no token depends on another one."""

    def forward(self, x: Tensor, memory: Tensor, pattern: AttentionPattern) -> Tensor:
        return x

    def start(self, sentences: int, like: Tensor, window: int = 0) -> KVCache:
        """A cache that counts positions only."""
        return KVCache.empty(sentences, 1, 1, like)

    def step(self, x: Tensor, past: KVCache) -> tuple[Tensor, KVCache]:
        nothing = past.keys.new_zeros(*x.shape[:2], 1, 1)
        return x, past.append(nothing, nothing)
