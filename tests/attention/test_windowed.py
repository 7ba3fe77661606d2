"""Restricted attention against the equation under a band mask: values, gradients, padding, layouts and caches."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.interpreted import needs_triton, patch_interpreter, run_interpreted
from torch import Tensor

from regard.attention.attend import attend, causal_mask, padding_mask, window_mask
from regard.attention.cache import KVCache
from regard.attention.layouts import LocalPattern, Packed, Padded, RecordingPattern
from regard.attention.windowed import blocks, local_attention


def draw(sentences: int, size: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v (B, T, 2, 4) in float64."""
    generator = torch.Generator().manual_seed(seed)
    shape = (sentences, size, 2, 4)
    q, k, v = (torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(3))
    return q, k, v


def by_mask(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, window: int, causal: bool) -> tuple[Tensor, Tensor]:
    """All pairs, most of them masked."""
    size = q.size(1)
    mask = padding_mask(lengths, size) & window_mask(size, window)
    mask = mask & causal_mask(size) if causal else mask
    out, weights = attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), mask)
    return out.transpose(1, 2), weights


def test_a_window_reaches_as_far_on_either_side() -> None:
    assert window_mask(4, 1).int().tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    for i, row in enumerate(window_mask(9, 3).tolist()):
        assert row == [abs(i - j) <= 3 for j in range(9)]


def test_blocks_overlap_by_what_is_asked_for() -> None:
    x = torch.arange(1, 8)[None]
    assert blocks(x, 3).tolist() == [[[1, 2, 3], [4, 5, 6], [7, 0, 0]]]
    assert blocks(x, 3, before=2, after=1).tolist() == [[[0, 0, 1, 2, 3, 4], [2, 3, 4, 5, 6, 7], [5, 6, 7, 0, 0, 0]]]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("size", "window"), [(80, 3), (70, 40), (64, 32), (33, 1), (5, 2)])
def test_it_is_the_equation_under_a_band_mask(size: int, window: int, causal: bool) -> None:
    lengths = torch.tensor([size, size // 2, 1])
    q, k, v = draw(3, size)
    real = Padded(lengths, size).not_padding
    out = local_attention(q, k, v, real, window, causal)
    expected, _ = by_mask(q, k, v, lengths, window, causal)
    torch.testing.assert_close(out, expected)
    upstream = torch.randn_like(out)
    for one, other in zip(*(torch.autograd.grad(x, (q, k, v), upstream) for x in (out, expected)), strict=True):
        torch.testing.assert_close(one, other)


@settings(max_examples=40)
@given(st.integers(2, 100), st.integers(1, 60), st.booleans(), st.integers(0, 10**6))
def test_for_any_size_window_and_lengths(size: int, window: int, causal: bool, seed: int) -> None:
    q, k, v = draw(2, size, seed)
    lengths = torch.randint(1, size + 1, (2,), generator=torch.Generator().manual_seed(seed))
    pattern = Padded(lengths, size).pattern(Padded(lengths, size), causal, window)
    assert isinstance(pattern, LocalPattern) == (window < size - 1)
    expected, weights = by_mask(q, k, v, lengths, window, causal)
    real = Padded(lengths, size).not_padding
    torch.testing.assert_close(pattern.attend(q, k, v, 0.0)[real], expected[real])
    recording = RecordingPattern(Padded(lengths, size), Padded(lengths, size), causal, window)
    torch.testing.assert_close(recording.attend(q, k, v, 0.0), expected)
    torch.testing.assert_close(recording.weights[0], weights)


@pytest.mark.parametrize("causal", [False, True])
def test_packed_is_padded(causal: bool) -> None:
    lengths = torch.tensor([70, 1, 7, 40])
    padded, (q, k, v) = Padded(lengths, 70), draw(4, 70)
    packed = Packed.of(padded.positions.expand(4, 70), lengths).layout
    assert isinstance(packed, Packed)
    pattern = packed.pattern(packed, causal, window=4)
    real = padded.not_padding
    expected = padded.pattern(padded, causal, window=4).attend(q, k, v, 0.0)[real]
    torch.testing.assert_close(pattern.attend(q[real], k[real], v[real], 0.0), expected)
    # What the kernel is told of keys is what it is told of queries, the other way round, and bounds only grow.
    queries, keys = torch.arange(len(pattern.lo)), torch.arange(len(pattern.lo))
    seen = (pattern.lo[:, None] <= keys) & (keys < pattern.hi[:, None])
    assert torch.equal(seen.T, (pattern.first[:, None] <= queries) & (queries < pattern.last[:, None]))
    for bound in (pattern.lo, pattern.hi, pattern.first, pattern.last):
        assert (bound.diff() >= 0).all()


def test_what_fills_a_stream_up_still_sees_nothing() -> None:
    """Two sentences of 3 and 4 tokens in a stream of 12."""
    offsets = torch.tensor([0, 3, 7, 7, 7], dtype=torch.int32)
    rows = torch.tensor([0] * 3 + [1] * 4 + [3] * 5)
    stream = Packed(offsets, rows, torch.zeros(12, dtype=torch.long))
    q, k, v = (x[0].detach() for x in draw(1, 12))
    for causal in (False, True):
        out = stream.pattern(stream, causal, window=2).attend(q, k, v, 0.0)
        assert not out[7:].any() and (out[:7] != 0).all()


def test_a_cache_keeps_no_more_than_the_window_sees() -> None:
    q, k, v = (x.detach() for x in draw(2, 9))
    expected, _ = by_mask(q, k, v, torch.tensor([9, 9]), window=3, causal=True)
    past = KVCache.empty(2, 2, 4, like=q, window=3)
    for t in range(9):
        past = past.append(k[:, t : t + 1], v[:, t : t + 1])
        torch.testing.assert_close(past.attend(q[:, t : t + 1]), expected[:, t : t + 1])
        past = past.reorder(torch.zeros(2, 1, dtype=torch.long)).keep(torch.arange(2))
        assert past.length == t + 1 and past.keys.size(3) == min(t + 1, 4)


def test_nobody_is_reached_beyond_the_window() -> None:
    q, k, v = draw(1, 70)
    out = local_attention(q, k, v, torch.ones(1, 70, dtype=torch.bool), window=5)
    for i in (0, 30, 69):
        (gradient,) = torch.autograd.grad(out[0, i].sum(), v, retain_graph=True)
        touched = gradient.abs().sum((0, 2, 3)) > 0
        assert touched.tolist() == [abs(i - j) <= 5 for j in range(70)]


def test_dropout_falls_on_the_weights() -> None:
    torch.manual_seed(0)
    q, k, v = (x.detach().float() for x in draw(1, 70))
    real = torch.ones(1, 70, dtype=torch.bool)
    plain = local_attention(q, k, v, real, window=3)
    dropped = torch.stack([local_attention(q, k, v, real, window=3, dropout=0.5) for _ in range(1500)])
    assert not torch.allclose(dropped[0], plain)
    torch.testing.assert_close(dropped.mean(0), plain, atol=0.15, rtol=0)


def kernel_is_the_equation(device: str) -> None:
    """The interval kernel where the intervals are windows, with its gradients."""
    lengths = torch.tensor([70, 3, 1, 41])
    padded = Padded(lengths, 70)
    for causal in (False, True):
        q, k, v = (x.detach()[padded.not_padding].to(device, torch.float32).requires_grad_() for x in draw(4, 70))
        stream = Packed.of(padded.positions.expand(4, 70), lengths).layout
        assert isinstance(stream, Packed)
        stream = Packed(stream.offsets.to(device), stream.rows.to(device), stream.positions.to(device))
        pattern = stream.pattern(stream, causal, window=9)
        out = pattern.attend_stacked([x.flatten(1) for x in (q, k, v)], q.size(1), 0.0).view_as(q)
        places = torch.arange(len(q), device=device)
        mask = (pattern.lo[:, None] <= places) & (places < pattern.hi[:, None])
        exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
        heads = [x.transpose(0, 1) for x in exact]
        expected = attend(heads[0], heads[1], heads[2], mask)[0].transpose(0, 1)
        upstream = torch.randn(out.shape, device=device)
        found = [out, *torch.autograd.grad(out, (q, k, v), upstream)]
        wanted = [expected, *torch.autograd.grad(expected, exact, upstream.double())]
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one.double(), other, atol=1e-5, rtol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_kernel_takes_windows() -> None:
    kernel_is_the_equation("cuda")


@needs_triton
def test_interpreted_on_a_cpu_the_kernel_takes_windows() -> None:
    run_interpreted(__file__)


if __name__ == "__main__":
    patch_interpreter()
    kernel_is_the_equation("cpu")
