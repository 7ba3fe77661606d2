"""The mathematical helpers of the experiments on foundations, against independent computations."""

import math
from collections.abc import Callable

import pytest
import torch
from torch.autograd.functional import jacobian

from regard.lab.experiments.autodiff import Cost, build_weights, forward_mode, reverse_mode
from regard.lab.experiments.batch_size import Adam, Sgd, best_rate
from regard.lab.experiments.lasso_ridge import lasso, ridge
from regard.lab.experiments.perplexity import means
from regard.lab.experiments.zipf import slope
from regard.lab.toys import generator_of


@pytest.mark.parametrize("mode", [forward_mode, reverse_mode])
def test_modes_of_differentiation_agree_with_torch(mode: Callable[..., torch.Tensor]) -> None:
    weights = build_weights(5, 3, 4, generator_of(1))
    x = torch.randn(5, generator=generator_of(2), dtype=torch.float64)

    def network(x: torch.Tensor) -> torch.Tensor:
        for matrix in weights:
            x = torch.tanh(matrix @ x)
        return x

    torch.testing.assert_close(mode(weights, x, Cost()), jacobian(network, x))


def test_means_of_the_number_of_choices() -> None:
    found = means(torch.tensor([0.5, 0.1, 0.9, 0.02], dtype=torch.float64))
    assert found["geometric"] == pytest.approx((2 * 10 / 0.9 * 50) ** 0.25)
    assert found["harmonic"] == pytest.approx(4 / 1.52)
    assert found["arithmetic"] == pytest.approx((2 + 10 + 1 / 0.9 + 50) / 4)


def test_slope_of_an_exact_law() -> None:
    counts = [10**9 / rank**1.1 for rank in range(1, 2000)]
    assert slope(counts) == pytest.approx(-1.1)
    assert math.isclose(slope([7] * 2000), 0, abs_tol=1e-12)


def test_lasso_meets_the_conditions_of_a_minimum() -> None:
    random = generator_of(3)
    x, y = (torch.randn(shape, generator=random, dtype=torch.float64) for shape in ((30, 6), (30,)))
    weights = lasso(x, y, 8.0)
    gradient = 2 * x.T @ (x @ weights - y)
    zero = weights == 0
    assert 0 < zero.sum() < 6
    assert (gradient[zero].abs() <= 8).all()
    torch.testing.assert_close(gradient[~zero], -8 * weights[~zero].sign())


def test_ridge_is_least_squares_with_one_more_example_for_each_weight() -> None:
    random = generator_of(4)
    x, y = (torch.randn(shape, generator=random, dtype=torch.float64) for shape in ((10, 6), (10,)))
    rows = torch.cat([x, 3.0**0.5 * torch.eye(6, dtype=torch.float64)])
    expected = torch.linalg.lstsq(rows, torch.cat([y, y.new_zeros(6)])[:, None]).solution[:, 0]
    torch.testing.assert_close(ridge(x, y, 3.0), expected)


@pytest.mark.parametrize(("ours", "theirs"), [(Sgd, torch.optim.SGD), (Adam, torch.optim.Adam)], ids=["sgd", "adam"])
def test_optimizers_for_several_rates_agree_with_torch(
    ours: type[Sgd] | type[Adam], theirs: type[torch.optim.SGD] | type[torch.optim.Adam]
) -> None:
    gradients = torch.randn(5, 3, generator=generator_of(5), dtype=torch.float64)
    rates = [0.1, 0.01]
    optimizer, found = ours(torch.tensor(rates, dtype=torch.float64)), torch.zeros(2, 3, dtype=torch.float64)
    for gradient in gradients:
        found = found + optimizer.step(gradient.expand(2, 3))
    for rate, row in zip(rates, found, strict=True):
        weights = torch.zeros(3, dtype=torch.float64, requires_grad=True)
        reference = theirs([weights], lr=rate)
        for gradient in gradients:
            weights.grad = gradient.clone()
            reference.step()
        torch.testing.assert_close(row, weights.detach())


def test_the_best_rate_of_a_parabola() -> None:
    rates = [2.0**power for power in range(-6, 3)]
    errors = [math.exp((math.log(rate) - math.log(0.2)) ** 2) for rate in rates]
    assert best_rate(rates, errors) == pytest.approx(0.2)
