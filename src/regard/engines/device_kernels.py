"""The pieces of arithmetic a decoding step spends its time on, as a part that is handed in.

`TorchKernels` says in plain torch what each of them computes: it is the reference, and the way on a CPU.
`kernels_triton.TritonKernels` computes the same on a GPU in one kernel each; a test holds the two equal.

B slots, one sentence in each, W hypotheses a slot, N = B W rows, T positions, S source, H heads, K head size, D model,
V vocabulary.
"""

from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class TopK(NamedTuple):
    """The likeliest tokens of every row, best first, and what turns their logits into log probabilities."""

    logits: Tensor  # (N, count) float32, minus infinity where a row has no more tokens
    tokens: Tensor  # (N, count) int64
    log_z: Tensor  # (N,) float32: log sum exp of the whole row, so that log P = logit - mass


class SelfKV(NamedTuple):
    """The keys and values of one layer, (B, H, T, W, K) each: written once, never moved.

    Reordering hypotheses changes `beam_ancestry` (B, T, W) only: the index among the W hypotheses under which the key
    of hypothesis w at position t is stored. `position` (B,) is where each slot's newest token stands.
    """

    keys: Tensor
    values: Tensor
    beam_ancestry: Tensor
    position: Tensor


class SourceKV(NamedTuple):
    """The source's keys and values of one layer, (B, S, H, K) each, of which the first `lengths` (B,) are real."""

    keys: Tensor
    values: Tensor
    lengths: Tensor


class Kernels(Protocol):
    """What a step is made of besides matrix products."""

    def top_k(self, logits: Tensor, count: int, forbidden: tuple[int, ...]) -> TopK:
        """The `count` greatest of each row (N, V), the lowest index first among equals; `forbidden` are passed over."""
        ...

    def self_attention(self, q: Tensor, k: Tensor, v: Tensor, past: SelfKV) -> Tensor:
        """Append k, v (B, W, H, K) to the past; q (B, W, H, K) looks at its own ancestors -> (B, W, H, K)."""
        ...

    def cross_attention(self, q: Tensor, memory: SourceKV) -> Tensor:
        """q (B, W, H, K): all hypotheses of a slot look at its source -> (B, W, H, K)."""
        ...

    def add_norm(self, x: Tensor, y: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        """x + y and its layer norm, (N, D) each."""
        ...

    def copy_parents(self, table: Tensor, parents: Tensor, position: Tensor) -> None:
        """In table (B, T, W), hypothesis w takes over what parents[b, w] (B, W) has, up to `position` (B,)."""
        ...


class TorchKernels:
    """What the kernels compute, in plain torch."""

    def top_k(self, logits: Tensor, count: int, forbidden: tuple[int, ...]) -> TopK:
        """See `Kernels.top_k`."""
        logits = logits.float()
        log_z = logits.logsumexp(dim=-1)
        vocabulary = logits.size(1)
        logits = logits + 0.0  # a copy, in which minus zero is zero
        logits[:, [token for token in forbidden if token < vocabulary]] = -torch.inf
        found = min(count, vocabulary)
        # torch.topk promises no order among equals. The bits of a float, read as an integer, are in its order (those
        # of negative ones reversed), and there is room behind them for the index.
        bits = logits.view(torch.int32)
        ordered = torch.where(bits >= 0, bits, bits ^ 0x7FFFFFFF).long()
        behind = 0x7FFFFFFF - torch.arange(vocabulary, device=logits.device)
        tokens = 0x7FFFFFFF - ((ordered << 32) | behind).topk(found, dim=1).values % 2**32
        padding = (0, count - found)
        return TopK(F.pad(logits.gather(1, tokens), padding, value=-torch.inf), F.pad(tokens, padding), log_z)

    def self_attention(self, q: Tensor, k: Tensor, v: Tensor, past: SelfKV) -> Tensor:
        """See `Kernels.self_attention`. All W x T places are looked at, and a mask says which of them are ancestors."""
        slots, width = q.shape[:2]
        rows = torch.arange(slots, device=q.device)
        past.keys[rows, :, past.position] = k.transpose(1, 2)
        past.values[rows, :, past.position] = v.transpose(1, 2)
        places = torch.arange(width, device=q.device)
        steps = torch.arange(past.keys.size(2), device=q.device)
        mine = past.beam_ancestry.transpose(1, 2)[..., None] == places  # (B, W, T, W)
        mine = mine & (steps <= past.position[:, None])[:, None, :, None]
        out = F.scaled_dot_product_attention(
            q.transpose(1, 2), past.keys.flatten(2, 3), past.values.flatten(2, 3), attn_mask=mine.flatten(2)[:, None]
        )
        return out.transpose(1, 2)

    def cross_attention(self, q: Tensor, memory: SourceKV) -> Tensor:
        """See `Kernels.cross_attention`."""
        real = torch.arange(memory.keys.size(1), device=q.device) < memory.lengths[:, None]
        q, k, v = (x.transpose(1, 2) for x in (q, memory.keys, memory.values))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=real[:, None, None, :]).transpose(1, 2)

    def add_norm(self, x: Tensor, y: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        """See `Kernels.add_norm`."""
        total = x + y
        return total, norm(total)

    def copy_parents(self, table: Tensor, parents: Tensor, position: Tensor) -> None:
        """See `Kernels.copy_parents`."""
        written = torch.arange(table.size(1), device=table.device) <= position[:, None]
        inherited = table.gather(2, parents[:, None].expand_as(table))
        table.copy_(torch.where(written[:, :, None], inherited, table))
