"""With the same weights our recurrent steps, layers and stacks equal torch's, in values and gradients."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.layers.recurrent import CELLS, Hidden, Recurrent, RecurrentLayer

B, T, D_IN, K = 4, 6, 5, 3
LENGTHS = torch.tensor([6, 2, 1, 5])


@pytest.mark.parametrize(("name", "theirs"), [("rnn", nn.RNNCell), ("gru", nn.GRUCell), ("lstm", nn.LSTMCell)])
def test_a_step_equals_torchs_cell(name: str, theirs: type[nn.RNNCell] | type[nn.GRUCell] | type[nn.LSTMCell]) -> None:
    torch.manual_seed(0)
    cell, kind = theirs(D_IN, K).double(), CELLS[name]
    x = torch.randn(B, D_IN, dtype=torch.float64, requires_grad=True)
    hidden = tuple(torch.randn(B, K, dtype=torch.float64, requires_grad=True) for _ in range(kind.kept))
    expected = cell(x, hidden if kind.kept == 2 else hidden[0])
    inputs = nn.functional.linear(x, cell.weight_ih, cell.bias_ih)
    actual = kind.step(inputs, hidden, cell.weight_hh, cell.bias_hh)
    expected = expected if kind.kept == 2 else (expected,)
    torch.testing.assert_close(actual, expected)
    leaves = [x, *hidden, *cell.parameters()]
    same_gradients(actual, expected, leaves, leaves)


def same_gradients(
    actual: Sequence[Tensor], expected: Sequence[Tensor], ours: Sequence[Tensor], theirs: Sequence[Tensor]
) -> None:
    """Of one random weighting of all results, with respect to the leaves on either side."""
    generator = torch.Generator().manual_seed(9)
    weights = [torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in expected]

    def gradients(results: Sequence[Tensor], leaves: Sequence[Tensor]) -> tuple[Tensor, ...]:
        total = sum((result * weight).sum() for result, weight in zip(results, weights, strict=True))
        assert isinstance(total, Tensor)
        return torch.autograd.grad(total, leaves, retain_graph=True)

    torch.testing.assert_close(gradients(actual, ours), gradients(expected, theirs))


def layers_of(stack: Recurrent) -> list[RecurrentLayer]:
    """All single layers in torch's order: each level, there and back."""
    return [layer for layer in stack.modules() if isinstance(layer, RecurrentLayer)]


@pytest.mark.parametrize("direction", ["forward", "both"])
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("name", CELLS)
def test_a_stack_equals_torchs(name: str, padded: bool, direction: str) -> None:
    """Two layers, variable lengths, an initial state: outputs, last states and all gradients."""
    torch.manual_seed(1)
    ways, kind = 2 if direction == "both" else 1, CELLS[name]
    ours = Recurrent(name, D_IN, K, 2, direction).double()  # type: ignore[arg-type]
    theirs = kind.fused(D_IN, K, 2, bidirectional=ways == 2, batch_first=True).double()
    for layer, weights in zip(layers_of(ours), theirs.all_weights, strict=True):
        for mine, other in zip(layer.parts(), weights, strict=True):
            nn.init.normal_(other, std=0.7)
            mine.data.copy_(other.data)
    x = torch.randn(B, T, D_IN, dtype=torch.float64, requires_grad=True)
    begin = tuple(torch.randn(2 * ways, B, K, dtype=torch.float64, requires_grad=True) for _ in range(kind.kept))
    start = begin if kind.kept == 2 else begin[0]
    if padded:
        packed = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
        outputs, last = theirs(packed, start)
        expected = [pad_packed_sequence(outputs, batch_first=True)[0], *(last if kind.kept == 2 else [last])]
    else:
        outputs, last = theirs(x, start)
        expected = [outputs, *(last if kind.kept == 2 else [last])]
    hidden: list[Hidden] = [
        tuple(torch.cat(list(part[level * ways : (level + 1) * ways]), dim=-1) for part in begin) for level in range(2)
    ]
    y, kept = ours(x, LENGTHS if padded else None, hidden)
    parts = [torch.cat([torch.stack(level[part].chunk(ways, -1)) for level in kept]) for part in range(kind.kept)]
    torch.testing.assert_close([y, *parts], expected)
    our_weights = [parameter for layer in layers_of(ours) for parameter in layer.parts()]
    their_weights = [parameter for weights in theirs.all_weights for parameter in weights]
    same_gradients([y, *parts], expected, [x, *begin, *our_weights], [x, *begin, *their_weights])
