"""Run by test_device_kernels.py in a process of its own, where triton interprets kernels instead of compiling them.

Whether it does is decided when triton is imported, so it cannot be switched on inside a test.
"""

import itertools
import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.engines.kernels import Memory, Past, TorchKernels
from regard.engines.kernels_triton import TritonKernels

PLAIN, FUSED = TorchKernels(), TritonKernels()


def randn(*shape: int) -> Tensor:
    return torch.randn(shape)


def top() -> None:
    """Ties and their order, forbidden tokens, minus zero, rows wider and narrower than a program's lanes."""
    for vocabulary, count in itertools.product((5, 100, 8300), (1, 8)):
        for logits in (
            randn(3, vocabulary) * 5,
            randn(3, vocabulary).round(),
            randn(3, vocabulary).bfloat16(),
            torch.tensor([0.0, -0.0]).repeat(3, vocabulary)[:, :vocabulary],
        ):
            for forbidden in ((), (0,), (1, 3)):
                one, other = (k.top(logits.contiguous(), count, forbidden) for k in (PLAIN, FUSED))
                real = one.logits > -torch.inf
                torch.testing.assert_close(one.logits, other.logits, rtol=0, atol=0)
                assert torch.equal(one.tokens[real], other.tokens[real])
                torch.testing.assert_close(one.mass, other.mass)


def look_back() -> None:
    """Any family tree, any position, heads that do and do not fill a block, queries that are parts of a wider row."""
    for slots, width, heads, size, positions in ((3, 4, 2, 16, 40), (2, 1, 3, 8, 7), (2, 3, 1, 24, 33)):
        qkv = randn(slots, width, 3 * heads * size)
        q, k, v = (part.unflatten(-1, (heads, size)) for part in qkv.chunk(3, dim=-1))
        keys, values = randn(2, slots, heads, positions, width, size)
        ancestry = torch.randint(width, (slots, positions, width), dtype=torch.int32)
        position = torch.randint(positions, (slots,))
        position[0] = 0
        ancestry[torch.arange(slots), position] = torch.arange(width, dtype=torch.int32)
        pasts = [Past(keys.clone(), values.clone(), ancestry, position) for _ in range(2)]
        one, other = (each.look_back(q, k, v, past) for each, past in zip((PLAIN, FUSED), pasts, strict=True))
        torch.testing.assert_close(one, other)
        for column in range(2):
            assert torch.equal(pasts[0][column], pasts[1][column])


def look_across() -> None:
    for slots, width, heads, size, source in ((3, 4, 2, 16, 40), (2, 1, 3, 8, 7), (2, 3, 1, 24, 33)):
        q = randn(slots, width, heads, size)
        keys, values = randn(2, slots, source, heads, size)
        memory = Memory(keys, values, torch.randint(1, source + 1, (slots,)))
        torch.testing.assert_close(PLAIN.look_across(q, memory), FUSED.look_across(q, memory))


def add_norm() -> None:
    for size in (16, 48):
        norm = nn.LayerNorm(size)
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
        x, y = randn(2, 5, size)
        for one, other in zip(PLAIN.add_norm(x, y, norm), FUSED.add_norm(x, y, norm), strict=True):
            torch.testing.assert_close(one, other)


CHECKS: dict[str, Callable[[], None]] = {check.__name__: check for check in (top, look_back, look_across, add_norm)}

if __name__ == "__main__":
    torch.manual_seed(0)
    with torch.inference_mode():
        CHECKS[sys.argv[1]]()
