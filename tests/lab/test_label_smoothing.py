"""The expected calibration error equals its definition, bin by bin."""

import pytest
import torch

from regard.lab.experiments.label_smoothing import expected_calibration_error


def test_expected_calibration_error_is_the_sum_over_bins() -> None:
    generator = torch.Generator().manual_seed(0)
    p = torch.randn(500, 4, generator=generator, dtype=torch.float64).mul(2).softmax(dim=-1)
    labels = torch.randint(4, (500,), generator=generator)
    expected = 0.0
    for low in range(10):
        rows = [i for i in range(500) if low / 10 <= float(p[i].max()) < (low + 1) / 10]
        if rows:
            right = sum(int(p[i].argmax()) == int(labels[i]) for i in rows) / len(rows)
            expected += len(rows) / 500 * abs(right - sum(float(p[i].max()) for i in rows) / len(rows))
    assert expected_calibration_error(p, labels) == pytest.approx(expected)


def test_certain_and_right_is_calibrated() -> None:
    labels = torch.tensor([0, 1, 1])
    p = torch.nn.functional.one_hot(labels, 2).double()
    assert expected_calibration_error(p, labels) == 0
    assert expected_calibration_error(p, 1 - labels) == 1
