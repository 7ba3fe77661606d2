"""The cost model: it gives back its calibration, and the table in the docs is what it prints."""

from pathlib import Path

import pytest
from benchmarks.cluster import MEASURED, Plan, rows


@pytest.mark.parametrize(("parameters", "speed"), MEASURED)
def test_one_gpu_has_the_measured_speed(parameters: int, speed: float) -> None:
    assert Plan(parameters, 512, 12, 25_000, 1).tokens_per_second == pytest.approx(speed)


def test_more_gpus_are_faster_but_not_in_proportion() -> None:
    speeds = [Plan(214_245_376, 1024, 12, 25_000, gpus).tokens_per_second for gpus in (1, 8, 64)]
    assert speeds[0] < speeds[1] < 8 * speeds[0] and speeds[1] < speeds[2] < 8 * speeds[1]


@pytest.mark.parametrize("name", ["cluster.md", "cluster.zh.md"])
def test_the_docs_have_the_table(name: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / name).read_text(encoding="utf-8")
    assert "\n".join(rows()) in text
