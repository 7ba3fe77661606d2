"""Mixture of experts (Shazeer et al. 2017): outputs, gates and losses against the equations, token by token."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tiny import recipe_values, write_recipe
from torch import Tensor, nn

from regard.attention.layouts import Padded
from regard.errors import UserError
from regard.ladder.measuring import model_flops, parameters_without_embeddings
from regard.layers.blocks import FeedForward
from regard.layers.experts import MixtureOfExperts
from regard.models.transformer import Transformer, TransformerSettings
from regard.run.model import Model
from regard.run.train import train
from regard.tasks.registry import build_recipe, load_recipe

D, EXPERTS, USED = 6, 5, 2


def mixture(balance: float = 0.3) -> MixtureOfExperts:
    torch.manual_seed(1)
    part = MixtureOfExperts(lambda: FeedForward(D, 8), D, EXPERTS, USED, balance)
    nn.init.normal_(part.gate)
    nn.init.normal_(part.noise)
    return part


def by_hand(part: MixtureOfExperts, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """y and L by equations 1 to 11, with loops over tokens and experts."""
    rows, gates, loads = [], [], []
    for token, epsilon in zip(x, noise, strict=True):
        spread = [math.log(1 + math.exp(float((token @ part.noise[:, i]).detach()))) + 1e-6 for i in range(EXPERTS)]
        clean = [token @ part.gate[:, i] for i in range(EXPERTS)]
        h = [clean[i] + epsilon[i] * (torch.log1p(torch.exp(token @ part.noise[:, i])) + 1e-6) for i in range(EXPERTS)]
        order = sorted(range(EXPERTS), key=lambda i: -float(h[i].detach()))
        kept = order[:USED]
        total = sum((h[i].exp() for i in kept), torch.zeros(()))
        gate = [h[i].exp() / total if i in kept else torch.zeros(()) for i in range(EXPERTS)]
        rows.append(sum((gate[i] * part.experts[i](token) for i in kept), torch.zeros(D)))
        gates.append(torch.stack(gate))
        load = []
        for i in range(EXPERTS):
            others = sorted((float(h[j].detach()) for j in range(EXPERTS) if j != i), reverse=True)
            z = (float(clean[i].detach()) - others[USED - 1]) / spread[i]
            load.append(0.5 * (1 + math.erf(z / math.sqrt(2))))
        loads.append(load)
    importance, load_sum = torch.stack(gates).sum(0), torch.tensor(loads).sum(0)
    squared = [v.var() / v.mean() ** 2 for v in (importance, load_sum)]
    return torch.stack(rows), part.balance * (squared[0] + squared[1])


def test_outputs_and_losses_are_those_of_the_equations() -> None:
    part, x = mixture().train(), torch.randn(9, D)
    torch.manual_seed(7)
    gates, loss = part.route(x)
    torch.manual_seed(7)
    y = part(x)
    torch.manual_seed(7)
    expected, expected_loss = by_hand(part, x, torch.randn(9, EXPERTS))
    assert ((gates > 0).sum(dim=1) == USED).all()
    torch.testing.assert_close(gates.sum(dim=1), torch.ones(9))
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(loss, expected_loss, rtol=1e-4, atol=1e-5)


def test_without_training_there_is_no_noise() -> None:
    part, x = mixture().eval(), torch.randn(2, 4, D)
    expected, _ = by_hand(part, x.flatten(0, 1), torch.zeros(8, EXPERTS))
    torch.testing.assert_close(part(x).flatten(0, 1), expected)


def test_the_gradient_of_the_balance_is_added() -> None:
    """The gradient of a sum of outputs times s is that of the outputs times s, plus that of the loss, whatever s is."""
    part, x = mixture().train(), torch.randn(9, D)
    found = []
    for scale in (1.0, 0.01):
        part.zero_grad()
        torch.manual_seed(7)
        (part(x).sum() * scale).backward()
        with_loss = part.gate.grad.clone()  # type: ignore[union-attr]
        part.balance, kept = 0.0, part.balance
        part.zero_grad()
        torch.manual_seed(7)
        (part(x).sum() * scale).backward()
        part.balance = kept
        torch.manual_seed(7)
        found.append((with_loss - part.gate.grad, torch.autograd.grad(part.route(x)[1], part.gate)[0]))  # type: ignore[operator]
    for difference, gradient in found:
        torch.testing.assert_close(difference, gradient, rtol=1e-3, atol=1e-5)


def test_padding_does_not_count_for_the_balance() -> None:
    part, x = mixture().eval(), torch.randn(2, 4, D)
    layout = Padded(torch.tensor([4, 1]), 4)
    _, loss = part.route(x.flatten(0, 1), layout.not_padding.flatten())
    _, alone = part.route(torch.cat([x[0], x[1, :1]]))
    torch.testing.assert_close(loss, alone)


def test_balance_spreads_the_tokens() -> None:
    """Experts that start unbalanced are used more evenly after some steps on the balance alone."""
    part, x = mixture(1.0), torch.randn(64, D)
    nn.init.zeros_(part.noise)
    with torch.no_grad():
        part.gate.mul_(0.1)
        part.gate[:, 0] += 2.0 * x.mean(0).sign()
    optimizer = torch.optim.Adam([part.gate, part.noise], lr=0.05)
    before = float(part.eval().route(x)[1].detach())
    part.train()
    for _ in range(60):
        optimizer.zero_grad()
        part.route(x)[1].backward()
        optimizer.step()
    assert float(part.eval().route(x)[1].detach()) < 0.5 * before


def transformer(**changes: Any) -> Transformer:
    shape = dict(d_model=16, num_heads=2, d_ff=24, encoder_layers=2, decoder_layers=1)
    return Transformer(TransformerSettings(size="custom", **(shape | changes)), 30, 30)


def test_parameters_and_cost_count_the_experts_that_are_used() -> None:
    plain, mixed = transformer(), transformer(experts=4, experts_used=2)
    expert = 16 * 24 + 24 + 24 * 16 + 16
    gates, layers = 2 * 16 * 4, 3
    total = {name: sum(p.numel() for p in model.parameters()) for name, model in (("plain", plain), ("mixed", mixed))}
    assert total["mixed"] - total["plain"] == layers * (3 * expert + gates)
    active = parameters_without_embeddings(mixed) - parameters_without_embeddings(plain)
    assert active == layers * (1 * expert + gates)
    assert model_flops(parameters_without_embeddings(mixed), 10) == 60 * parameters_without_embeddings(mixed)


def test_fast_engines_step_aside() -> None:
    mixed = transformer(experts=4)
    assert not mixed.settings.is_standard and not mixed.is_standard and not mixed.settings.supports_packing


@pytest.mark.parametrize(("changes", "where"), [
    ({"experts": 2, "experts_used": 3}, "model.experts_used"),
    ({"experts_used": 1}, "model.experts_used"),
    ({"experts": 4, "d_ff": 0}, "model.experts"),
])  # fmt: skip
def test_settings_that_do_not_fit_are_refused(changes: dict[str, object], where: str) -> None:
    values = recipe_values("translation", settings={f"model.{name}": value for name, value in changes.items()})
    with pytest.raises(UserError) as error:
        build_recipe(values, "test")
    assert where in str(error.value.where)


@pytest.mark.parametrize(("task", "kind"), [("translation", "transformer"), ("classification", "transformer")])
def test_models_with_experts_learn(tmp_path: Path, task: str, kind: str) -> None:
    settings = {"model.experts": 3, "model.experts_used": 1 if task == "translation" else 2}
    if task == "translation":
        settings |= {"training.max_steps": 60, "training.validate_every": 60}
    run = train(load_recipe(write_recipe(tmp_path, task, kind, settings)), tmp_path / "run", report=lambda _: None).run
    model = Model.load(run.folder)
    (prediction,) = model.predict([{"src": "one two"}] if task == "translation" else [{"text": "a lovely film"}])
    assert prediction["translation" if task == "translation" else "label"]
