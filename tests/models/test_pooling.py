"""One vector for an input, by each way of pooling: as it is written in a loop, whatever the layout, and to learn by."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.layouts import Packed, Padded
from regard.models.pooling import POOLERS, AttentivePooler, Pooler, segment_softmax

D, T = 6, 7
LENGTHS = torch.tensor([7, 3, 1, 5])
REAL = torch.arange(T) < LENGTHS[:, None]


def build(pooling: str) -> Pooler:
    torch.manual_seed(0)
    pooler = POOLERS[pooling](D).double()
    for parameter in pooler.parameters():
        torch.nn.init.normal_(parameter)
    return pooler


def vectors() -> Tensor:
    return torch.randn(4, T, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def stream(h: Tensor, sentences: int, size: int) -> tuple[Tensor, Packed]:
    """h packed into a stream with room for more; what fills it up is as loud as it can be."""
    layout = Packed.of(torch.zeros(4, T), LENGTHS).layout
    assert isinstance(layout, Packed)
    count = int(LENGTHS.sum())
    offsets = F.pad(layout.offsets, (0, sentences - 4), value=count)
    rows, positions = F.pad(layout.rows, (0, size - count), value=sentences - 1), F.pad(layout.positions, (0, 9))
    return F.pad(h[REAL], (0, 0, 0, size - count), value=1e6), Packed(offsets, rows, positions)


def by_hand(pooler: Pooler, pooling: str, h: Tensor) -> Tensor:
    """Token by token, over the real ones (L, D) -> (D,)."""
    if pooling == "first":
        return h[0]
    if pooling == "last":
        return h[len(h) - 1]
    if pooling == "mean":
        return torch.stack([sum((token[d] for token in h), torch.tensor(0.0)) / len(h) for d in range(D)])
    if pooling == "max":
        return torch.stack([max(h[:, d].unbind(), key=Tensor.item) for d in range(D)])
    if pooling == "concat":
        return torch.cat([by_hand(pooler, part, h) for part in ("last", "max", "mean")])
    assert isinstance(pooler, AttentivePooler)
    grown = [(pooler.query @ (pooler.key.weight @ token + pooler.key.bias).tanh()).exp() for token in h]
    total = sum(grown, torch.tensor(0.0))
    return torch.stack([e / total * token for e, token in zip(grown, h, strict=True)]).sum(0)


def with_gradients(pooler: Pooler, h: Tensor, pool: Callable[[Tensor], Tensor]) -> tuple[Tensor, list[Tensor]]:
    h = h.clone().requires_grad_()
    s = pool(h)
    mix = torch.randn(s.shape, dtype=s.dtype, generator=torch.Generator().manual_seed(2))
    return s.detach(), list(torch.autograd.grad((s * mix).sum(), [h, *pooler.parameters()]))


@pytest.mark.parametrize("pooling", POOLERS)
def test_pooling_is_what_its_loop_says_with_its_gradient(pooling: str) -> None:
    pooler, h = build(pooling), vectors()
    expected, slopes = with_gradients(
        pooler,
        h,
        lambda h: torch.stack([by_hand(pooler, pooling, h[b, :length]) for b, length in enumerate(LENGTHS.tolist())]),
    )
    s, found = with_gradients(pooler, h, lambda h: pooler(h, Padded(LENGTHS, T)))
    torch.testing.assert_close(s, expected)
    torch.testing.assert_close(found, slopes)


@pytest.mark.parametrize("sentences", [5, 8])
@pytest.mark.parametrize("size", [16, 25])
@pytest.mark.parametrize("pooling", POOLERS)
def test_a_stream_is_pooled_as_rows_are_with_the_same_gradient(pooling: str, size: int, sentences: int) -> None:
    pooler, h = build(pooling), vectors()
    expected, slopes = with_gradients(pooler, h, lambda h: pooler(h, Padded(LENGTHS, T)))

    def packed(h: Tensor) -> Tensor:
        pooled = pooler(*stream(h, sentences, size))
        assert pooled.shape == (sentences, pooler.parts * D) and pooled.isfinite().all()
        return pooled[:4]

    s, found = with_gradients(pooler, h, packed)
    torch.testing.assert_close(s, expected)
    torch.testing.assert_close(found, slopes)


@pytest.mark.parametrize("pooling", POOLERS)
def test_padding_is_not_heard(pooling: str) -> None:
    pooler, h = build(pooling), vectors()
    loud = torch.where(REAL[..., None], h, 1e6).requires_grad_()
    s = pooler(loud, Padded(LENGTHS, T))
    torch.testing.assert_close(s, pooler(h, Padded(LENGTHS, T)))
    (slope,) = torch.autograd.grad(s.sum(), loud)
    assert slope[~REAL].abs().max() == 0 and slope[REAL].abs().sum() > 0


def test_of_equal_tokens_each_has_its_share_of_the_largest() -> None:
    """Also where the gradient is negative, and in both layouts alike."""
    pooler, share = POOLERS["max"](D), torch.where(REAL, 1 / LENGTHS.double()[:, None], 0.0)[..., None]
    for packed in (True, False):
        h = torch.zeros(4, T, D, dtype=torch.float64, requires_grad=True)
        s = pooler(*stream(h, 6, 20))[:4] if packed else pooler(h, Padded(LENGTHS, T))
        (slope,) = torch.autograd.grad(-s.sum(), h)
        torch.testing.assert_close(slope, -share.expand_as(h))


def test_weights_are_distributions_however_far_apart_the_scores() -> None:
    scores = torch.tensor([[1000.0, -1000.0, 999.0, 0.0], [-1e5, -1e5, 0.0, 0.0]])
    weights = segment_softmax(scores, Padded(torch.tensor([3, 2]), 4))
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(2))
    torch.testing.assert_close(weights[0, :3], scores[0, :3].softmax(dim=0))
    torch.testing.assert_close(weights[1], torch.tensor([0.5, 0.5, 0.0, 0.0]))


@pytest.mark.parametrize("pooling", POOLERS)
def test_half_precision_adds_up_in_full(pooling: str) -> None:
    """A sum of 4,096 ones in 16 bits ends at 2,048, or in bf16, which some CPUs cannot compute in, at 256."""
    h, pooler = torch.ones(1, 4096, D, dtype=torch.float16), build(pooling).float()
    layout = Packed(torch.tensor([0, 4096], dtype=torch.int32), torch.zeros(4096).long(), torch.arange(4096))
    with torch.autocast("cpu", torch.float16):
        for s in (pooler(h, Padded(torch.tensor([4096]), 4096)), pooler(h[0], layout)):
            assert s.dtype == torch.float16
            torch.testing.assert_close(s, torch.ones(1, pooler.parts * D, dtype=torch.float16))
