"""The tape and the dual numbers: derivatives equal to torch's in float64, costs as counted, detach and no_grad."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.groundwork.equations import attention, layer_norm, log_softmax, new_weights, tagging_loss
from regard.groundwork.tape import (
    Array,
    Dual,
    Tape,
    Variable,
    forward_derivative,
    forward_gradient,
    reverse_gradient,
)

SIZES = {"vocabulary": 7, "length": 5, "width": 8, "inner": 12, "classes": 3, "layers": 2}
HEADS = 2


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).normal(size=shape)


def torch_gradient(f: Callable[..., Tensor], *inputs: Array) -> list[Array]:
    variables = [torch.tensor(x, requires_grad=True) for x in inputs]
    f(*variables).sum().backward()
    return [torch.zeros_like(x).numpy() if x.grad is None else x.grad.numpy() for x in variables]


def assert_equal(found: list[Array], expected: list[Array], tolerance: float = 1e-12) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


PROGRAMS: dict[str, tuple[Callable[..., Variable], Callable[..., Tensor], list[Array]]] = {
    "add": (lambda a, b: a + b, lambda a, b: a + b, [normal(3, 1, 4), normal(2, 1)]),
    "constants": (lambda a: 2.0 * a - 3.0 + a / 4.0, lambda a: 2 * a - 3 + a / 4, [normal(3)]),
    "divide": (lambda a, b: a / b, lambda a, b: a / b, [normal(3, 4), normal(4) ** 2 + 1]),
    "matmul": (lambda a, b: a @ b, lambda a, b: a @ b, [normal(2, 3, 4), normal(4, 5)]),
    "twice": (lambda a: a * a * a + a, lambda a: a**3 + a, [normal(4)]),
    "functions": (
        lambda a: (a.exp() + 1.0).log() * a.tanh() + a.relu(),
        lambda a: (a.exp() + 1).log() * a.tanh() + a.relu(),
        [normal(3, 5)],
    ),
    "sums": (
        lambda a: a.sum(1) * a.mean((0, 2)) * a.mean(),
        lambda a: a.sum(1, keepdim=True) * a.mean((0, 2), keepdim=True) * a.mean(),
        [normal(2, 3, 4)],
    ),
    "shapes": (
        lambda a: a.reshape(2, 3, 4).transpose(2, 0, 1) * normal(4, 2, 3),
        lambda a: a.reshape(2, 3, 4).permute(2, 0, 1) * torch.tensor(normal(4, 2, 3)),
        [normal(6, 4)],
    ),
    "rows": (
        lambda a: a[np.array([[0, 2], [2, 2]])] * normal(2, 2, 3),
        lambda a: a[torch.tensor([[0, 2], [2, 2]])] * torch.tensor(normal(2, 2, 3)),
        [normal(4, 3)],
    ),
    "softmax": (
        lambda a: log_softmax(a) * normal(3, 4, seed=1),
        lambda a: a.log_softmax(-1) * torch.tensor(normal(3, 4, seed=1)),
        [1000 * normal(3, 4)],
    ),
    "layer norm": (
        lambda a, g, b: layer_norm(a, g, b) * normal(3, 6, seed=1),
        lambda a, g, b: F.layer_norm(a, (6,), g, b) * torch.tensor(normal(3, 6, seed=1)),
        [normal(3, 6), normal(6), normal(6, seed=2)],
    ),
    "attention": (
        lambda q, k, v: attention(q, k, v) * normal(2, 4, 3, seed=9),
        lambda q, k, v: attend(q, k, v)[0] * torch.tensor(normal(2, 4, 3, seed=9)),
        [normal(2, 4, 3), normal(2, 5, 3), normal(2, 5, 3, seed=2)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_equal_torch(name: str) -> None:
    ours, theirs, inputs = PROGRAMS[name]
    expected = torch_gradient(theirs, *inputs)
    assert_equal(reverse_gradient(lambda *x: ours(*x).sum(), *inputs), expected)
    assert_equal(forward_gradient(lambda *x: ours(*x).sum(), *inputs), expected)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # in torch.func
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_tangents_equal_torch(name: str) -> None:
    ours, theirs, inputs = PROGRAMS[name]
    tangents = [normal(*x.shape, seed=5) for x in inputs]
    value, tangent, *_ = torch.func.jvp(theirs, tuple(map(torch.tensor, inputs)), tuple(map(torch.tensor, tangents)))
    np.testing.assert_allclose(ours(*map(Variable, inputs)).value, value.numpy(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(forward_derivative(ours, inputs, tangents), tangent.numpy(), rtol=1e-11, atol=1e-11)


def torch_loss(ids: Tensor, labels: Tensor, w: dict[str, Tensor]) -> Tensor:
    """The Transformer of torch.nn with the same weights: an independent implementation."""
    width = SIZES["width"]
    x = F.embedding(ids, w["words"]) + w["positions"]
    for n in range(SIZES["layers"]):
        layer = nn.TransformerEncoderLayer(
            width, HEADS, SIZES["inner"], dropout=0.0, batch_first=True, dtype=torch.float64
        )
        stacked = torch.cat([w[f"{n}.{part}"].T for part in "qkv"])
        values = {
            "self_attn.in_proj_weight": stacked, "self_attn.out_proj.weight": w[f"{n}.o"].T,
            "self_attn.in_proj_bias": x.new_zeros(3 * width), "self_attn.out_proj.bias": x.new_zeros(width),
            "linear1.weight": w[f"{n}.up"].T, "linear1.bias": w[f"{n}.up_bias"],
            "linear2.weight": w[f"{n}.down"].T, "linear2.bias": w[f"{n}.down_bias"],
            "norm1.weight": w[f"{n}.gain_1"], "norm1.bias": w[f"{n}.bias_1"],
            "norm2.weight": w[f"{n}.gain_2"], "norm2.bias": w[f"{n}.bias_2"],
        }  # fmt: skip
        x = torch.func.functional_call(layer, values, (x,))
    return F.cross_entropy((x @ w["output"] + w["output_bias"]).flatten(0, 1), labels.flatten())


def transformer_program() -> tuple[dict[str, Array], Callable[..., Variable], list[Array], float]:
    """Weights, the loss as a function of them, and torch's gradients and loss."""
    weights = new_weights(**SIZES)
    random = np.random.default_rng(1)
    ids, labels = random.integers(0, 7, (3, 5)), random.integers(0, 3, (3, 5))
    variables = {name: torch.tensor(x, requires_grad=True) for name, x in weights.items()}
    loss = torch_loss(torch.tensor(ids), torch.tensor(labels), variables)
    loss.backward()
    expected = [x.grad.numpy() for x in variables.values() if x.grad is not None]

    def program(*values: Variable) -> Variable:
        return tagging_loss(ids, labels, dict(zip(weights, values, strict=True)), SIZES["layers"], HEADS)

    return weights, program, expected, float(loss.detach())


def test_a_transformer_has_torchs_loss_and_gradients() -> None:
    weights, program, expected, loss = transformer_program()
    assert program(*map(Variable, weights.values())).value.item() == pytest.approx(loss, abs=1e-13)
    assert_equal(reverse_gradient(program, *weights.values()), expected, 1e-10)


def test_tangents_of_a_transformer_are_products_with_its_gradient() -> None:
    weights, program, expected, _ = transformer_program()
    tangents = [normal(*x.shape, seed=7) for x in weights.values()]
    product = sum((g * t).sum() for g, t in zip(expected, tangents, strict=True))
    assert forward_derivative(program, list(weights.values()), tangents).item() == pytest.approx(product, abs=1e-10)


def test_reverse_mode_needs_one_walk_and_forward_mode_an_evaluation_for_each_input() -> None:
    x, evaluations = normal(3, 4), 0

    def program(a: Variable) -> Variable:
        nonlocal evaluations
        evaluations += 1
        return (a * a).exp().sum().log()

    assert_equal(reverse_gradient(program, x), forward_gradient(program, x))
    assert evaluations == 1 + x.size
    tape = Tape()
    tape.gradients(program(tape.variable(x)))
    assert tape.pulls == len(tape.steps) == 4


def test_detach_stops_the_derivative() -> None:
    """The example of every course: u = x x, and the derivative of u x is 3 x^2, that of detach(u) x is x^2."""
    x = np.arange(4.0)
    assert_equal(reverse_gradient(lambda a: (a * a * a).sum(), x), [3 * x**2])
    assert_equal(reverse_gradient(lambda a: ((a * a).detach() * a).sum(), x), [x**2])
    assert_equal(forward_gradient(lambda a: ((a * a).detach() * a).sum(), x), [x**2])


def test_a_tape_keeps_every_value_and_no_grad_keeps_nothing() -> None:
    kept = []
    for steps in (1, 2, 4, 8):
        tape = Tape()
        x = tape.variable(normal(10))
        y: Variable = x
        for _ in range(steps):
            y = y.tanh()
        kept.append(tape.kept_bytes)
        with tape.no_grad():
            after = y.exp().tanh()
        assert tape.kept_bytes == kept[-1] and not isinstance(after, Dual) and tape.recording
        assert_equal(tape.gradients(after.sum(), x), [np.zeros(10)])
    assert kept == [80 * (steps + 1) for steps in (1, 2, 4, 8)]


def test_a_gradient_is_that_of_one_number() -> None:
    tape = Tape()
    with pytest.raises(ValueError, match="one number"):
        tape.gradients(tape.variable(normal(3)) * 2.0)


def test_relu_takes_torchs_subderivative() -> None:
    assert_equal(reverse_gradient(lambda a: a.relu().sum(), np.zeros(1)), torch_gradient(torch.relu, np.zeros(1)))
