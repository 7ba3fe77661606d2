"""The kernels of a decoding step: products, attention, residual with norm, top-k, and the reordering of beams.

`TorchKernels` is the reference in plain torch, and the implementation for a CPU. `TritonKernels` in
device_kernels_triton.py computes the same on a GPU with one kernel each; a test compares the two.

Shapes: B slots, one sentence in each, W hypotheses a slot, N = B W rows, T positions, S source, H heads, K head size,
D model, V vocabulary.
"""

from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.blocks import Activation
from regard.layers.embeddings import TokenEmbedding


class TopK(NamedTuple):
    """The most likely tokens of every row, best first, and the normalisation of their logits."""

    logits: Tensor  # (N, count) float32, minus infinity if a row has fewer tokens
    tokens: Tensor  # (N, count) int64
    log_z: Tensor  # (N,) float32: log sum exp of the whole row: log P = logit - log_z


class SelfKV(NamedTuple):
    """The self-attention KV cache of one layer, (B, H, T, W, K) each. Entries are written once and never move.

    Reordering hypotheses changes `beam_ancestry` (B, T, W) only: the index among the W hypotheses under which the key
    of hypothesis w at position t is stored. `position` (B,) is the position of each slot's newest token.
    """

    keys: Tensor
    values: Tensor
    beam_ancestry: Tensor
    position: Tensor


class DeviceSourceKV(NamedTuple):
    """Keys and values of the source in one layer, (B, S, H, K) each; the first `lengths` (B,) are not padding."""

    keys: Tensor
    values: Tensor
    lengths: Tensor


class Kernels(Protocol):
    """The operations of a step."""

    def embed(self, tokens: Tensor, position: Tensor, embedding: TokenEmbedding, positions: Tensor) -> Tensor:
        """Embed tokens (B, W), and add row `position` (B,) of the position vectors (T, D) -> (N, D)."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor, activation: Activation | None = None) -> Tensor:
        """x (N, D) W^T + b, and its activation if there is one."""

    def top_k(self, logits: Tensor, count: int, forbidden: tuple[int, ...]) -> TopK:
        """The `count` largest of each row (N, V) except `forbidden`; the lowest index first among equals."""

    def self_attention(self, q: Tensor, k: Tensor, v: Tensor, cache: SelfKV) -> Tensor:
        """Append k, v (B, W, H, K) to the cache; q (B, W, H, K) attends to its own history -> (B, W, H, K)."""

    def cross_attention(self, q: Tensor, source: DeviceSourceKV) -> Tensor:
        """q (B, W, H, K): all hypotheses of a slot attend to its source -> (B, W, H, K)."""

    def add_norm(self, x: Tensor, y: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        """x + y and its layer norm, (N, D) each."""

    def copy_parents(self, table: Tensor, parents: Tensor, position: Tensor) -> None:
        """In table (B, T, W), hypothesis w gets the column of parents[b, w] (B, W), up to `position` (B,)."""


class TorchKernels:
    """The reference kernels, in plain torch. `Kernels` describes the methods."""

    def embed(self, tokens: Tensor, position: Tensor, embedding: TokenEmbedding, positions: Tensor) -> Tensor:
        x: Tensor = embedding(tokens) + positions[position][:, None]
        return x.flatten(0, 1)

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor, activation: Activation | None = None) -> Tensor:
        y = F.linear(x, weight, bias)
        return y if activation is None else activation(y)

    def top_k(self, logits: Tensor, count: int, forbidden: tuple[int, ...]) -> TopK:
        logits = logits.float()
        log_z = logits.logsumexp(dim=-1)
        vocabulary = logits.size(1)
        logits = logits + 0.0  # a copy, in which minus zero is zero
        logits[:, [token for token in forbidden if token < vocabulary]] = -torch.inf
        size = min(count, vocabulary)
        # torch.topk defines no order among equals. The bits of a float, read as an integer, have the order of the float
        # (reversed for negative numbers). A 64-bit key holds them above and the index below.
        bits = logits.view(torch.int32)
        ordered = torch.where(bits >= 0, bits, bits ^ 0x7FFFFFFF).long()
        low_bits = 0x7FFFFFFF - torch.arange(vocabulary, device=logits.device)
        tokens = 0x7FFFFFFF - ((ordered << 32) | low_bits).topk(size, dim=1).values % 2**32
        padding = (0, count - size)
        return TopK(F.pad(logits.gather(1, tokens), padding, value=-torch.inf), F.pad(tokens, padding), log_z)

    def self_attention(self, q: Tensor, k: Tensor, v: Tensor, cache: SelfKV) -> Tensor:
        """All W x T entries are scored, and a mask selects the history of each hypothesis."""
        slots, width = q.shape[:2]
        rows = torch.arange(slots, device=q.device)
        cache.keys[rows, :, cache.position] = k.transpose(1, 2)
        cache.values[rows, :, cache.position] = v.transpose(1, 2)
        columns = torch.arange(width, device=q.device)
        steps = torch.arange(cache.keys.size(2), device=q.device)
        own = cache.beam_ancestry.transpose(1, 2)[..., None] == columns  # (B, W, T, W)
        own = own & (steps <= cache.position[:, None])[:, None, :, None]
        out = F.scaled_dot_product_attention(
            q.transpose(1, 2), cache.keys.flatten(2, 3), cache.values.flatten(2, 3), attn_mask=own.flatten(2)[:, None]
        )
        return out.transpose(1, 2)

    def cross_attention(self, q: Tensor, source: DeviceSourceKV) -> Tensor:
        not_padding = torch.arange(source.keys.size(1), device=q.device) < source.lengths[:, None]
        q, k, v = (x.transpose(1, 2) for x in (q, source.keys, source.values))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=not_padding[:, None, None, :]).transpose(1, 2)

    def add_norm(self, x: Tensor, y: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        total = x + y
        return total, norm(total)

    def copy_parents(self, table: Tensor, parents: Tensor, position: Tensor) -> None:
        filled = torch.arange(table.size(1), device=table.device) <= position[:, None]
        copied = table.gather(2, parents[:, None].expand_as(table))
        table.copy_(torch.where(filled[:, :, None], copied, table))
