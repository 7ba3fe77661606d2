"""A race: curves by hand, levels that all reach, and a race of two small models with its files."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from tests.cli.command import regard

from regard.data import builtin
from regard.data.sources import Split
from regard.ladder.race import Race, RacePoint, mean_curve, race_settings, run_curve

SIZES: dict[Split, int] = {"train": 120, "valid": 12, "test": 24}


def points(*scores: float) -> list[RacePoint]:
    return [RacePoint(10 * n, 2.0 * n, 1e12 * n, score) for n, score in enumerate(scores, 1)]


def test_levels_are_reached_by_all_and_the_first_validation_counts() -> None:
    race = Race("bleu", {"a": points(10, 30, 40), "b": points(5, 15, 20)})
    assert race.levels == [10, 18, 20]
    assert [race.reached("a", level) for level in race.levels] == [race.curves["a"][n] for n in (0, 1, 1)]
    _, rows = race.table()
    assert rows[1] == ["b", "4.0 s, 2 TFLOP", "6.0 s, 3 TFLOP", "6.0 s, 3 TFLOP"]
    assert race.reached("b", 21) is None


def test_a_lower_perplexity_is_better() -> None:
    race = Race("perplexity", {"a": points(30, 20, 8), "b": points(50, 18, 9)})
    assert race.levels == [18, 10, 9]
    point = race.reached("b", 18)
    assert point is not None and point.step == 20


def test_curves_are_means_over_seeds() -> None:
    mean = mean_curve([points(10, 20), points(20, 40)])
    assert [point.score for point in mean] == [15, 30] and mean[0].spread == pytest.approx(50**0.5)
    assert mean[1].seconds == 4.0


def test_a_curve_counts_time_in_steps_and_operations_by_tokens(tmp_path: Path) -> None:
    train = {"kind": "train", "epoch": 0.0, "loss": 1.0, "nll": 1.0, "learning_rate": 1.0, "gradient_norm": 1.0}
    train |= {"seconds": 99.0, "seconds_left": 0.0}
    valid = {"kind": "validation", "best": True, "seconds": 99.0}
    lines = [
        train | {"step": 1, "tokens": 100, "tokens_per_second": 50.0},
        valid | {"step": 1, "metrics": {"loss": 3.0, "bleu": 10.0}},
        train | {"step": 2, "tokens": 400, "tokens_per_second": 100.0},
        valid | {"step": 2, "metrics": {"loss": 2.0, "bleu": 20.0}},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = run_curve(tmp_path, {"flops": 8e12, "tokens": 400}, "bleu")
    assert found == [RacePoint(1, 2.0, 2e12, 10.0), RacePoint(2, 5.0, 8e12, 20.0)]


def test_validations_are_frequent() -> None:
    assert race_settings(600) == ["training.validate_every=50", "training.log_every=50"]
    assert race_settings(5)[0].endswith("=1")


def test_the_command_writes_the_picture_in_two_languages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for split, size in SIZES.items():
        monkeypatch.setitem(builtin.NUMBERS, split, size)
    settings = ["data.workers=1", "text.vocab_size=300", "model.d_model=16", "model.d_ff=32", "model.num_heads=2"]
    settings += ["training.batch_tokens=256", "decoding.max_length=12", "runtime.device=cpu", "runtime.threads=1"]
    options = ["--race", "--steps", "4", "--variants", "luong,transformer", "--folder", tmp_path / "race", "--json"]
    result = regard("ladder", "small-numbers", *settings, *options)
    assert result.status == 0, result.err
    race = json.loads(result.out)["race"]
    assert len(race["curves"]) == 2 and all(len(curve) == 4 for curve in race["curves"].values())
    for curve in race["curves"].values():
        assert all(a["seconds"] < b["seconds"] and a["flops"] < b["flops"] for a, b in pairwise(curve))
    english, chinese = ((tmp_path / "race" / name).read_text(encoding="utf-8") for name in ("race.svg", "race.zh.svg"))
    assert "training time in seconds" in english and "训练时间" in chinese and "Transformer" in chinese
