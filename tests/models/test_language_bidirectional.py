"""A bidirectional language model is two LSTMs of torch; its features are their layers, weighted and frozen."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded
from regard.data.batch import Batch
from regard.models.language_bidirectional import (
    BidirectionalLanguageModel,
    BidirectionalLanguageSettings,
    WeightedLayers,
)
from regard.models.text_encoder import ElmoEncoder, ElmoEncoderSettings, EncoderWithHead
from regard.tasks.language import segment_loss

V, D, L, T = 11, 6, 2, 7
IDS = torch.randint(1, V, (3, T + 1), generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([7, 3, 1])


def build(dropout: float = 0.0) -> BidirectionalLanguageModel:
    torch.manual_seed(0)
    settings = BidirectionalLanguageSettings(d_model=D, layers=L, dropout=dropout)
    return BidirectionalLanguageModel(settings, V).double().eval()


def torch_layers(layers: Any, x: Tensor) -> list[Tensor]:
    """The outputs of torch's LSTM with the weights of each layer."""
    states = []
    for layer in layers:
        lstm = nn.LSTM(D, D, batch_first=True).double()
        lstm.load_state_dict({f"{name}_l0": weight for name, weight in zip(
            ("weight_ih", "weight_hh", "bias_ih", "bias_hh"), layer.matrices(), strict=True)})  # fmt: skip
        x = lstm(x)[0]
        states.append(x)
    return states


def test_the_loss_is_the_sum_of_both_directions_token_by_token() -> None:
    model, source, labels = build(), IDS[:, :-1], IDS[:, 1:]
    state = {name: torch.randn(3, L, D, dtype=torch.double) for name in ("h", "c")}
    batch = Batch({"source": source, "labels": labels}, tokens=source.numel())
    loss, after = segment_loss(model, batch, state, 0.0)
    total = forward = torch.zeros((), dtype=torch.double)
    for row in range(3):
        hidden = {name: tensor[row : row + 1] for name, tensor in state.items()}
        for t in range(T):  # one token at a time: nothing is read twice
            projection, hidden = model(source[row : row + 1, t : t + 1], hidden)
            forward = forward - projection.logits().log_softmax(-1)[0, 0, labels[row, t]]
        for t in range(T):
            right = torch_layers(model.backward_layers, model.embedding(IDS[row : row + 1, t + 1 :]).flip(1))[-1]
            logits = model.embedding.scores(right[0, -1])
            total = total - logits.log_softmax(-1)[IDS[row, t]]
        torch.testing.assert_close(after["h"][row], hidden["h"][0])
    torch.testing.assert_close(loss.sum, forward + total)
    torch.testing.assert_close(loss.nll, forward.detach())
    assert int(loss.count) == source.numel()


def test_no_direction_sees_what_it_predicts() -> None:
    model = build()
    x = model.embedding(IDS).detach().requires_grad_()
    for layers, seen in ((model.forward_layers, range(4)), (model.backward_layers, range(3, T + 1))):
        y = x
        for layer in layers:
            y = layer(y)[0]
        (gradient,) = torch.autograd.grad(y[0, 3].sum(), x)
        assert [t for t in range(T + 1) if gradient[0, t].any()] == list(seen)


def test_features_are_the_layers_of_two_lstms() -> None:
    model = build()
    features = model.features(IDS[:, :T], LENGTHS)
    assert len(features) == L + 1
    for row, length in enumerate(LENGTHS.tolist()):
        x = model.embedding(IDS[row : row + 1, :length])
        forward, backward = torch_layers(model.forward_layers, x), torch_layers(model.backward_layers, x.flip(1))
        expected = [torch.cat([x, x], -1)]
        expected += [torch.cat([a, b.flip(1)], -1) for a, b in zip(forward, backward, strict=True)]
        for found, wanted in zip(features, expected, strict=True):
            torch.testing.assert_close(found[row, :length], wanted[0])


def test_layers_are_mixed_by_learned_weights() -> None:
    mix, layers = WeightedLayers(3).double(), [torch.randn(2, 4, dtype=torch.double) for _ in range(3)]
    torch.testing.assert_close(mix(layers), sum(layers[1:], layers[0]) / 3)
    mix.weights.data, mix.gamma.data = torch.tensor([0.5, -1.0, 2.0]).double(), torch.tensor(1.5).double()
    exp = [torch.tensor(w).double().exp() for w in (0.5, -1.0, 2.0)]
    expected = sum((1.5 * e / sum(exp) * h for e, h in zip(exp, layers, strict=True)), torch.zeros(2, 4).double())
    torch.testing.assert_close(mix(layers), expected)


@pytest.mark.parametrize("pooled", [True, False])
def test_the_language_model_is_frozen(pooled: bool) -> None:
    torch.manual_seed(0)
    settings = ElmoEncoderSettings(d_model=8, language_layers=L, language_width=D, dropout=0.5)
    model = EncoderWithHead(ElmoEncoder(settings, V), 3, pooled, dropout=0.0).train()
    tokens = Padded.of(IDS[:, :T], LENGTHS)
    model(tokens).sum().backward()
    without = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert {name for name in without if not name.startswith("encoder.pooler.")} == {
        name for name, _ in model.named_parameters() if name.startswith("encoder.language.")
    }
    assert isinstance(model.encoder, ElmoEncoder)
    first, second = (model.encoder.language.features(tokens.ids, LENGTHS) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True)), "no dropout in the language model"
