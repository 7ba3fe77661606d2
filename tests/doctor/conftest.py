"""No limit of time in the checks: a busy machine changes no result."""

import math

import pytest

from regard.doctor import model, resources


@pytest.fixture(autouse=True)
def no_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "OVERFIT_SECONDS", math.inf)
    monkeypatch.setattr(resources, "TIMED_SECONDS", math.inf)
