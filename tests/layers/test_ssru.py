"""The simpler simple recurrent unit: the equations, one token after another."""

import torch
from torch import Tensor

from regard.attention.layouts import Packed, Padded
from regard.layers.ssru import SSRU, scan

D = 6
LENGTHS = torch.tensor([9, 4, 1])


def by_the_equations(layer: SSRU, x: Tensor) -> Tensor:
    """x (T, D) -> h (T, D)."""
    w, w_f, b_f = layer.input.weight, layer.forget.weight, layer.forget.bias
    c, outputs = torch.zeros(D, dtype=x.dtype), []
    for x_t in x:
        f = 1 / (1 + torch.exp(-(w_f @ x_t + b_f)))
        c = f * c + (1 - f) * (w @ x_t)
        outputs.append(c.clamp(min=0))
    return torch.stack(outputs)


def built() -> tuple[SSRU, Tensor]:
    torch.manual_seed(1)
    return SSRU(D).double(), torch.randn(3, 9, D).double()


def test_it_computes_the_equations_padded_packed_and_step_by_step() -> None:
    layer, x = built()
    padded = Padded(LENGTHS, 9)
    ours = layer(x, x, padded.pattern(padded, causal=True))
    ids = torch.arange(27).view(3, 9)
    packed = Packed.of(ids, LENGTHS)
    stream = x.flatten(0, 1)[packed.ids]
    packed_out = layer(stream, stream, packed.layout.pattern(packed.layout, causal=True))
    expected = [by_the_equations(layer, row[:length]) for row, length in zip(x, LENGTHS.tolist(), strict=True)]
    torch.testing.assert_close(packed_out, torch.cat(expected))
    for row, one, length in zip(ours, expected, LENGTHS.tolist(), strict=True):
        torch.testing.assert_close(row[:length], one)
    state = layer.start(3, x)
    for position in range(9):
        h, state = layer.step(x[:, position, None], state)
        torch.testing.assert_close(h[:, 0], ours[:, position])
    assert state.length == 9


def test_gradients_are_those_of_the_equations() -> None:
    layer, x = built()
    one = x[:1].requires_grad_()
    padded = Padded(torch.tensor([9]), 9)
    weights = torch.randn(9, D).double()
    ours = torch.autograd.grad((layer(one, one, padded.pattern(padded)) * weights).sum(), [one, *layer.parameters()])
    expected = torch.autograd.grad((by_the_equations(layer, one[0]) * weights).sum(), [one, *layer.parameters()])
    for gradient, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(gradient, other)


def test_scan_of_any_length() -> None:
    for length in (1, 2, 3, 8, 13):
        a, v = torch.rand(2, length, D).double(), torch.randn(2, length, D).double()
        c, rows = torch.zeros(2, D).double(), []
        for t in range(length):
            c = a[:, t] * c + v[:, t]
            rows.append(c)
        torch.testing.assert_close(scan(a, v), torch.stack(rows, 1))
