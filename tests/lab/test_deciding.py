"""The rules of verdicts: pairs of seeds, intervals, equivalence; rates and budgets."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from regard.errors import UserError
from regard.lab.budgets import VALIDATION_SEED, best_rate, watched
from regard.lab.experiment import STUDENT, Effort, Experiment, above, equivalent, interval, paired
from regard.lab.toys import ToyTensors, fit_toy
from regard.losses.crossentropy import Loss

RNG = np.random.default_rng(3)


def test_pairs_see_what_the_spread_between_seeds_hides() -> None:
    seeds = [1.0, 2.0, 3.0]
    better = [value + 0.1 for value in seeds]
    assert paired(better, seeds) and not above(better, seeds)
    assert not paired(better, seeds, by=0.2) and not paired(seeds, better) and not paired(seeds, seeds)


def test_quantiles_of_student() -> None:
    """The density of Student's t has 0.975 of its mass below the quantile."""
    for degrees, quantile in enumerate(STUDENT, start=1):
        scale = math.gamma((degrees + 1) / 2) / (math.sqrt(degrees * math.pi) * math.gamma(degrees / 2))
        t = np.linspace(0, quantile, 200_001)
        density = scale * (1 + t**2 / degrees) ** (-(degrees + 1) / 2)
        assert 0.5 + np.trapezoid(density, t) == pytest.approx(0.975, abs=2e-5)


def test_the_interval_holds_the_true_difference_19_times_in_20() -> None:
    first, shared = RNG.normal(0.5, 1, (4000, 6)), RNG.normal(0, 5, (4000, 6))
    found = [interval(a + b, b) for a, b in zip(first.tolist() + shared, shared, strict=True)]
    assert np.mean([low < 0.5 < high for low, high in found]) == pytest.approx(0.95, abs=0.012)


def test_equivalence_needs_several_seeds_and_small_differences() -> None:
    first = [0.90, 0.80, 0.95, 0.85]
    assert equivalent(first, [value + 0.001 * (-1) ** n for n, value in enumerate(first)])
    assert not equivalent(first, [value + 0.03 for value in first])
    assert not equivalent(first, [value + 0.02 * (-1) ** n for n, value in enumerate(first)]), "a wide interval"
    assert not equivalent([0.9], [0.9])


def test_the_rate_is_chosen_on_a_seed_of_its_own() -> None:
    seen = []

    def loss(seed: int, rate: float) -> float:
        seen.append(seed)
        if rate > 0.5:
            raise UserError("the loss is not finite", "", code="diverged", where="")
        return abs(rate - 0.1)

    assert best_rate(loss, (0.01, 0.1, 1.0)) == 0.1 and set(seen) == {VALIDATION_SEED}
    full = [seed for name in ("decoder_query", "heads") for seed in
            Experiment(f"regard.lab.experiments.{name}").seeds(Effort())]  # fmt: skip
    assert VALIDATION_SEED not in full


def test_a_watched_training_is_the_same_training() -> None:
    def batch(generator: torch.Generator) -> ToyTensors:
        return {"x": torch.randn(8, 4, generator=generator), "labels": torch.ones(8)}

    def loss(model: nn.Module, batch: ToyTensors) -> Loss:
        nll = (model(batch["x"])[:, 0] - batch["labels"]).square().sum()
        return Loss(nll, torch.tensor(8), nll)

    def trained(function: object) -> nn.Module:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Dropout(0.2), nn.Linear(4, 1))
        fit_toy(model, batch, function, steps=6, rate=0.1, seed=2)  # type: ignore[arg-type]
        return model

    seen: list[tuple[int, bool]] = []
    watching = trained(watched(loss, (0, 4), lambda step, model: seen.append((step, model.training))))
    assert seen == [(0, False), (4, False)]
    for one, other in zip(watching.parameters(), trained(loss).parameters(), strict=True):
        assert torch.equal(one, other)
