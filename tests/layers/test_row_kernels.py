"""The kernels between matrix products against plain torch: on a GPU as they are, on a CPU interpreted."""

import copy

import pytest
import torch
import torch.nn.functional as F
from tests.interpreted import needs_triton, patch_interpreter, run_interpreted
from torch import Tensor, nn

from regard.layers.norms import LayerNorm
from regard.layers.residual import PostNorm, PreNorm

SHAPES = [(5, 7), (130, 24), (3, 11, 64)]
DROPOUT = 0.3


def inputs(shape: tuple[int, ...], device: str) -> tuple[Tensor, ...]:
    torch.manual_seed(len(shape))
    return tuple(torch.randn(shape, device=device, requires_grad=True) for _ in range(2))


def gradients(out: Tensor, *tensors: Tensor) -> list[Tensor]:
    upstream = torch.linspace(-1, 2, out.numel(), device=out.device).view_as(out)
    return [out, *torch.autograd.grad(out, tensors, upstream)]


def agree(ours: list[Tensor], wanted: list[Tensor]) -> None:
    for one, other in zip(ours, wanted, strict=True):
        torch.testing.assert_close(one, other, atol=2e-4, rtol=2e-4)


def compare(device: str) -> None:
    from regard.layers import row_kernels

    for shape in SHAPES:
        x, y = inputs(shape, device)
        norm = LayerNorm(shape[-1]).to(device)
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
        weights = (norm.weight, norm.bias)
        agree(gradients(row_kernels.add_norm(x, None, norm, 0.0), x, *weights), gradients(norm(x), x, *weights))
        ours = gradients(row_kernels.add_norm(x, y, norm, 0.0), x, y, *weights)
        agree(ours, gradients(norm(x + y), x, y, *weights))
        linear = nn.Linear(shape[-1], 40).to(device)
        for activation in (F.relu, F.gelu):
            tensors = (x, linear.weight, linear.bias)
            ours = gradients(row_kernels.linear_activation(x, linear, activation is F.relu), *tensors)
            agree(ours, gradients(activation(linear(x)), *tensors))


def compare_dropout(device: str) -> None:
    """The mask of a dropped sum is the one of its gradient; with that mask the norm and its gradients are torch's."""
    from regard.layers import row_kernels

    x, y = inputs((600, 40), device)
    torch.manual_seed(3)
    out, _, dy = gradients(row_kernels.dropped_sum(x, y, DROPOUT), x, y)
    mask = (dy != 0) / (1 - DROPOUT)
    upstream = gradients(x, x)[1]
    agree([out, dy], [x + y * mask, upstream * mask])
    assert abs(float((mask > 0).float().mean()) - 1 + DROPOUT) < 0.02
    norm = LayerNorm(40).to(device)
    torch.manual_seed(3)
    ours = gradients(row_kernels.add_norm(x, y, norm, DROPOUT), x, y, norm.weight, norm.bias)
    agree(ours, gradients(norm(x + y * mask), x, y, norm.weight, norm.bias))
    torch.manual_seed(4)
    assert not torch.equal(row_kernels.add_norm(x, y, norm, DROPOUT), ours[0])


def compare_masks(device: str) -> None:
    """Elements are dropped independently: no row, column, pair of rows or of columns has more in common than chance."""
    from regard.layers import row_kernels

    rows, columns, dropout = 512, 256, 0.25
    y = torch.ones(rows, columns, device=device)
    torch.manual_seed(5)
    kept = (row_kernels.dropped_sum(torch.zeros_like(y), y, dropout) > 0).float()
    centred = (kept - (1 - dropout)) / (dropout * (1 - dropout)) ** 0.5
    assert abs(float(centred.mean())) < 5 / (rows * columns) ** 0.5
    for matrix in (centred, centred.T):
        count = matrix.size(1)
        correlation = matrix @ matrix.T / count
        off = correlation - torch.diag(correlation.diag())
        assert float(off.abs().max()) < 6 / count**0.5
        assert abs(float(off.square().mean() * count) - 1) < 0.05
    squares = centred[:-1, :-1] * centred[1:, :-1] * centred[:-1, 1:] * centred[1:, 1:]
    assert abs(float(squares.mean())) < 5 / squares.numel() ** 0.5


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_kernels_are_plain_torch() -> None:
    compare("cuda")
    compare_dropout("cuda")
    compare_masks("cuda")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", [PostNorm, PreNorm])
def test_on_a_gpu_a_residual_in_training_is_the_one_in_evaluation(kind: type[PostNorm] | type[PreNorm]) -> None:
    x, y = inputs((30, 64), "cuda")
    residual = kind(LayerNorm(64), 0.0).cuda()
    fused, plain = ((each.pre(x), each.post(x, y)) for each in (residual.train(), copy.deepcopy(residual).eval()))
    torch.testing.assert_close(fused, plain, atol=1e-5, rtol=1e-5)


@needs_triton
def test_interpreted_on_a_cpu_the_kernels_are_plain_torch() -> None:
    run_interpreted(__file__)


if __name__ == "__main__":
    patch_interpreter()
    compare("cpu")
    compare_dropout("cpu")
    compare_masks("cpu")
