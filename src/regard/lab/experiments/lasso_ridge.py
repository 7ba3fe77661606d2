"""Lasso and ridge: a penalty against overfitting; L1 makes weights exactly zero, L2 only small.

    lasso   min_w  sum_i (w . x_i - y_i)^2 + lambda ||w||_1
    ridge   min_w  sum_i (w . x_i - y_i)^2 + lambda ||w||_2^2

The slope of w^2 vanishes at 0, so ridge shrinks a small weight less and less and never to 0: w = (X^T X + lambda I)^-1
X^T y. The slope of |w| is 1 however small w is, so lasso sets a weight to exactly 0 as soon as the data gain less than
lambda from it. Coordinate descent solves for one weight at a time, with r the residual without feature j:

    w_j = S(x_j . r, lambda / 2) / x_j . x_j,      S(a, t) = sign(a) max(|a| - t, 0)

The data are 30 examples of 20 features, of which four have an effect.
"""

from statistics import fmean

import torch
from torch import Tensor

from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import generator_of

EXAMPLES, FEATURES, USED, NOISE = 30, 20, 4, 2.0
LASSO, RIDGE = "lasso", "ridge"
STRENGTHS = (0.01, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


def ridge(x: Tensor, y: Tensor, strength: float) -> Tensor:
    """The weights that minimise the squared error plus `strength` times the sum of their squares."""
    return torch.linalg.solve(x.T @ x + strength * torch.eye(x.size(1), dtype=x.dtype), x.T @ y)


def lasso(x: Tensor, y: Tensor, strength: float, rounds: int = 300) -> Tensor:
    """The weights that minimise the squared error plus `strength` times the sum of their sizes."""
    weights = torch.zeros(x.size(1), dtype=x.dtype)
    squares, residual = x.square().sum(dim=0), y.clone()
    for _ in range(rounds):
        for j, column in enumerate(x.T):
            gain = column @ residual + squares[j] * weights[j]
            new = gain.sign() * (gain.abs() - strength / 2).clamp(min=0) / squares[j]
            residual += column * (weights[j] - new)
            weights[j] = new
    return weights


def sample(generator: torch.Generator, weights: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Random features, and the target with noise."""
    x = torch.randn(size, FEATURES, generator=generator, dtype=torch.float64)
    return x, x @ weights + NOISE * torch.randn(size, generator=generator, dtype=torch.float64)


def measure(seed: int, effort: Effort, record: Record) -> None:
    random = generator_of(seed, "data")
    truth = torch.zeros(FEATURES, dtype=torch.float64)
    truth[:USED] = torch.tensor([3.0, -2.0, 2.0, -1.5], dtype=torch.float64)
    x, y = sample(random, truth, EXAMPLES)
    new_x, new_y = sample(random, truth, 5000)
    for name, solve in ((LASSO, lasso), (RIDGE, ridge)):
        errors: dict[float, tuple[float, Tensor]] = {}
        for strength in STRENGTHS:
            weights = solve(x, y, strength)
            errors[strength] = float((new_x @ weights - new_y).square().mean()), weights
            record("zeros", name, strength, int((weights == 0).sum()))
            record("error", name, strength, errors[strength][0])
        _, weights = min(errors.values(), key=lambda result: result[0])
        record("found", name, "used", int((weights[:USED] == 0).sum()))
        record("found", name, "unused", int((weights[USED:] == 0).sum()))


def judge(results: Results) -> Verdict:
    errors = {name: [results.values("error", name, x) for x in STRENGTHS] for name in (LASSO, RIDGE)}
    best = {name: [min(seed) for seed in zip(*values, strict=True)] for name, values in errors.items()}
    lower = all(a > b for name in errors for a, b in zip(errors[name][0], best[name], strict=True))
    ridge_zeros = any(max(results.values("zeros", RIDGE, x)) for x in STRENGTHS)
    unused = results.values("found", LASSO, "unused")
    return Verdict(
        decide(lower and not ridge_zeros and above(unused, [0]), not lower or ridge_zeros),
        {"useless": FEATURES - USED, "lowest": fmean(best[LASSO])},
    )
