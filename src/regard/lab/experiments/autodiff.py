"""Forward and reverse mode of automatic differentiation: what each costs, and what each must keep.

A network is a chain y = f_L(... f_1(x)), x with n and y with m numbers. Its Jacobian J = J_L ... J_1 is (m, n).

    forward mode   carries v_k = J_k v_{k-1} along with the value. One pass gives J v: one column of J for v = e_j.
                   All of J needs n passes. Only the current value and its tangent are kept.
    reverse mode   computes all values first, then carries g_{k-1} = g_k J_k back. One pass gives g J: one row of J.
                   All of J needs m passes back. J_k depends on the value at layer k, so every value is kept.

A loss is one number, m = 1, of very many weights: reverse mode gives the whole gradient for about the price of a second
evaluation, and pays with memory. `detach` takes a value out of the graph: the derivative stops there. With u = x x,
the derivative of u x is 3 x^2, that of detach(u) x is u = x^2.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.lab.experiment import Effort, Record, Results, Verdict, decide
from regard.lab.toys import generator_of

WIDTH, DEPTH = 16, 4
SIZES = (1, 4, 16, 64, 256)
DEPTHS = (2, 4, 8, 16, 32)


@dataclass
class Cost:
    """Multiplications by weights, and the most numbers that are kept at one time."""

    multiplications: int = 0
    kept: int = 0


def build_weights(inputs: int, outputs: int, depth: int, random: torch.Generator) -> list[Tensor]:
    """The matrices of a network with tanh after each of them."""
    sizes = [inputs, *[WIDTH] * (depth - 1), outputs]
    shapes = zip(sizes[1:], sizes[:-1], strict=True)
    return [torch.randn(shape, generator=random, dtype=torch.float64) / shape[1] ** 0.5 for shape in shapes]


def forward_mode(weights: list[Tensor], x: Tensor, cost: Cost) -> Tensor:
    """The Jacobian (m, n), a column in each pass."""
    columns = []
    for tangent in torch.eye(len(x), dtype=x.dtype):
        value = x
        for matrix in weights:
            value = torch.tanh(matrix @ value)
            tangent = (1 - value**2) * (matrix @ tangent)
            cost.multiplications += 2 * matrix.numel()
            cost.kept = max(cost.kept, value.numel() + tangent.numel())
        columns.append(tangent)
    return torch.stack(columns, dim=1)


def reverse_mode(weights: list[Tensor], x: Tensor, cost: Cost) -> Tensor:
    """The Jacobian (m, n), a row in each pass back."""
    values = [x]
    for matrix in weights:
        values.append(torch.tanh(matrix @ values[-1]))
        cost.multiplications += matrix.numel()
    rows = []
    for gradient in torch.eye(len(values[-1]), dtype=x.dtype):
        for matrix, value in zip(reversed(weights), reversed(values), strict=False):
            gradient = (gradient * (1 - value**2)) @ matrix
            cost.multiplications += matrix.numel()
            cost.kept = max(cost.kept, sum(len(value) for value in values) + len(gradient))
        rows.append(gradient)
    return torch.stack(rows)


def derivative(x: Tensor, detach: bool) -> Tensor:
    """The derivative of the sum of u x, u = x x, with u in the graph or not."""
    x = x.clone().requires_grad_()
    u = x * x
    ((u.detach() if detach else u) * x).sum().backward()
    assert x.grad is not None
    return x.grad


def measure(seed: int, effort: Effort, record: Record) -> None:
    random = generator_of(seed, "weights")
    for mode, jacobian in (("forward", forward_mode), ("reverse", reverse_mode)):
        for size in SIZES:
            for panel, inputs, outputs in (("inputs", size, 1), ("outputs", 1, size)):
                cost, weights = Cost(), build_weights(inputs, outputs, DEPTH, random)
                jacobian(weights, torch.randn(inputs, generator=random, dtype=torch.float64), cost)
                record(panel, mode, size, cost.multiplications)
        for depth in DEPTHS:
            cost, weights = Cost(), build_weights(WIDTH, 1, depth, random)
            jacobian(weights, torch.randn(WIDTH, generator=random, dtype=torch.float64), cost)
            record("kept", mode, depth, cost.kept)
    x = torch.arange(4.0)
    for series, detach in (("u x", False), ("detach(u) x", True)):
        for point, value in zip(x.tolist(), derivative(x, detach).tolist(), strict=True):
            record("detach", series, point, value)


def judge(results: Results) -> Verdict:
    forward, reverse = ([results.mean("kept", mode, depth) for depth in DEPTHS] for mode in ("forward", "reverse"))
    slower = results.mean("inputs", "forward", SIZES[-1]) / results.mean("inputs", "reverse", SIZES[-1])
    outputs = results.mean("outputs", "reverse", SIZES[-1]) / results.mean("outputs", "forward", SIZES[-1])
    deeper, growth = DEPTHS[-1] / DEPTHS[0], forward[-1] / forward[0]
    return Verdict(
        decide(slower > 2 and growth > deeper / 2, slower < 2 or growth < 1.5),
        {
            "size": SIZES[-1], "slower": slower, "reversed": outputs, "deeper": deeper,
            "forward": growth, "reverse": reverse[-1] / reverse[0],
        },
    )  # fmt: skip
