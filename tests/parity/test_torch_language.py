"""Language models equal the same put together from torch's own parts, or written out word by word, with gradients."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.models.outputs import with_logits
from torch import Tensor, nn

from regard.models.language_markov import MarkovLanguageModel, MarkovLanguageSettings
from regard.models.language_recurrent import RecurrentLanguageModel, RecurrentLanguageSettings
from regard.models.language_transformer import TransformerLanguageModel, TransformerLanguageSettings

V, D = 20, 12


def text(columns: int = 3, length: int = 8) -> Tensor:
    return torch.randint(3, V, (columns, length), generator=torch.Generator().manual_seed(1))


def gradients(model: nn.Module, logits: Tensor, ids: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    F.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
def test_a_recurrent_model_is_torchs_stack_between_two_uses_of_one_matrix(kind: str) -> None:
    torch.manual_seed(0)
    settings = RecurrentLanguageSettings.model_validate(dict(kind=kind, d_model=D, layers=2))
    model, ids = RecurrentLanguageModel(settings, V).double().eval(), text()
    stack: Any = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[kind](D, D, 2, batch_first=True).double()
    layers: Any = model.layers
    for number, layer in enumerate(layers):
        for part, weight in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), layer.matrices(), strict=True):
            getattr(stack, f"{part}_l{number}").data.copy_(weight)
    logits, state = with_logits(model(ids))
    weight = model.embedding.weight.detach().clone().requires_grad_()
    hidden, last = stack(F.embedding(ids, weight) * D**0.5)
    expected = hidden @ weight.T
    torch.testing.assert_close(logits, expected)
    for name, kept in zip(("h", "c"), last if kind == "lstm" else (last,), strict=False):
        torch.testing.assert_close(state[name], kept.transpose(0, 1))
    found = gradients(model, logits, ids)
    theirs = gradients(stack, expected, ids)
    torch.testing.assert_close(found["embedding.weight"], weight.grad)
    for name, gradient in theirs.items():
        part, place = name.rsplit("_l", 1)
        torch.testing.assert_close(found[f"layers.{place}.weights.{part}_l0"], gradient)


@pytest.mark.parametrize("direct", [False, True])
def test_a_markov_model_is_the_papers_equation(direct: bool) -> None:
    """y = U tanh(d + H x) + W x for one word after the other (Bengio et al. 2003, equation 1)."""
    torch.manual_seed(0)
    tau, size = 3, 5
    settings = MarkovLanguageSettings(history=tau, d_model=D, d_embedding=size, direct=direct, tie="none")
    model, ids = MarkovLanguageModel(settings, V).double().eval(), text()
    C, H, d = (x.detach().clone().requires_grad_() for x in (model.embedding.weight, *model.hidden.parameters()))
    both = model.output.weight.detach().clone().requires_grad_()
    U, W = both[:, :D], both[:, D:]
    rows = []
    for row in ids.tolist():
        heard = [0] * (tau - 1) + row
        for t in range(len(row)):
            x = torch.cat([C[word] * size**0.5 for word in heard[t : t + tau]])
            y = U @ torch.tanh(d + H @ x)
            rows.append(y + W @ x if direct else y)
    expected = torch.stack(rows).view(*ids.shape, V)
    logits, _ = with_logits(model(ids))
    torch.testing.assert_close(logits, expected)
    found = gradients(model, logits, ids)
    F.cross_entropy(expected.flatten(0, 1), ids.flatten()).backward()
    names = ("embedding.weight", "hidden.weight", "hidden.bias", "output.weight")
    torch.testing.assert_close([found[name] for name in names], [x.grad for x in (C, H, d, both)])


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_transformer_is_torchs_encoder_under_a_causal_mask(norm: str) -> None:
    torch.manual_seed(0)
    settings = TransformerLanguageSettings.model_validate(
        dict(d_model=D, num_heads=3, d_ff=24, layers=2, norm=norm, positions="none", activation="relu")
    )
    model, ids = TransformerLanguageModel(settings, V).double().eval(), text()
    theirs: Any = nn.ModuleList(
        nn.TransformerEncoderLayer(D, 3, 24, dropout=0.0, batch_first=True, norm_first=norm == "pre") for _ in range(2)
    ).double()
    for ours, layer in zip(model.layers, theirs, strict=True):
        attention, fast = ours.attention, layer.self_attn
        three = (attention.query, attention.key, attention.value)
        with torch.no_grad():
            fast.in_proj_weight.copy_(torch.cat([linear.weight for linear in three]))
            fast.in_proj_bias.copy_(torch.cat([linear.bias for linear in three]))
        pairs = (
            (fast.out_proj, attention.output),
            (layer.linear1, ours.feedforward.fc1),
            (layer.linear2, ours.feedforward.fc2),
        )
        for mine, other in pairs:
            mine.load_state_dict(other.state_dict())
    mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1), dtype=torch.float64)
    x = F.embedding(ids, model.embedding.weight) * D**0.5
    for layer in theirs:
        x = layer(x, src_mask=mask)
    x = F.layer_norm(x, (D,)) if norm == "pre" else x
    torch.testing.assert_close(model(ids)[0].logits(), x @ model.embedding.weight.T)
