"""The interval kernel against the equation: on a GPU as it is, on a CPU by triton's interpreter."""

import pytest
import torch
from tests.interpreted import needs_triton, patch_interpreter, run_interpreted
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.layouts import Packed, PackedPattern

CASES = [
    # dtype, tolerance, heads, head size, causal, to another stream
    (torch.float32, 1e-5, 2, 16, False, False),
    (torch.float32, 1e-5, 3, 24, True, False),
    (torch.float32, 1e-5, 2, 64, False, True),
    (torch.bfloat16, 4e-2, 4, 64, True, False),
    (torch.bfloat16, 4e-2, 1, 128, False, True),
]


def streams(device: str, other: bool) -> tuple[Packed, Packed]:
    """Sentences of very different lengths, and streams longer than their sentences."""
    torch.manual_seed(1)
    found = []
    for _ in range(2):
        lengths = torch.tensor([3, 1, 40, 7, 70, 2, 9])[torch.randperm(7)]
        filler = 5
        offsets = torch.cat([torch.zeros(1), lengths.cumsum(0), lengths.sum().repeat(2)]).to(torch.int32)
        rows = torch.repeat_interleave(torch.arange(7), lengths)
        positions = torch.arange(len(rows)) - offsets[rows]
        rows, positions = torch.cat([rows, torch.full((filler,), 8)]), torch.cat([positions, torch.zeros(filler)])
        found.append(Packed(offsets.to(device), rows.to(device), positions.long().to(device)))
    return found[0], found[1] if other else found[0]


def compare(
    device: str, dtype: torch.dtype, tolerance: float, heads: int, size: int, causal: bool, other: bool
) -> None:
    queries, keys = streams(device, other)
    pattern: PackedPattern = queries.pattern(keys, causal)
    # One matrix holds queries, keys and values, or keys and values, as a product for all of them leaves them.
    width = heads * size
    stacked = torch.randn(len(queries.rows), 3 * width, device=device, dtype=dtype)
    q, k, v = (x.unflatten(-1, (heads, size)).detach().requires_grad_() for x in stacked.chunk(3, dim=-1))
    rows: list[Tensor] = [stacked.requires_grad_()]
    if other:
        k, v = (torch.randn_like(x).requires_grad_() for x in (k, v))
        rows = [q.flatten(1).detach(), torch.cat([k.flatten(1), v.flatten(1)], 1).detach()]
        rows = [tensor.requires_grad_() for tensor in rows]
    out = pattern.attend_stacked([x.flatten(1) for x in (q, k, v)], heads, 0.0).unflatten(1, (heads, size))
    upstream = torch.randn_like(out)
    again = pattern.attend_stacked(rows, heads, 0.0)
    assert torch.equal(again, out.flatten(1))
    together = torch.cat(torch.autograd.grad(again, rows, upstream.flatten(1)), 1)
    places = torch.arange(len(k), device=device)
    mask = (pattern.lo[:, None] <= places) & (places < pattern.hi[:, None])
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    expected = attend(exact[0].transpose(0, 1), exact[1].transpose(0, 1), exact[2].transpose(0, 1), mask)[0].transpose(
        0, 1
    )
    found = [out, *torch.autograd.grad(out, (q, k, v), upstream)]
    wanted = [expected, *torch.autograd.grad(expected, exact, upstream.double())]
    assert torch.equal(together, torch.cat([gradient.flatten(1) for gradient in found[1:]], 1))
    for one, another in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), another, atol=tolerance, rtol=tolerance)
    assert not bool(out[-5:].any()), "what fills a stream up sees nothing"


def dropout_is_drawn_alike_forward_and_backward(device: str) -> None:
    from regard.attention.intervals import interval_attention

    queries, keys = streams(device, other=True)
    pattern = queries.pattern(keys)
    bounds = (pattern.lo, pattern.hi, pattern.first, pattern.last)
    seed = torch.tensor([5], device=device)
    q, k, v = (torch.randn(len(queries.rows), 1, 16, device=device, requires_grad=True) for _ in range(3))

    def out(v: Tensor, rate: float = 0.4) -> Tensor:
        return interval_attention([x.flatten(1) for x in (q, k, v)], 1, *bounds, seed, rate)[0]

    upstream = torch.randn(out(v).shape, device=device)
    (gradient,) = torch.autograd.grad(out(v), v, upstream)
    torch.testing.assert_close((gradient * v).sum(), (out(v) * upstream).sum(), rtol=1e-3, atol=1e-3)  # linear in v
    assert not torch.equal(out(v), out(v, 0.0))
    kept = out(torch.ones_like(v))[:-5].detach().mean()
    assert 0.8 < float(kept) < 1.2, "what is kept is scaled up so that the mean stays"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_on_a_gpu_it_is_the_equation(case: tuple[torch.dtype, float, int, int, bool, bool]) -> None:
    compare("cuda", *case)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_dropout_is_drawn_alike() -> None:
    dropout_is_drawn_alike_forward_and_backward("cuda")


@needs_triton
def test_interpreted_on_a_cpu_it_is_the_equation() -> None:
    run_interpreted(__file__)


if __name__ == "__main__":
    patch_interpreter()
    for case in CASES[:3]:
        compare("cpu", *case)
    dropout_is_drawn_alike_forward_and_backward("cpu")
