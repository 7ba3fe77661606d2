"""The mathematical helpers of the experiments on foundations, against independent computations."""

import math

import pytest
import torch
from torch.autograd.functional import jacobian

from regard.lab.experiments.autodiff import Cost, build_weights, forward_mode, reverse_mode
from regard.lab.experiments.perplexity import means
from regard.lab.experiments.zipf import slope
from regard.lab.toys import generator_of


@pytest.mark.parametrize("mode", [forward_mode, reverse_mode])
def test_modes_of_differentiation_agree_with_torch(mode) -> None:
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
    assert slope(counts) == pytest.approx(-1.1)  # type: ignore[arg-type]
    assert math.isclose(slope([7] * 2000), 0, abs_tol=1e-12)
