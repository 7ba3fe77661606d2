"""The gated convolution, its weight normalisation and its attention against loops in float64 and against torch."""

import math
from collections.abc import Iterator
from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from regard.attention.layouts import Padded
from regard.layers.convolution import (
    ConvolutionalDecoderLayer,
    ConvolutionalEncoderLayer,
    GatedConvolution,
    NormalizedLinear,
    SourceKeyValues,
    scaled_sum,
    windows,
    with_gradient_times,
)

D, E = 6, 5
HALF = math.sqrt(0.5)
Layer = TypeVar("Layer", bound=nn.Module)


@pytest.fixture(autouse=True)
def in_double() -> Iterator[None]:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def rows(linear: NormalizedLinear) -> Tensor:
    """m v / |v|, one row after the other."""
    pairs = zip(linear.magnitude, linear.direction, strict=True)
    return torch.stack([m * v / sum(x * x for x in v).sqrt() for m, v in pairs])


def shaken(layer: Layer) -> Layer:
    """Biases and lengths as training would leave them, so that none can be forgotten."""
    for parameter in layer.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return layer.eval()


def gated_by_hand(convolution: GatedConvolution, x: Tensor) -> Tensor:
    """v_i = GLU(W [x_(i-p); ...] + b) of one sentence x (T, D), position by position."""
    weight, bias = rows(convolution.linear), convolution.linear.bias
    out = []
    for i in range(len(x)):
        places = range(i - convolution.before, i - convolution.before + convolution.kernel)
        window = torch.cat([x[j] if 0 <= j < len(x) else torch.zeros(D) for j in places])
        y = weight @ window + bias
        out.append(y[:D] * (1 / (1 + torch.exp(-y[D:]))))
    return torch.stack(out)


def same_gradients(found: Tensor, expected: Tensor, of: list[Tensor]) -> None:
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(found)
    pair = [torch.autograd.grad((y * weights).sum(), of, retain_graph=True) for y in (found, expected)]
    for one, other in zip(*pair, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("kernel", "before"), [(1, 0), (3, 1), (3, 2), (4, 1), (5, 4)])
def test_a_gated_convolution_is_its_equation(kernel: int, before: int) -> None:
    layer = shaken(GatedConvolution(D, kernel, before, dropout=0.0))
    x = torch.randn(2, 4, D, requires_grad=True)
    by_hand = torch.stack([gated_by_hand(layer, sentence) for sentence in x])
    same_gradients(layer(x), by_hand, [x, *layer.parameters()])


@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
def test_a_window_product_is_torchs_weight_normalised_convolution(kernel: int) -> None:
    ours = NormalizedLinear(kernel * D, 2 * D)
    theirs = weight_norm(nn.Conv1d(D, 2 * D, kernel), dim=0)
    shaken(ours)
    magnitude, direction = theirs.parametrizations.weight.original0, theirs.parametrizations.weight.original1
    magnitude.data.copy_(ours.magnitude.data[:, None, None])
    direction.data.copy_(ours.direction.data.unflatten(1, (kernel, D)).transpose(1, 2))
    theirs.bias.data.copy_(ours.bias.data)
    x = torch.randn(3, 7, D)
    padded = nn.functional.pad(x, (0, 0, kernel - 1, 0)).transpose(1, 2)
    torch.testing.assert_close(ours(windows(x, kernel, kernel - 1)), theirs(padded).transpose(1, 2))


def test_weights_begin_as_drawn_and_a_longer_direction_changes_nothing() -> None:
    linear = NormalizedLinear(200, 300, variance=4.0)
    torch.testing.assert_close(linear.weight, linear.direction)
    assert float(linear.weight.detach().std()) == pytest.approx(math.sqrt(4 / 200), rel=0.02)
    assert not linear.bias.any()
    x = torch.randn(2, 200)
    before = linear(x)
    linear.direction.data *= 7
    torch.testing.assert_close(linear(x), before)
    linear.magnitude.data *= 7
    torch.testing.assert_close(linear(x), 7 * before)


def test_a_stack_keeps_the_variance_of_what_it_is_given() -> None:
    """Section 3.5: words are small, N(0, 0.1), so gates begin half open and a spread of 4 makes up for them."""
    layers = [ConvolutionalEncoderLayer(128, 3, dropout=0.0) for _ in range(10)]
    x = 0.1 * torch.randn(8, 40, 128)
    for layer in layers:
        x = layer(x, torch.zeros(8, 40, 1, dtype=torch.bool))
    assert 0.08 < float(x.detach().std()) < 0.12


def test_dropout_begins_with_smaller_weights() -> None:
    plain, dropping = (GatedConvolution(64, 3, 1, dropout).linear.weight.detach().std() for dropout in (0.0, 0.5))
    assert float(dropping / plain) == pytest.approx(HALF, rel=0.05)


def test_an_encoder_layer_is_its_equation_and_sees_no_padding() -> None:
    layer = shaken(ConvolutionalEncoderLayer(D, 3, dropout=0.5))
    x, lengths = torch.randn(3, 6, D, requires_grad=True), [6, 2, 1]
    found = layer(x, ~Padded(torch.tensor(lengths), 6).not_padding[:, :, None])
    expected = [(s[:n] + gated_by_hand(layer.convolution, s[:n])) * HALF for s, n in zip(x, lengths, strict=True)]
    real = torch.cat([found[b, :n] for b, n in enumerate(lengths)])
    same_gradients(real, torch.cat(expected), [x, *layer.parameters()])


def test_a_decoder_layer_is_its_equation() -> None:
    layer = shaken(ConvolutionalDecoderLayer(D, E, 3, dropout=0.5))
    x, g = torch.randn(2, 4, D, requires_grad=True), torch.randn(2, 4, E, requires_grad=True)
    z, e = torch.randn(2, 5, E, requires_grad=True), torch.randn(2, 5, E, requires_grad=True)
    lengths = [5, 3]
    source = Padded(torch.tensor(lengths), 5)
    found = layer(x, g, SourceKeyValues.of(z, e, source), Padded(torch.tensor([4, 4]), 4).pattern(source))
    query, output = layer.attention.query, layer.attention.output
    expected = []
    for b, size in enumerate(lengths):
        v = gated_by_hand(layer.convolution, x[b])
        for i in range(4):
            d = (rows(query) @ v[i] + query.bias + g[b, i]) * HALF
            a = torch.stack([torch.exp(d @ z[b, j]) for j in range(size)])
            a = a / a.sum()
            c = sum(a[j] * (z[b, j] + e[b, j]) * HALF for j in range(size)) * size * math.sqrt(1 / size)
            y = (v[i] + rows(output) @ c + output.bias) * HALF
            expected.append((x[b, i] + y) * HALF)
    same_gradients(found.flatten(0, 1), torch.stack(expected), [x, g, z, e, *layer.parameters()])


def test_a_join_keeps_the_variance_and_a_scaled_gradient_the_value() -> None:
    x, y = torch.randn(2, 10_000)
    assert float(scaled_sum(x, y).std()) == pytest.approx(1.0, rel=0.03)
    x.requires_grad_()
    scaled = with_gradient_times(x, 0.125)
    assert torch.equal(scaled, x)
    (scaled * y).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, 0.125 * y)
