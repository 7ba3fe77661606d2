"""Optimizer, gradient clipping, moving average of weights, named tensors, averaging of checkpoints."""

import math
import re
from pathlib import Path

import pytest
import torch
from tests.training.toy import D, ToyModel, V, toy_settings
from torch import nn

from regard.errors import UserError
from regard.training.averaging import Ema, average_checkpoints, decay_at
from regard.training.checkpoint import Checkpoints, read_weights
from regard.training.optimizer import build_optimizer, clip_gradients, set_rate
from regard.training.weights import all_finite, load_moments, load_weights, moments_of, weights_of


def stepped(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 3) -> None:
    for number in range(steps):
        set_rate(optimizer, 0.01 * (number + 1))
        model(torch.arange(V)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def seeded_model(seed: int = 1) -> ToyModel:
    torch.manual_seed(seed)
    return ToyModel(dropout=0.0)


def test_adam_has_the_constants_of_the_paper() -> None:
    model, plain = seeded_model(), seeded_model()
    optimizer = build_optimizer(model, toy_settings())
    assert type(optimizer) is torch.optim.Adam
    stepped(model, optimizer)
    stepped(plain, torch.optim.Adam(plain.parameters(), betas=(0.9, 0.98), eps=1e-9, foreach=False))
    torch.testing.assert_close(model.state_dict(), plain.state_dict())


def test_only_matrices_decay() -> None:
    optimizer = build_optimizer(seeded_model(), toy_settings(weight_decay=0.1))
    assert type(optimizer) is torch.optim.AdamW
    decays = {p.dim(): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert decays == {2: 0.1, 1: 0.0}


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_gradient_descent_with_momentum_is_its_equation(momentum: float, weight_decay: float) -> None:
    """v <- m v + g + d w, w <- w - r v, written out; also torch's."""
    model, other, by_hand = seeded_model(), seeded_model(), seeded_model()
    optimizer = build_optimizer(model, toy_settings(optimizer="sgd", momentum=momentum, weight_decay=weight_decay))
    groups = [{"params": [p], "weight_decay": weight_decay if p.dim() == 2 else 0.0} for p in other.parameters()]
    theirs = torch.optim.SGD(groups, lr=0.5, momentum=momentum, foreach=False)
    velocity = {name: torch.zeros_like(p) for name, p in by_hand.named_parameters()}
    set_rate(optimizer, 0.5)
    for _ in range(4):
        for each in (model, other, by_hand):
            each.zero_grad()
            each(torch.arange(V)).square().mean().backward()
        optimizer.step()
        theirs.step()
        with torch.no_grad():
            for name, p in by_hand.named_parameters():
                assert p.grad is not None
                velocity[name] = momentum * velocity[name] + p.grad + (weight_decay * p if p.dim() == 2 else 0.0)
                p.sub_(0.5 * velocity[name])
    torch.testing.assert_close(model.state_dict(), other.state_dict())
    torch.testing.assert_close(model.state_dict(), by_hand.state_dict())


def test_settings_of_the_other_optimizer_are_refused() -> None:
    wrong: list[dict[str, object]] = [dict(optimizer="sgd", adam_beta2=0.9), dict(momentum=0.5)]
    for values in wrong:
        with pytest.raises(UserError) as error:
            toy_settings(**values)
        assert (error.value.code, error.value.where) == ("unused-setting", list(values)[-1])


@pytest.mark.parametrize(("first", "second"), [("adam", "sgd"), ("sgd", "adam")])
def test_a_run_can_continue_with_another_optimizer(first: str, second: str) -> None:
    model, other = seeded_model(), seeded_model()
    optimizer = build_optimizer(model, toy_settings(optimizer=first))
    stepped(model, optimizer)
    continued = build_optimizer(other, toy_settings(optimizer=second))
    load_moments(other, continued, moments_of(model, optimizer))
    stepped(other, continued)
    names = {name.partition(":")[0] for name in moments_of(other, continued)}
    assert names == {"adam": {"exp_avg", "exp_avg_sq", "step"}, "sgd": {"momentum_buffer"}}[second]


def test_frozen_parameters_are_left_out() -> None:
    model = seeded_model()
    model.norm.requires_grad_(False)
    learned = [p for group in build_optimizer(model, toy_settings()).param_groups for p in group["params"]]
    assert len(learned) == 2


def test_clipping_is_of_the_global_norm() -> None:
    a, b = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
    a.grad, b.grad = torch.tensor([3.0]), torch.tensor([4.0])
    assert clip_gradients([a, b], 0.0) == 5 and b.grad == 4
    assert clip_gradients([a, b], 10.0) == 5 and b.grad == 4
    assert clip_gradients([a, b], 1.0) == 5
    assert math.isclose(b.grad.item(), 0.8, rel_tol=1e-5)


def test_ema_follows_its_recurrence_and_restores_the_weights() -> None:
    model = seeded_model()
    ema = Ema(model, 0.9)
    expected = model.norm.weight.detach().clone()
    for step in (1, 2, 500):
        with torch.no_grad():
            model.norm.weight.add_(step)
        ema.update(step)
        decay = decay_at(step, 0.9)
        expected = decay * expected + (1 - decay) * model.norm.weight.detach()
    torch.testing.assert_close(ema.shadow["norm.weight"], expected)
    before = weights_of(model)
    with pytest.raises(KeyError), ema.applied():
        torch.testing.assert_close(model.norm.weight.detach(), expected)
        assert model.output.weight is model.embedding.weight
        raise KeyError
    assert all(torch.equal(before[name], weights_of(model)[name]) for name in before)
    assert decay_at(1, 0.999) == 2 / 11 and decay_at(10**9, 0.999) == 0.999


def test_tied_weights_are_saved_once_and_tied_again() -> None:
    model, other = seeded_model(1), seeded_model(2)
    weights = weights_of(model)
    assert set(weights) == {"embedding.weight", "norm.weight", "norm.bias", "output.bias"}
    load_weights(other, weights, "here")
    assert torch.equal(other.output.weight, model.embedding.weight)
    assert other.output.weight is other.embedding.weight
    model.norm.weight.data.zero_()
    assert weights["norm.weight"].sum() == D  # a copy, not a view


def test_weights_that_do_not_fit_are_refused() -> None:
    weights = weights_of(seeded_model())
    missing = {name: tensor for name, tensor in weights.items() if name != "norm.bias"}
    untied = seeded_model()
    untied.output.weight = nn.Parameter(torch.ones(V, D))
    for model, changed, name in (
        (seeded_model(), missing, "norm.bias"),
        (seeded_model(), weights | {"extra": torch.ones(1)}, "extra"),
        (seeded_model(), weights | {"norm.bias": torch.ones(3)}, "norm.bias"),
        (untied, weights, "output.weight"),
    ):
        with pytest.raises(UserError, match=re.escape(name)) as error:
            load_weights(model, changed, "step-1")
        assert (error.value.code, error.value.where) == ("other-model", "step-1")


def test_moments_are_saved_by_name() -> None:
    model = seeded_model()
    optimizer = build_optimizer(model, toy_settings())
    stepped(model, optimizer)
    moments = moments_of(model, optimizer)
    assert "exp_avg:norm.bias" in moments and "step:norm.bias" in moments
    other = seeded_model()
    load_weights(other, weights_of(model), "here")
    regrouped = build_optimizer(other, toy_settings(weight_decay=1e-30))
    load_moments(other, regrouped, moments)
    assert all(torch.equal(value, moments_of(other, regrouped)[name]) for name, value in moments.items())
    stepped(model, optimizer, 1)
    stepped(other, regrouped, 1)
    torch.testing.assert_close(weights_of(model), weights_of(other))


def test_finite() -> None:
    model = seeded_model()
    assert all_finite(model) and all_finite(nn.Identity())
    model.norm.bias.data[3] = torch.inf
    assert not all_finite(model)


def test_average_is_the_mean_in_high_precision(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=3)
    values = [1.0, 1e8, -1e8]  # in float32 the 1 would be lost
    for step, value in enumerate(values, 1):
        checkpoints.save(step, {"w": torch.tensor([value]), "n": torch.tensor([7])}, {}, {})
    mean = average_checkpoints(checkpoints.all())
    assert mean["w"].dtype == torch.float32 and mean["w"].item() == pytest.approx(1 / 3)
    assert mean["n"].item() == 7
    path = checkpoints.save_average(mean, checkpoints.all())
    assert checkpoints.resolve("averaged") == path
    assert torch.equal(read_weights(path)["w"], mean["w"])


def test_checkpoints_of_different_models_are_not_averaged(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=4)
    first = checkpoints.save(1, {"w": torch.ones(2)}, {}, {})
    for step, other in enumerate(
        ({"w": torch.ones(3)}, {"v": torch.ones(2)}, {"w": torch.ones(2), "v": torch.ones(1)}), 2
    ):
        with pytest.raises(UserError) as error:
            average_checkpoints([first, checkpoints.save(step, other, {}, {})])
        assert error.value.code == "other-model" and error.value.where.endswith(f"step-0000000{step}")
    with pytest.raises(UserError) as error:
        average_checkpoints([])
    assert error.value.code == "no-checkpoint"
