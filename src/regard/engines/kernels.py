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


class Top(NamedTuple):
    """The likeliest tokens of every row, best first, and what turns their logits into log probabilities."""

    logits: Tensor  # (N, count) float32, minus infinity where a row has no more tokens
    tokens: Tensor  # (N, count) int64
    mass: Tensor  # (N,) float32: log sum exp of the whole row, so that log P = logit - mass


class Past(NamedTuple):
    """The keys and values of one layer, (B, H, T, W, K) each: written once, never moved.

    When hypotheses are reordered only the family tree is: `ancestry` (B, T, W) says in which of the W places the key
    of hypothesis w's position t lies. `position` (B,) is where each slot's newest token stands.
    """

    keys: Tensor
    values: Tensor
    ancestry: Tensor
    position: Tensor


class Memory(NamedTuple):
    """The source's keys and values of one layer, (B, S, H, K) each, of which the first `lengths` (B,) are real."""

    keys: Tensor
    values: Tensor
    lengths: Tensor


class Kernels(Protocol):
    """What a step is made of besides matrix products."""

    def top(self, logits: Tensor, count: int, forbidden: tuple[int, ...]) -> Top:
        """The `count` greatest of each row (N, V), the lowest index first among equals; `forbidden` are passed over."""
        ...

    def look_back(self, q: Tensor, k: Tensor, v: Tensor, past: Past) -> Tensor:
        """Append k, v (B, W, H, K) to the past; q (B, W, H, K) looks at its own ancestors -> (B, W, H, K)."""
        ...

    def look_across(self, q: Tensor, memory: Memory) -> Tensor:
        """q (B, W, H, K): all hypotheses of a slot look at its source -> (B, W, H, K)."""
        ...

    def add_norm(self, x: Tensor, y: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        """x + y and its layer norm, (N, D) each."""
        ...

    def inherit(self, table: Tensor, parents: Tensor, position: Tensor) -> None:
        """In table (B, T, W), hypothesis w takes over what parents[b, w] (B, W) has, up to `position` (B,)."""
        ...


class TorchKernels:
    """What the kernels compute, in plain torch."""

    def top(self, logits: Tensor, count: int, forbidden: tuple[int, ...]) -> Top:
        """See `Kernels.top`."""
        logits = logits.float()
        mass = logits.logsumexp(dim=-1)
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
        return Top(F.pad(logits.gather(1, tokens), padding, value=-torch.inf), F.pad(tokens, padding), mass)

    def look_back(self, q: Tensor, k: Tensor, v: Tensor, past: Past) -> Tensor:
        """See `Kernels.look_back`. All W x T places are looked at, and a mask says which of them are ancestors."""
        slots, width = q.shape[:2]
        rows = torch.arange(slots, device=q.device)
        past.keys[rows, :, past.position] = k.transpose(1, 2)
        past.values[rows, :, past.position] = v.transpose(1, 2)
        places = torch.arange(width, device=q.device)
        steps = torch.arange(past.keys.size(2), device=q.device)
        mine = past.ancestry.transpose(1, 2)[..., None] == places  # (B, W, T, W)
        mine = mine & (steps <= past.position[:, None])[:, None, :, None]
        out = F.scaled_dot_product_attention(
            q.transpose(1, 2), past.keys.flatten(2, 3), past.values.flatten(2, 3), attn_mask=mine.flatten(2)[:, None]
        )
        return out.transpose(1, 2)

    def look_across(self, q: Tensor, memory: Memory) -> Tensor:
        """See `Kernels.look_across`."""
        real = torch.arange(memory.keys.size(1), device=q.device) < memory.lengths[:, None]
        q, k, v = (x.transpose(1, 2) for x in (q, memory.keys, memory.values))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=real[:, None, None, :]).transpose(1, 2)

    def add_norm(self, x: Tensor, y: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        """See `Kernels.add_norm`."""
        total = x + y
        return total, norm(total)

    def inherit(self, table: Tensor, parents: Tensor, position: Tensor) -> None:
        """See `Kernels.inherit`."""
        written = torch.arange(table.size(1), device=table.device) <= position[:, None]
        inherited = table.gather(2, parents[:, None].expand_as(table))
        table.copy_(torch.where(written[:, :, None], inherited, table))
