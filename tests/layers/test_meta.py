"""Modules without values: nothing is initialised, no random number is used, constants are kept."""

import torch
from torch import Tensor, nn

from regard.layers.meta import allocate, on_meta
from regard.layers.recurrent import RecurrentLayer


class Part(nn.Module):
    """A module with a weight, a frozen weight, a constant, and a buffer that is loaded."""

    constant: Tensor
    loaded: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.frozen = nn.Parameter(nn.init.normal_(torch.empty(4)), requires_grad=False)
        self.register_buffer("constant", torch.tensor([1.0, 2.0], device="cpu"))
        self.register_buffer("loaded", torch.zeros(3, dtype=torch.long))


def test_tensors_have_shapes_and_no_values() -> None:
    with on_meta():
        part = Part()
    assert part.linear.weight.is_meta and part.linear.weight.shape == (2, 3)
    assert part.frozen.is_meta and part.loaded.is_meta
    assert part.constant.tolist() == [1.0, 2.0]


def test_no_random_number_is_used() -> None:
    before = torch.get_rng_state()
    with on_meta():
        Part(), RecurrentLayer("lstm", 3, 4)
    assert torch.equal(before, torch.get_rng_state())


def test_modules_are_initialised_again_afterwards() -> None:
    with on_meta():
        Part()
    weight = nn.init.constant_(torch.empty(3), 2.0)
    assert weight.tolist() == [2.0, 2.0, 2.0] and weight.zero_().tolist() == [0.0, 0.0, 0.0]


def test_a_tensor_with_values_can_be_filled_meanwhile() -> None:
    with on_meta():
        filled = torch.empty(2, device="cpu").fill_(3.0)
    assert filled.tolist() == [3.0, 3.0]


def test_allocated_tensors_are_on_the_cpu_and_constants_are_kept() -> None:
    with on_meta():
        part = Part()
    constant = part.constant
    assert allocate(part) is part
    assert {tensor.device.type for tensor in part.state_dict().values()} == {"cpu"}
    assert part.linear.weight.shape == (2, 3) and part.linear.weight.requires_grad
    assert part.frozen.shape == (4,) and not part.frozen.requires_grad
    assert part.loaded.dtype == torch.long
    assert part.constant is constant and constant.tolist() == [1.0, 2.0]


def test_a_recurrent_layer_computes_with_loaded_weights() -> None:
    trained = RecurrentLayer("gru", 3, 4)
    with on_meta():
        loaded = RecurrentLayer("gru", 3, 4)
    allocate(loaded).load_state_dict(trained.state_dict())
    x = torch.randn(2, 5, 3)
    assert torch.equal(trained.weights(x)[0], loaded.weights(x)[0])
