"""Warnings about settings: warm-up, learning rate and epochs, on both sides of every bound."""

import pytest
from tests.training.toy import toy_settings

from regard.training.advice import Advice, advise, peak_rate


def found(d_model: int = 512, epoch: float | None = None, fine_tuning: bool = False, **values: object) -> list[Advice]:
    defaults: dict[str, object] = {"max_steps": 1000, "warmup": 100, "schedule": "inverse_sqrt", "learning_rate": 1e-3}
    return advise(toy_settings(**(defaults | values)), d_model, epoch, fine_tuning)


@pytest.mark.parametrize("schedule", ["paper", "inverse_sqrt", "constant"])
@pytest.mark.parametrize(("warmup", "fatal"), [(500, None), (501, False), (999, False), (1000, True), (4000, True)])
def test_the_warm_up_is_shorter_than_the_training(schedule: str, warmup: int, fatal: bool | None) -> None:
    rate = 1.0 if schedule == "paper" else 1e-3
    warnings = found(schedule=schedule, warmup=warmup, learning_rate=rate)
    assert [item.fatal for item in warnings] == ([] if fatal is None else [fatal])
    assert all("training.warmup=100" in item.remedy for item in warnings)


def test_the_peak_rate_is_that_of_the_last_warm_up_step() -> None:
    paper = toy_settings(schedule="paper", learning_rate=50.0, warmup=4000, max_steps=100_000)
    assert peak_rate(paper, 512) == pytest.approx(50 * 512**-0.5 * 4000**-0.5)
    short = toy_settings(schedule="paper", learning_rate=1.0, warmup=4000, max_steps=400)
    assert peak_rate(short, 512) == pytest.approx(512**-0.5 * 400 * 4000**-1.5)
    assert peak_rate(toy_settings(warmup=0, learning_rate=0.01), 8) == 0.01


@pytest.mark.parametrize(("rate", "d_model", "warned"), [(8e-3, 512, False), (1e-2, 512, True), (3e-2, 32, False)])
def test_a_rate_that_diverges_depends_on_the_width(rate: float, d_model: int, warned: bool) -> None:
    warnings = found(d_model, learning_rate=rate)
    assert len(warnings) == warned and not any(item.fatal for item in warnings)


@pytest.mark.parametrize(("factor", "warned"), [(1.0, 0), (10.0, 0), (50.0, 1)])
def test_the_factor_of_the_paper_is_about_one(factor: float, warned: int) -> None:
    warnings = found(schedule="paper", learning_rate=factor, warmup=4000, max_steps=100_000)
    assert len(warnings) == warned and all("training.learning_rate=1 " in item.remedy for item in warnings)


@pytest.mark.parametrize(("rate", "warned"), [(1e-3, 0), (2e-3, 1), (5e-5, 0)])
def test_trained_weights_need_lower_rates(rate: float, warned: int) -> None:
    assert len(found(768, learning_rate=rate, fine_tuning=True)) == warned


@pytest.mark.parametrize(("rate", "warned"), [(1e-4, 0), (5e-5, 1)])
def test_random_weights_need_higher_rates(rate: float, warned: int) -> None:
    assert len(found(learning_rate=rate)) == warned


@pytest.mark.parametrize(
    ("epoch", "setting"), [(1001, "training.max_steps=1001"), (1000, ""), (10 / 3, ""), (3, "training.max_epochs=50")]
)
def test_epochs_are_at_least_one_and_not_too_many(epoch: float, setting: str) -> None:
    warnings = found(epoch=epoch)
    assert len(warnings) == bool(setting) and all(setting in item.remedy for item in warnings)
    assert found(epoch=None) == []


def test_patience_allows_many_epochs() -> None:
    assert found(epoch=1, patience=5) == []
    (warning,) = found(epoch=0.19, max_steps=1000)
    assert "5,263" in warning.problem and "(10 steps)" in warning.remedy
