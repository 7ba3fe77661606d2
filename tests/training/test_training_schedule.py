"""Schedules against their formulas, and settings that contradict themselves."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.training.toy import toy_settings

from regard.config import build
from regard.errors import UserError
from regard.training.optimizer import build_schedule, constant, cosine, inverse_sqrt, linear, paper
from regard.training.settings import TrainingSettings, improves

modest = settings(max_examples=50)
step = st.integers(1, 100_000)


@modest
@given(step, st.sampled_from([128, 512]), st.integers(1, 8000))
def test_paper_is_equation_3(step: int, d_model: int, warmup: int) -> None:
    expected = 2.0 / math.sqrt(d_model) * min(1 / math.sqrt(step), step / warmup / math.sqrt(warmup))
    assert math.isclose(paper(step, 2.0, d_model, warmup), expected, rel_tol=1e-12)


def test_paper_base_model_peaks_where_it_should() -> None:
    rates = [paper(step, 1.0, 512, 4000) for step in range(1, 10_000)]
    assert rates.index(max(rates)) + 1 == 4000
    assert math.isclose(max(rates), 7e-4, rel_tol=0.01)


@modest
@given(step, st.integers(0, 8000))
def test_no_schedule_exceeds_its_peak(step: int, warmup: int) -> None:
    bounded = (cosine(step, 3e-4, warmup, 50_000), linear(step, 3e-4, warmup, 50_000))
    for rate in (inverse_sqrt(step, 3e-4, warmup), constant(step, 3e-4, warmup), *bounded):
        assert 0 <= rate <= 3e-4


def test_shapes() -> None:
    assert inverse_sqrt(100, 1e-3, 100) == 1e-3
    assert math.isclose(inverse_sqrt(400, 1e-3, 100), 5e-4)
    assert math.isclose(inverse_sqrt(50, 1e-3, 100), 5e-4)
    assert cosine(100, 1e-3, 100, 1100) == 1e-3
    assert math.isclose(cosine(600, 1e-3, 100, 1100), 5e-4)
    assert cosine(1100, 1e-3, 100, 1100) == cosine(5000, 1e-3, 100, 1100) == 0
    assert linear(100, 1e-3, 100, 1100) == linear(0, 1e-3, 0, 1000) == 1e-3
    assert math.isclose(linear(50, 1e-3, 100, 1100), 5e-4) and math.isclose(linear(850, 1e-3, 100, 1100), 2.5e-4)
    assert linear(1100, 1e-3, 100, 1100) == linear(5000, 1e-3, 100, 1100) == 0
    assert constant(1, 1e-3, 0) == constant(10, 1e-3, 10) == 1e-3
    assert math.isclose(constant(5, 1e-3, 10), 5e-4)


@pytest.mark.parametrize("name", ["paper", "inverse_sqrt", "cosine", "constant", "linear"])
@pytest.mark.parametrize("warmup", [0, 1, 30])
def test_every_schedule_can_be_built(name: str, warmup: int) -> None:
    schedule = build_schedule(toy_settings(schedule=name, warmup=warmup), d_model=64)
    assert all(math.isfinite(schedule(step)) and schedule(step) >= 0 for step in range(1, 100))


@pytest.mark.parametrize(
    ("values", "code", "key"),
    [
        ({"max_steps": 0}, "invalid-setting", "max_steps"),
        ({"max_stepz": 5}, "unknown-setting", "max_stepz"),
        ({"keep": 0}, "invalid-setting", "keep"),
    ],
)
def test_invalid_settings_are_refused(values: dict[str, object], code: str, key: str) -> None:
    with pytest.raises(UserError) as error:
        build(TrainingSettings, values, "recipe.toml")
    assert (error.value.code, error.value.where) == (code, key)


def test_every_setting_has_its_help() -> None:
    assert all(field.description for field in TrainingSettings.model_fields.values())


def test_better_depends_on_the_metric() -> None:
    assert improves("loss", 1.0, 2.0) and not improves("loss", 2.0, 1.0)
    assert improves("bleu", 2.0, 1.0) and not improves("bleu", 1.0, 2.0)
    assert improves("bleu", 0.0, None) and not improves("bleu", 1.0, 1.0)
    assert not improves("loss", math.nan, None) and not improves("bleu", math.nan, 1.0)
