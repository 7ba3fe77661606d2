"""A run that learns nothing says so and stops; a run whose loss diverges says so."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.cli.command import fails, regard
from tests.conftest import TinyRun
from tests.tiny import write_recipe

from regard.run.run import Run
from regard.tasks.checks import unigram_baseline
from regard.tasks.labelled import classification_loss
from regard.training.advice import LossWatch, not_learning
from regard.training.progress import TrainingProgress
from regard.training.settings import TrainingSettings
from regard.training.task import Baseline

COLLAPSE = {
    "training.learning_rate": 0.09,
    "training.schedule": "constant",
    "training.warmup": 0,
    "training.max_steps": 300,
    "training.validate_every": 25,
    "training.log_every": 25,
    "model.norm": "post",
}


def test_a_translation_that_collapses_stops_at_the_second_validation(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "translation", "transformer", COLLAPSE)
    result = regard("train", recipe, "--folder", tmp_path / "run", "--json")
    values = json.loads(result.out)
    assert (values["reason"], values["step"]) == ("not learning", 125)  # it is judged from step 100 on
    assert result.err.count("no better than a unigram model") == 2 and "training.learning_rate" in result.err
    resumed = json.loads(regard("train", tmp_path / "run", "--json").out)
    assert (resumed["reason"], resumed["step"]) == ("not learning", 125)
    more = regard("train", tmp_path / "run", "training.stop_if_not_learning=false", "training.max_steps=150", "--json")
    assert json.loads(more.out)["reason"] == "max_steps"


def test_a_classifier_that_predicts_one_class_is_named(tmp_path: Path) -> None:
    """Its learning rate is so low that it does not leave the class with which it starts."""
    settings = {"training.learning_rate": 1e-7, "training.validate_every": 5, "training.warmup_share": 0.0}
    recipe = write_recipe(tmp_path, "classification", "transformer", settings)
    result = regard("train", recipe, "--folder", tmp_path / "run", "--json")
    assert json.loads(result.out)["reason"] == "not learning"
    assert "no better than predicting 'good' for every text" in result.err
    assert "a higher training.learning_rate" in result.err


@pytest.mark.parametrize("task", ["translation", "classification", "tagging", "regression", "choice", "answering"])
def test_runs_that_learn_are_better_than_their_baseline(task: str, tiny_run: TinyRun) -> None:
    run = Run.open(tiny_run(task))
    (train, valid), examples = run.open_stores(lambda _: None), list(run.task.read("valid"))
    baseline = run.task.checks.baseline(run.task, train, valid, examples)
    records = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    metrics = [record["metrics"] for record in records if record["kind"] == "validation"][-1]
    assert baseline is not None and baseline.is_beaten(metrics), (baseline, metrics)


def test_the_unigram_baseline_is_the_cross_entropy_of_relative_frequencies() -> None:
    train, valid = [1, 1, 2, 3], [1, 2, 2, 4]
    counts = Counter(train + valid)
    expected = -sum(math.log(counts[token] / 8) for token in valid) / 4
    assert unigram_baseline(np.array(train), np.array(valid)).value == pytest.approx(expected)


def test_validations_without_learning_are_counted_in_a_row() -> None:
    baseline, progress = Baseline("x", "loss", 2.0, margin=0.1), TrainingProgress(monitor="loss")
    counts = []
    for loss in (2.5, 2.3, 2.29, 1.81, 1.7, 1.9, 1.9):  # 1.8 = 0.9 * 2.0 must be beaten; 2.5 -> 2.3 still falls
        progress.compare(baseline, {"loss": loss})
        progress.record_validation({"loss": loss})
        counts.append(progress.not_learning)
    assert counts == [1, 1, 2, 1, 0, 1, 2]
    assert not Baseline("x", "accuracy", 60.0).is_beaten({"accuracy": 60.0})
    assert Baseline("x", "accuracy", 60.0).is_beaten({"accuracy": 60.1})


def test_a_diverging_loss_and_an_exploding_gradient_are_named_once() -> None:
    watch = LossWatch()
    losses, norms = (4.0, 3.0, 3.1, 2.9, 2.8, 4.0, 4.2, 4.3, 2.8), (1.0,) * 8 + (250.0,)
    said = [watch.add(*line) for line in zip(losses, norms, strict=True)]
    assert [index for index, message in enumerate(said) if message] == [6, 8]
    assert said[6] is not None and said[6].values == {"nll": 4.2, "lowest": 2.8}
    assert said[8] is not None and said[8].values == {"norm": 250.0, "usual": 1.0}


def test_the_likely_reason_comes_first() -> None:
    high = TrainingSettings(schedule="constant", learning_rate=2e-3, warmup=0)
    low = TrainingSettings(schedule="constant", learning_rate=1e-6, warmup=0)
    assert not_learning(high, 512, post_norm=True).startswith("try a lower training.learning_rate")
    assert not_learning(low, 512, post_norm=False).startswith("try a higher training.learning_rate")


def test_balanced_weights_multiply_the_objective_of_their_class() -> None:
    logits, labels = torch.tensor([[2.0, 0.0], [1.0, 3.0], [0.5, 0.5]]), torch.tensor([0, 1, -100])
    nll = torch.nn.functional.cross_entropy(logits[:2], labels[:2], reduction="none")
    loss = classification_loss(logits, labels, weights=(0.5, 3.0))
    assert float(loss.sum) == pytest.approx(float(0.5 * nll[0] + 3.0 * nll[1]))
    assert float(loss.nll) == pytest.approx(float(nll.sum())) and int(loss.count) == 2


def test_class_weights_are_learnt_from_the_data_and_resume(tmp_path: Path) -> None:
    """Every class has the same share of the loss: n_c w_c is equal, and the mean weight is 1."""
    settings = {"training.class_weights": "balanced", "training.monitor": "macro_f1", "training.max_steps": 20}
    recipe = write_recipe(tmp_path, "classification", "transformer", settings)
    result = regard("train", recipe, "--folder", tmp_path / "run", "--json")
    assert json.loads(result.out)["monitor"] == "macro_f1", result.err
    counts = Counter(example["label"] for example in Run.open(tmp_path / "run").task.read("train"))
    weights = json.loads((tmp_path / "run" / "class_weights.json").read_text(encoding="utf-8"))
    shares = [counts[label] * weight for label, weight in zip(sorted(counts), weights, strict=True)]
    assert shares == pytest.approx([sum(counts.values()) / 2] * 2)
    other = write_recipe(tmp_path / "tags", "tagging", "transformer", {"training.class_weights": "balanced"})
    assert fails("train", other, "--folder", tmp_path / "other").code == "invalid-setting"
