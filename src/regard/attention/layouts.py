"""Layouts of a batch, padded or packed, and the attention patterns of each.

Projections, norms and feed-forward layers work on (B, T, D) and on a stream (N, D) alike; only attention and positions
depend on the layout. So a batch carries its layout, and the layout provides the attention:

    padded   | the cat sat . |        packed   | the cat sat . a dog barks . |
             | a dog . _ _   |                   0               4           8   offsets

`Padded` is the readable reference and the CPU path; `Packed` has no padding and is the GPU path. A layout's
`pattern(keys)` gives an `AttentionPattern`: which queries attend to which keys. It is computed once and passed to every
layer.

B sentences, T queries, S keys, H heads, K head size, N packed tokens.
Queries, keys, values and outputs are token by token, (B, T, H, K) or (N, H, K).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.attend import causal_mask, padding_mask, window_mask
from regard.attention.scored_attention import AttentionFunction, scaled_dot_attention
from regard.attention.windowed import local_attention


class AttentionPattern(Protocol):
    """Which queries attend to which keys; it also computes the attention."""

    @property
    def queries(self) -> "Layout": ...

    @property
    def keys(self) -> "Layout": ...

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, dropout: float, function: AttentionFunction | None = None
    ) -> Tensor:
        """softmax(q k^T / sqrt(K)) v, each query over its keys; `function` replaces this formula."""


class Layout(Protocol):
    """Positions of the tokens of a batch in its tensors."""

    @property
    def positions(self) -> Tensor:
        """Position of each token in its own sentence, from 0; broadcastable to the token dimensions."""

    @property
    def not_padding(self) -> Tensor:
        """True at tokens, False at padding: (B, T) or (N,)."""

    def pattern(self, keys: Any, causal: bool = False, window: int = 0) -> AttentionPattern:
        """The pattern of these tokens as queries and `keys`, a layout of the same kind. causal: attend only up to the
        own position; window: only to this many positions before and after it, 0 for all."""


class Tokens(NamedTuple):
    """Token ids and their layout."""

    ids: Tensor
    layout: Layout


@dataclass(frozen=True)
class Padded:
    """A rectangle (B, T): sentences in rows, padded at the end to the longest."""

    lengths: Tensor  # (B,)
    size: int

    @classmethod
    def of(cls, ids: Tensor, lengths: Tensor) -> Tokens:
        return Tokens(ids, cls(lengths, ids.size(1)))

    @cached_property
    def positions(self) -> Tensor:
        return torch.arange(self.size, device=self.lengths.device)

    @cached_property
    def not_padding(self) -> Tensor:
        return self.positions < self.lengths[:, None]

    def pattern(self, keys: "Padded", causal: bool = False, window: int = 0) -> "PaddedPattern":
        narrow = 0 < window < keys.size - 1  # otherwise the window covers everything
        return LocalPattern(self, keys, causal, window) if narrow else PaddedPattern(self, keys, causal)


@dataclass(frozen=True)
class PaddedPattern:
    """Attention over rectangles, by torch's fused kernel instead of `attend`."""

    queries: Padded
    keys: Padded
    causal: bool
    window: int = 0

    @cached_property
    def mask(self) -> Tensor:
        """Broadcastable to (B, H, T, S)."""
        mask = padding_mask(self.keys.lengths, self.keys.size)
        if self.causal:
            mask = mask & causal_mask(self.keys.size, mask.device)
        return mask & window_mask(self.keys.size, self.window, mask.device) if self.window else mask

    @cached_property
    def distances(self) -> Tensor:
        """(T, S): position of each key minus position of each query."""
        return self.keys.positions - self.queries.positions[:, None]

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, dropout: float, function: AttentionFunction | None = None
    ) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, T, H, K) -> (B, H, T, K)
        if function is not None:
            return function(q, k, v, self.distances, self.mask, dropout)[0].transpose(1, 2)
        # Padding follows the sentence, so a token never attends to it causally: no mask is needed.
        mask = None if self.causal else self.mask
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=self.causal)
        return out.transpose(1, 2)


class LocalPattern(PaddedPattern):
    """Attention of tokens to their neighbours: time and memory are linear in the length."""

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, dropout: float, function: AttentionFunction | None = None
    ) -> Tensor:
        return local_attention(
            q, k, v, self.keys.not_padding, self.window, self.causal, dropout, function or scaled_dot_attention
        )


@dataclass(frozen=True)
class Packed:
    """A stream (N,): sentence b is tokens offsets[b] up to offsets[b + 1].

    A stream may be longer than its sentences: the padding at its end belongs to one more sentence, which has no tokens
    and takes part in no attention. So all batches can have one shape, as a compiled step needs.
    """

    offsets: Tensor  # (C + 1,) int32, for up to C sentences
    rows: Tensor  # (N,) the sentence of each token
    positions: Tensor  # (N,) the position of each token in its sentence

    @classmethod
    def of(cls, ids: Tensor, lengths: Tensor) -> Tokens:
        """Pack a padded rectangle (B, T)."""
        not_padding = torch.arange(ids.size(1), device=ids.device) < lengths[:, None]
        rows, positions = not_padding.nonzero(as_tuple=True)
        offsets = F.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)
        return Tokens(ids[not_padding], cls(offsets, rows, positions))

    @cached_property
    def not_padding(self) -> Tensor:
        """(N,): True at tokens, False at padding, whose sentence is empty."""
        start, end = self.interval(self.rows)
        indices = torch.arange(len(self.rows), device=self.rows.device)
        return (start <= indices) & (indices < end)

    def pattern(self, keys: "Packed", causal: bool = False, window: int = 0) -> "PackedPattern":
        lo, hi = keys.interval(self.rows)
        first, last = self.interval(keys.rows)
        indices = torch.arange(len(lo), dtype=lo.dtype, device=lo.device)
        if causal:
            hi, first = hi.minimum(indices + 1), first.maximum(indices)
        if window:
            lo, hi = lo.maximum(indices - window), hi.minimum(indices + window + 1)
            first, last = first.maximum(indices - window), last.minimum(indices + window + 1)
        return PackedPattern(self, keys, lo, hi, first, last)

    def interval(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Start and end of these sentences in the stream."""
        return self.offsets[rows], self.offsets[rows + 1]


@dataclass(frozen=True)
class PackedPattern:
    """Attention within the sentences of a stream: query i attends to keys lo[i] up to hi[i]; a kernel on a GPU."""

    queries: Packed
    keys: Packed
    lo: Tensor  # (N,) int32
    hi: Tensor
    first: Tensor  # (M,) the reverse: queries first[j] up to last[j] attend to key j
    last: Tensor

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, dropout: float, function: AttentionFunction | None = None
    ) -> Tensor:
        if q.is_cuda and function is None:
            return self.attend_stacked([x.flatten(1) for x in (q, k, v)], q.size(1), dropout).view_as(q)
        indices = torch.arange(len(k), device=k.device)
        mask = (self.lo[:, None] <= indices) & (indices < self.hi[:, None])  # (N, M)
        distances = self.keys.positions - self.queries.positions[:, None]
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))  # (N, H, K) -> (H, N, K)
        return (function or scaled_dot_attention)(q, k, v, distances, mask, dropout)[0].transpose(0, 1)

    def attend_stacked(self, tensors: Sequence[Tensor], heads: int, dropout: float) -> Tensor:
        """Attention on a GPU, in memory linear in the stream -> (N, H K): of (q, k, v) in the rows of one tensor, as a
        product for all three leaves them; of q and (k, v); or of q, k and v (N, H K)."""
        from regard.attention.intervals import interval_attention

        device, bounds = self.lo.device, (self.lo, self.hi, self.first, self.last)
        seed = torch.randint(2**62, (1,), device=device) if dropout else self.lo.new_zeros(1, dtype=torch.int64)
        return interval_attention(tensors, heads, *bounds, seed, dropout)[0]


@dataclass(frozen=True)
class RecordingPattern(PaddedPattern):
    """A padded pattern that keeps the attention weights, one (B, H, T, S) for each layer that uses it. Layers do not
    know of it: the caller passes it in and reads the weights afterwards."""

    weights: list[Tensor] = field(default_factory=list)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, dropout: float, function: AttentionFunction | None = None
    ) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        out, weights = (function or scaled_dot_attention)(q, k, v, self.distances, self.mask, dropout)
        self.weights.append(weights)
        return out.transpose(1, 2)

    def stacked(self) -> Tensor:
        """The weights of all layers, (B, layers, H, T, S)."""
        return torch.stack(self.weights, dim=1)

    def stacked_or_none(self) -> Tensor | None:
        """`stacked`, or None if no layer attended."""
        return self.stacked() if self.weights else None


@dataclass(frozen=True)
class Attentions:
    """Attention weights of a model for a batch, (B, layers, H, queries, keys); None where a model has none."""

    encoder: Tensor | None = None
    decoder: Tensor | None = None
    cross: Tensor | None = None
