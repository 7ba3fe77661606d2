"""Checks of the kernels of the device engine; test_device_kernels.py runs this file with triton's interpreter."""

import torch
import torch.nn.functional as F
from tests.interpreted import patch_interpreter
from torch import Tensor, nn

from regard.decoding.constraints import LoopGuard, Rules
from regard.decoding.stepper import Symbols
from regard.engines.device_decoder import SlotShape
from regard.engines.device_kernels import DeviceSourceKV, Kernels, SelfKV, TorchKernels
from regard.engines.device_kernels_triton import TritonKernels
from regard.engines.device_search import BeamSlots, GreedySlots, SearchSlots
from regard.engines.device_search_triton import TritonBeamSlots, TritonGreedySlots
from regard.layers.embeddings import TokenEmbedding

PLAIN: Kernels = TorchKernels()
FUSED: Kernels = TritonKernels()
VOCABULARY = 7


def randn(*shape: int) -> Tensor:
    return torch.randn(shape)


def top_k() -> None:
    """Ties and their order, forbidden tokens, minus zero, rows wider and narrower than a program's lanes."""
    for vocabulary, count in ((5, 8), (100, 1), (100, 4), (8300, 2)):
        for logits in (
            randn(3, vocabulary) * 5,
            randn(3, vocabulary).round(),
            randn(3, vocabulary).bfloat16(),
            torch.tensor([0.0, -0.0]).repeat(3, vocabulary)[:, :vocabulary],
        ):
            for forbidden in ((), (1, 3)):
                one, other = (k.top_k(logits.contiguous(), count, forbidden) for k in (PLAIN, FUSED))
                real = one.logits > -torch.inf
                torch.testing.assert_close(one.logits, other.logits, rtol=0, atol=0)
                assert torch.equal(one.tokens[real], other.tokens[real])
                torch.testing.assert_close(one.log_z, other.log_z)


def self_attention() -> None:
    """Any family tree, any position, heads that do and do not fill a block, queries that are parts of a wider row."""
    for slots, width, heads, size, positions in ((3, 4, 2, 16, 40), (2, 1, 3, 8, 7), (2, 3, 1, 24, 33)):
        qkv = randn(slots, width, 3 * heads * size)
        q, k, v = (part.unflatten(-1, (heads, size)) for part in qkv.chunk(3, dim=-1))
        keys, values = randn(2, slots, heads, positions, width, size)
        beam_ancestry = torch.randint(width, (slots, positions, width), dtype=torch.int32)
        position = torch.randint(positions, (slots,))
        position[0] = 0
        beam_ancestry[torch.arange(slots), position] = torch.arange(width, dtype=torch.int32)
        pasts = [SelfKV(keys.clone(), values.clone(), beam_ancestry, position) for _ in range(2)]
        one, other = (each.self_attention(q, k, v, past) for each, past in zip((PLAIN, FUSED), pasts, strict=True))
        torch.testing.assert_close(one, other)
        for column in range(2):
            assert torch.equal(pasts[0][column], pasts[1][column])


def cross_attention() -> None:
    for slots, width, heads, size, source in ((3, 4, 2, 16, 40), (2, 1, 3, 8, 7), (2, 3, 1, 24, 33)):
        q = randn(slots, width, heads, size)
        keys, values = randn(2, slots, source, heads, size)
        memory = DeviceSourceKV(keys, values, torch.randint(1, source + 1, (slots,)))
        torch.testing.assert_close(PLAIN.cross_attention(q, memory), FUSED.cross_attention(q, memory))


def linear() -> None:
    """Few and many rows, widths that do and do not fill a block, rows of a wider matrix, with and without relu."""
    for rows, size, columns in ((1, 16, 12), (3, 24, 7), (4, 40, 33), (9, 16, 5)):
        x, weight, bias = randn(rows, 2 * size)[:, :size], randn(columns, size), randn(columns)
        for activation in (None, F.relu, F.gelu):
            one, other = (each.linear(x, weight, bias, activation) for each in (PLAIN, FUSED))
            torch.testing.assert_close(one, other)


def embed() -> None:
    for dtype in (torch.float32, torch.float16):
        embedding, positions = TokenEmbedding(11, 24).to(dtype).requires_grad_(False), randn(9, 24).to(dtype)
        tokens, position = torch.randint(11, (3, 2)), torch.tensor([0, 8, 5])
        one, other = (each.embed(tokens, position, embedding, positions) for each in (PLAIN, FUSED))
        torch.testing.assert_close(one, other)


def add_norm() -> None:
    for size in (16, 48):
        norm = nn.LayerNorm(size)
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
        x, y = randn(2, 5, size)
        for one, other in zip(PLAIN.add_norm(x, y, norm), FUSED.add_norm(x, y, norm), strict=True):
            torch.testing.assert_close(one, other)


def copy_parents() -> None:
    for slots, width, positions in ((3, 4, 70), (2, 3, 5)):
        table = torch.randint(100, (slots, positions, width), dtype=torch.int32)
        parents, position = torch.randint(width, (slots, width)), torch.randint(positions, (slots,))
        other = table.clone()
        PLAIN.copy_parents(table, parents, position)
        FUSED.copy_parents(other, parents, position)
        assert torch.equal(table, other)


def follow(one: SearchSlots, other: SearchSlots, *, steps: int) -> None:
    """Both see the same logits, of models that love to end and to repeat themselves; both decide alike."""
    slots = len(one.done)
    for step in range(steps):
        if step % 5 == 0:
            entering = one.done.nonzero()[:, 0]
            max_new_tokens = torch.randint(1, 12, (len(entering),))
            for search in (one, other):
                search.prefill(entering, max_new_tokens)
        logits = randn(one.tokens.numel(), VOCABULARY) * 2
        logits[:, 2 + step // 5] += 4.0
        parents = [search.advance(logits) for search in (one, other)]
        assert torch.equal(one.done, other.done)
        assert torch.equal(one.position, other.position)
        batches = [search.hypotheses(torch.arange(slots)).hypotheses() for search in (one, other)]
        for actual, expected in zip(*batches, strict=True):
            assert [(h.tokens, h.finished, h.looped) for h in actual] == [
                (h.tokens, h.finished, h.looped) for h in expected
            ]
            assert all(
                abs(h.score - e.score) < 1e-5 or h.score == e.score for h, e in zip(actual, expected, strict=True)
            )
        if parents[0] is not None and parents[1] is not None:
            assert isinstance(one, BeamSlots) and isinstance(other, BeamSlots)
            torch.testing.assert_close(one.live, other.live)
            alive = one.live > -torch.inf
            assert torch.equal(parents[0][alive], parents[1][alive])
            assert torch.equal(one.tokens[alive], other.tokens[alive])


RULES = [
    Rules(Symbols(0, 1, 2), alpha=0.6, loop_guard=LoopGuard(max_unit=2, min_repeats=2, min_tokens=4)),
    Rules(Symbols(0, 1, 0), alpha=0.0, loop_guard=None),
]


def greedy() -> None:
    for rules in RULES:
        shape, device = SlotShape(3, 1, 12, 1), torch.device("cpu")
        follow(GreedySlots(shape, rules, PLAIN, device), TritonGreedySlots(shape, rules, PLAIN, device), steps=25)


def beam() -> None:
    for rules, (width, nbest) in zip(RULES, ((3, 2), (2, 1)), strict=True):
        shape, device = SlotShape(3, width, 12, 1), torch.device("cpu")
        follow(*(each(shape, rules, PLAIN, device, nbest) for each in (BeamSlots, TritonBeamSlots)), steps=11)


CHECKS = (top_k, self_attention, cross_attention, linear, embed, add_norm, copy_parents, greedy, beam)

if __name__ == "__main__":
    patch_interpreter()
    torch.manual_seed(0)
    with torch.inference_mode():
        for check in CHECKS:
            check()
            print(check.__name__)
