"""Recurrent steps, layers, stacks and models equal those put together from torch's cells, in values and gradients."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.attention.layouts import Padded
from regard.attention.scoring import Additive, General
from regard.layers.recurrent import CELLS, Hidden, Recurrent, RecurrentLayer
from regard.models.recurrent import RecurrentModel, RecurrentSettings
from regard.models.recurrent_decoders import BahdanauDecoder, InputFeedingDecoder, LuongDecoder

B, T, D_IN, K = 4, 6, 5, 3
LENGTHS = torch.tensor([6, 2, 1, 5])


@pytest.mark.parametrize(("name", "theirs"), [("rnn", nn.RNNCell), ("gru", nn.GRUCell), ("lstm", nn.LSTMCell)])
def test_a_step_equals_torchs_cell(name: str, theirs: type[nn.RNNCell] | type[nn.GRUCell] | type[nn.LSTMCell]) -> None:
    torch.manual_seed(0)
    cell, kind = theirs(D_IN, K).double(), CELLS[name]
    x = torch.randn(B, D_IN, dtype=torch.float64, requires_grad=True)
    hidden = tuple(torch.randn(B, K, dtype=torch.float64, requires_grad=True) for _ in range(kind.num_states))
    expected = cell(x, hidden if kind.num_states == 2 else hidden[0])
    inputs = nn.functional.linear(x, cell.weight_ih, cell.bias_ih)
    actual = kind.step(inputs, hidden, cell.weight_hh, cell.bias_hh)
    expected = expected if kind.num_states == 2 else (expected,)
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
@pytest.mark.parametrize("name", [name for name, cell in CELLS.items() if cell.has_kernel])
def test_a_stack_equals_torchs(name: str, padded: bool, direction: str) -> None:
    """Two layers, variable lengths, an initial state: outputs, last states and all gradients."""
    torch.manual_seed(1)
    ways, kind = 2 if direction == "both" else 1, CELLS[name]
    ours = Recurrent(name, D_IN, K, 2, direction).double()  # type: ignore[arg-type]
    theirs = kind.fused(D_IN, K, 2, bidirectional=ways == 2, batch_first=True).double()
    for layer, weights in zip(layers_of(ours), theirs.all_weights, strict=True):
        for mine, other in zip(layer.matrices(), weights, strict=True):
            nn.init.normal_(other, std=0.7)
            mine.data.copy_(other.data)
    x = torch.randn(B, T, D_IN, dtype=torch.float64, requires_grad=True)
    begin = tuple(torch.randn(2 * ways, B, K, dtype=torch.float64, requires_grad=True) for _ in range(kind.num_states))
    start = begin if kind.num_states == 2 else begin[0]
    if padded:
        packed = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
        outputs, last = theirs(packed, start)
        expected = [pad_packed_sequence(outputs, batch_first=True)[0], *(last if kind.num_states == 2 else [last])]
    else:
        outputs, last = theirs(x, start)
        expected = [outputs, *(last if kind.num_states == 2 else [last])]
    hidden: list[Hidden] = [
        tuple(torch.cat(list(part[level * ways : (level + 1) * ways]), dim=-1) for part in begin) for level in range(2)
    ]
    y, kept = ours(x, LENGTHS if padded else None, hidden)
    parts = [torch.cat([torch.stack(level[part].chunk(ways, -1)) for level in kept]) for part in range(kind.num_states)]
    torch.testing.assert_close([y, *parts], expected)
    our_weights = [parameter for layer in layers_of(ours) for parameter in layer.matrices()]
    their_weights = [parameter for weights in theirs.all_weights for parameter in weights]
    same_gradients([y, *parts], expected, [x, *begin, *our_weights], [x, *begin, *their_weights])


def sentence() -> tuple[Tensor, Tensor]:
    return torch.tensor([4, 7, 5, 9, 2]), torch.tensor([1, 8, 3, 6])


def model_of(**settings: Any) -> RecurrentModel:
    torch.manual_seed(5)
    small = dict(d_model=6, d_embedding=4, layers=1, dropout=0.0) | settings
    model = RecurrentModel(RecurrentSettings.model_validate(small), 12, 12).double()
    for parameter in model.parameters():  # biases must matter too
        nn.init.normal_(parameter, std=0.5)
    return model


def same_model(model: RecurrentModel, expected: Tensor) -> None:
    """Logits (T, V) of the one sentence, and the gradients of all parameters."""
    src, tgt = (Padded.of(ids[None], torch.tensor([len(ids)])) for ids in sentence())
    actual = model(src, tgt).logits()[0]
    torch.testing.assert_close(actual, expected)
    leaves = list(model.parameters())
    same_gradients([actual], [expected], leaves, leaves)


def test_bahdanaus_decoder_is_the_papers_equations_word_by_word() -> None:
    """Appendix A, with torch's cell reading word and context side by side: its matrix is [W C]."""
    model = model_of(decoder="bahdanau")
    src, tgt = sentence()
    decoder, (there, back) = model.decoder, layers_of(model.encoder)
    assert isinstance(decoder, BahdanauDecoder)
    scoring = decoder.source_attention.scoring
    assert isinstance(scoring, Additive)

    def cell(x: Tensor, h: Tensor, layer: RecurrentLayer, *beside: Tensor) -> Tensor:
        W, U, b, d = layer.matrices()
        return torch.gru_cell(x[None], h[None], torch.cat([W, *beside], dim=1), U, b, d)[0]

    words = [model.src_embedding.weight[word] * 2 for word in src]
    onward, backward = [torch.zeros(6, dtype=torch.float64)], [torch.zeros(6, dtype=torch.float64)]
    for word in words:
        onward.append(cell(word, onward[-1], there))
    for word in reversed(words):
        backward.append(cell(word, backward[-1], back))
    annotations = [torch.cat(pair) for pair in zip(onward[1:], backward[:0:-1], strict=True)]
    s = torch.tanh(model.bridge.get_submodule("weights.0")(backward[-1]))
    rows = []
    for word in tgt:
        y = model.tgt_embedding.weight[word] * 2
        energies = [scoring.vector @ torch.tanh(scoring.query @ s + scoring.key @ h) for h in annotations]
        alpha = torch.stack(energies).softmax(0)
        c = sum((a * h for a, h in zip(alpha, annotations, strict=True)), torch.zeros(12, dtype=torch.float64))
        s = cell(torch.cat([y, c]), s, decoder.stack.layers[0], decoder.context.weight)
        pairs = decoder.from_state(s) + decoder.from_word(y) + decoder.from_context(c)
        t = torch.stack([torch.maximum(pairs[2 * i], pairs[2 * i + 1]) for i in range(4)])
        rows.append(model.output.weight @ t)
    same_model(model, torch.stack(rows))


@pytest.mark.parametrize("query", ["current", "previous"])
@pytest.mark.parametrize("feeding", [True, False])
def test_luongs_decoder_is_the_papers_equations_word_by_word(feeding: bool, query: str) -> None:
    """Section 3, two layers of torch's LSTM over the source read backward, the general score."""
    model = model_of(decoder="luong", layers=2, attention="global", input_feeding=feeding, query=query)
    src, tgt = sentence()
    decoder = model.decoder
    assert isinstance(decoder, LuongDecoder)
    scoring = decoder.source_attention.scoring
    assert isinstance(scoring, General)

    def lstm(x: Tensor, hidden: list[Hidden], layers: Sequence[RecurrentLayer], *beside: Tensor) -> list[Hidden]:
        after: list[Hidden] = []
        for layer, before in zip(layers, hidden, strict=True):
            W, U, b, d = layer.matrices()
            first = torch.cat([W, *beside], dim=1) if not after else W
            h, c = torch.lstm_cell(x[None], [part[None] for part in before], first, U, b, d)
            after.append((h[0], c[0]))
            x = h[0]
        return after

    zeros = torch.zeros(6, dtype=torch.float64)
    hidden: list[Hidden] = [(zeros, zeros)] * 2
    annotations = []
    for word in src.flip(0):
        hidden = lstm(model.src_embedding.weight[word] * 2, hidden, layers_of(model.encoder))
        annotations.append(hidden[-1][0])
    a, rows = zeros, []
    for word in tgt:
        y, previous = model.tgt_embedding.weight[word] * 2, hidden[-1][0]
        if isinstance(decoder, InputFeedingDecoder):
            hidden = lstm(torch.cat([y, a]), hidden, decoder.stack.layers, decoder.feed.weight)
        else:
            hidden = lstm(y, hidden, decoder.stack.layers)
        s = hidden[-1][0]
        q = s if query == "current" else previous
        alpha = torch.stack([q @ scoring.weight @ h for h in annotations]).softmax(0)
        c = sum((w * h for w, h in zip(alpha, annotations, strict=True)), zeros)
        a = torch.tanh(decoder.combine.weight @ torch.cat([c, s]))
        rows.append(model.output.weight @ a)
    same_model(model, torch.stack(rows))
