"""Weights by name: weights that cannot be used."""

import pytest
import torch
from torch import nn

from regard.errors import UserError
from regard.training.weights import load_weights, weights_of


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_weights_that_are_not_finite_are_refused(value: float, dtype: torch.dtype) -> None:
    model = nn.Linear(3, 2)
    weights = {name: tensor.to(dtype) for name, tensor in weights_of(model).items()}
    before = weights_of(model)
    weights["bias"][1] = value
    with pytest.raises(UserError) as error:
        load_weights(model, weights, "file")
    assert (error.value.code, error.value.where) == ("not-finite", "file:bias")
    assert all(torch.equal(before[name], tensor) for name, tensor in weights_of(model).items()), "nothing was loaded"


def test_large_finite_weights_are_loaded() -> None:
    model = nn.Linear(3, 2)
    load_weights(model, {"weight": torch.full((2, 3), 3e38), "bias": torch.zeros(2)}, "file")
    assert model.weight.min() == torch.tensor(3e38), "their sum is infinite"


def test_weights_of_another_type_are_refused() -> None:
    for tensor in (torch.zeros(2, dtype=torch.int64), torch.zeros(2, dtype=torch.complex64), torch.zeros(3)):
        with pytest.raises(UserError) as error:
            load_weights(nn.Linear(3, 2), {"weight": torch.zeros(2, 3), "bias": tensor}, "file")
        assert (error.value.code, error.value.where) == ("other-model", "file")
