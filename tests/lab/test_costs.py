"""Costs of a computation: exact where they can be."""

import pytest
import torch

from regard.lab.costs import exponent, fastest, longest_chain, saved_bytes, time_ratio


@pytest.mark.parametrize("power", [-1.0, 0.0, 1.5, 2.0])
def test_exponent_of_a_power_law(power: float) -> None:
    xs = [2.0, 3.0, 7.0, 20.0]
    assert exponent(xs, [5 * x**power for x in xs]) == pytest.approx(power)


def test_exponent_is_the_slope_of_least_squares() -> None:
    xs, ys = torch.tensor([1.0, 2.0, 4.0, 9.0]), torch.tensor([3.0, 5.0, 4.0, 30.0])
    design = torch.stack([xs.log(), torch.ones(4)], dim=1)
    slope = torch.linalg.lstsq(design, ys.log()[:, None]).solution[0, 0]
    assert exponent(xs.tolist(), ys.tolist()) == pytest.approx(float(slope), rel=1e-5)


def test_saved_bytes_counts_every_tensor_once() -> None:
    x, y = (torch.ones(10, requires_grad=True) for _ in range(2))
    assert saved_bytes(lambda: x * y) == 2 * 10 * 4
    assert saved_bytes(lambda: x * x) == 10 * 4
    assert saved_bytes(lambda: x + y) == 0


def test_time_is_positive() -> None:
    assert fastest(lambda: torch.ones(3).sum(), repeats=2) > 0


def test_twice_the_work_takes_longer() -> None:
    x = torch.ones(200, 200)
    assert time_ratio(lambda: [x @ x for _ in range(20)], lambda: x @ x) > 2


def test_longest_chain_counts_operations_in_sequence() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x
    for _ in range(5):
        y = y.sin() + x.exp()
    assert longest_chain(y) - longest_chain(x.sin()) == 9  # five sines and five sums against one sine
    assert longest_chain(x.detach()) == 0
