"""Classification and regression: models learn, resume exactly after a crash, and start from other runs."""

import json
import random
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.system.helpers import CrashError, CrashingLog, assert_same_checkpoint, train_quietly
from tests.training.toy import written_metrics

from regard.errors import UserError
from regard.recipe import Recipe
from regard.run.run import Run
from regard.tasks.labelled import LabelledRecipe
from regard.tasks.registry import build_recipe

WORDS = ["river", "stone", "cloud", "window", "paper", "garden", "music", "winter", "table", "silver"]
CUES = {"animal": ["dog", "cat", "horse"], "plant": ["tree", "rose", "grass"], "tool": ["hammer", "saw", "nail"]}
MODELS: dict[str, dict[str, Any]] = {
    "bert": dict(kind="bert", size="tiny", d_model=32, num_heads=2, d_ff=64, layers=2, dropout=0.0),
    "transformer": dict(kind="transformer", d_model=32, num_heads=2, d_ff=64, layers=2, dropout=0.0),
    "recurrent": dict(kind="recurrent", d_model=32, layers=1, dropout=0.0),
}


def write_classes(folder: Path) -> None:
    """One word of the text decides its class."""
    for split, count in (("train", 400), ("valid", 40), ("test", 60)):
        rng = random.Random(split)
        with (folder / f"{split}.jsonl").open("w", encoding="utf-8") as stream:
            for _ in range(count):
                label = rng.choice(list(CUES))
                words = [*rng.choices(WORDS, k=rng.randint(2, 7)), rng.choice(CUES[label])]
                rng.shuffle(words)
                stream.write(json.dumps({"text": " ".join(words), "label": label}) + "\n")


def write_shares(folder: Path) -> None:
    """The label is the share of the word "winter" in the second text, 0 to 1."""
    for split, count in (("train", 500), ("valid", 40), ("test", 60)):
        rng = random.Random(split)
        with (folder / f"{split}.jsonl").open("w", encoding="utf-8") as stream:
            for _ in range(count):
                cold = rng.randint(0, 4)
                pair = ["winter"] * cold + ["garden"] * (4 - cold)
                rng.shuffle(pair)
                example = {"text": rng.choice(WORDS), "pair": " ".join(pair), "label": cold / 4}
                stream.write(json.dumps(example) + "\n")


def make_recipe(folder: Path, task: str, model: str, start: str = "", **training: Any) -> Recipe:
    values = {
        "name": "small", "task": task, "start_from": start,
        "data": {
            "root": str(folder), "max_length": 24, "drop_duplicates": False,
            **{split: {"file": f"{split}.jsonl"} for split in ("train", "valid", "test")},
        },
        "text": {"vocab_size": 200, "min_frequency": 1},
        "model": MODELS[model],
        "training": dict(
            max_epochs=8, batch_examples=16, schedule="linear", learning_rate=3e-3, samples=2, log_every=5,
        ) | training,
        "runtime": {"device": "cpu", "threads": 1, "seed": 4},
    }  # fmt: skip
    return build_recipe(values, "test")


def scores(folder: Path) -> dict[str, float]:
    run = Run.open(folder)
    examples = list(run.task.read("test"))
    predictions = list(run.task.predict(run.model("best"), examples))
    return {name: score.value for name, score in run.task.score(examples, predictions).items()}


@pytest.mark.parametrize("kind", MODELS)
def test_model_learns_classes(tmp_path: Path, kind: str) -> None:
    write_classes(tmp_path)
    outcome = train_quietly(make_recipe(tmp_path, "classification", kind), tmp_path / "run").outcome
    assert outcome.best is not None and outcome.best > 95
    result = scores(tmp_path / "run")
    assert result["accuracy"] > 95 and result["f1"] > 95, result


@pytest.mark.parametrize("kind", MODELS)
def test_model_learns_numbers(tmp_path: Path, kind: str) -> None:
    write_shares(tmp_path)
    train_quietly(make_recipe(tmp_path, "regression", kind, max_epochs=12), tmp_path / "run")
    result = scores(tmp_path / "run")
    assert result["pearson"] > 90 and result["spearman"] > 90, result


def test_one_class_is_refused(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        lines = [json.dumps({"text": word, "label": "same"}) + "\n" for word in WORDS]
        (tmp_path / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    with pytest.raises(UserError) as error:
        train_quietly(make_recipe(tmp_path, "classification", "bert"), tmp_path / "run")
    assert (error.value.code, error.value.where) == ("one-class", "data.train")


def test_resumed_run_equals_uninterrupted_run(tmp_path: Path) -> None:
    write_classes(tmp_path)
    recipe = make_recipe(tmp_path, "classification", "bert", max_epochs=2, checkpoint_every=7, accumulation=2)
    recipe = recipe.model_copy(update={"model": recipe.model.model_copy(update={"dropout": 0.1})})
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    train_quietly(recipe, whole)
    with pytest.raises(CrashError):
        train_quietly(recipe, resumed, log=CrashingLog(resumed, after=18))
    train_quietly(recipe, resumed, resume=True)
    assert_same_checkpoint(whole, resumed)
    assert written_metrics(resumed) == written_metrics(whole)


def test_run_starts_with_the_weights_of_another(tmp_path: Path) -> None:
    write_classes(tmp_path)
    first = tmp_path / "first"
    train_quietly(make_recipe(tmp_path, "classification", "transformer"), first)
    unchanged: dict[str, Any] = dict(start=str(first), max_steps=1, learning_rate=1e-9)
    train_quietly(make_recipe(tmp_path, "classification", "transformer", **unchanged), tmp_path / "second")
    assert scores(tmp_path / "second") == scores(first), "the head is copied too"

    other = tmp_path / "other"
    other.mkdir()
    write_shares(other)
    train_quietly(make_recipe(other, "regression", "transformer", **unchanged), other / "third")
    before, after = (Run.open(folder).model().state_dict() for folder in (first, other / "third"))
    encoder = [name for name in before if name.startswith("encoder.")]
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in encoder)
    assert before["head.weight"].shape != after["head.weight"].shape
    assert (other / "third" / "tokenizer.json").read_bytes() == (first / "tokenizer.json").read_bytes()


def test_recipe_takes_the_model_of_the_run_to_start_from(tmp_path: Path) -> None:
    write_classes(tmp_path)
    first = tmp_path / "first"
    train_quietly(make_recipe(tmp_path, "classification", "recurrent", max_steps=1), first)
    data = {"root": str(tmp_path), **{split: {"file": f"{split}.jsonl"} for split in ("train", "valid")}}
    recipe = build_recipe({"name": "more", "task": "classification", "start_from": str(first), "data": data}, "test")
    assert isinstance(recipe, LabelledRecipe)
    assert recipe.model.model_dump() == Run.open(first).recipe.model.model_dump()
    assert recipe.training.monitor == "accuracy" and recipe.text.vocab_size == 200


@pytest.mark.parametrize(("task", "setting"), [("regression", "label_smoothing"), ("tagging", "r_drop")])
def test_settings_without_effect_are_refused(tmp_path: Path, task: str, setting: str) -> None:
    training: dict[str, Any] = {setting: 0.1}
    with pytest.raises(UserError) as error:
        make_recipe(tmp_path, task, "bert", **training)
    assert (error.value.code, error.value.where) == ("unused-setting", f"training.{setting}")


def test_epochs_are_converted_to_steps(tmp_path: Path) -> None:
    endless = make_recipe(tmp_path, "classification", "bert", max_epochs=0, max_steps=70)
    assert endless.training.in_steps(10).max_steps == 70
    assert build_recipe(tomllib.loads(endless.to_toml()), "test") == endless
    assert make_recipe(tmp_path, "classification", "bert", max_steps=70).training.in_steps(5).max_steps == 40
