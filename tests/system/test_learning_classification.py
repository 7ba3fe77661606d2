"""Classifiers and judges of pairs through the whole system: they learn, and are interrupted without a trace."""

import json
import random
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.system.dying import DyingLog, KilledError

from regard.errors import UserError
from regard.recipe import build_recipe
from regard.run import Run, train
from regard.training.log import Logs, MetricsFile

WORDS = ["river", "stone", "cloud", "window", "paper", "garden", "music", "winter", "table", "silver"]
CUES = {"animal": ["dog", "cat", "horse"], "plant": ["tree", "rose", "grass"], "tool": ["hammer", "saw", "nail"]}
MODELS: dict[str, dict[str, Any]] = {
    "bert": dict(kind="bert", size="tiny", d_model=32, num_heads=2, d_ff=64, layers=2, dropout=0.0),
    "transformer": dict(kind="transformer", d_model=32, num_heads=2, d_ff=64, layers=2, dropout=0.0),
    "recurrent": dict(kind="recurrent", d_model=32, layers=1, dropout=0.0),
}


def write_classes(folder: Path) -> None:
    """One word somewhere in the text says which class it is."""
    for part, count in (("train", 400), ("valid", 40), ("test", 60)):
        rng = random.Random(part)
        with (folder / f"{part}.jsonl").open("w", encoding="utf-8") as stream:
            for _ in range(count):
                label = rng.choice(list(CUES))
                words = [*rng.choices(WORDS, k=rng.randint(2, 7)), rng.choice(CUES[label])]
                rng.shuffle(words)
                stream.write(json.dumps({"text": " ".join(words), "label": label}) + "\n")


def write_likeness(folder: Path) -> None:
    """How much of the second text is of winter, 0 to 1."""
    for part, count in (("train", 500), ("valid", 40), ("test", 60)):
        rng = random.Random(part)
        with (folder / f"{part}.jsonl").open("w", encoding="utf-8") as stream:
            for _ in range(count):
                cold = rng.randint(0, 4)
                pair = ["winter"] * cold + ["garden"] * (4 - cold)
                rng.shuffle(pair)
                example = {"text": rng.choice(WORDS), "pair": " ".join(pair), "label": cold / 4}
                stream.write(json.dumps(example) + "\n")


def recipe(folder: Path, task: str, model: str, start: str = "", **training: Any) -> Any:
    values = {
        "name": "small", "task": task, "start_from": start,
        "data": {
            "root": str(folder), "max_length": 24, "drop_duplicates": False,
            **{part: {"file": f"{part}.jsonl"} for part in ("train", "valid", "test")},
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
    task, examples = run.task(), run.examples("test")
    said = list(task.predict(run.model("best"), examples))
    return {name: score.value for name, score in task.scores(examples, said).items()}


@pytest.mark.parametrize("model", MODELS)
def test_classes_are_learnt(tmp_path: Path, model: str) -> None:
    write_classes(tmp_path)
    outcome = train(recipe(tmp_path, "classification", model), tmp_path / "run", say=lambda _: None).outcome
    assert outcome.best is not None and outcome.best > 95
    found = scores(tmp_path / "run")
    assert found["accuracy"] > 95 and found["f1"] > 95, found


@pytest.mark.parametrize("model", MODELS)
def test_numbers_are_learnt(tmp_path: Path, model: str) -> None:
    write_likeness(tmp_path)
    train(recipe(tmp_path, "regression", model, max_epochs=12), tmp_path / "run", say=lambda _: None)
    found = scores(tmp_path / "run")
    assert found["pearson"] > 90 and found["spearman"] > 90, found


def test_one_class_is_nothing_to_tell_apart(tmp_path: Path) -> None:
    for part in ("train", "valid", "test"):
        lines = [json.dumps({"text": word, "label": "same"}) + "\n" for word in WORDS]
        (tmp_path / f"{part}.jsonl").write_text("".join(lines), encoding="utf-8")
    with pytest.raises(UserError, match="are of one class, 'same'"):
        train(recipe(tmp_path, "classification", "bert"), tmp_path / "run", say=lambda _: None)


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(sorted((run / "checkpoints").glob("step-*"))[-1] / "model.safetensors")


def test_killed_and_resumed_is_uninterrupted_to_the_bit(tmp_path: Path) -> None:
    write_classes(tmp_path)
    models = MODELS["bert"] | {"dropout": 0.1}
    short = recipe(tmp_path, "classification", "bert", max_epochs=2, checkpoint_every=7, accumulation=2)
    short = short.model_copy(update={"model": short.model.model_copy(update=models)})

    def run(name: str, **more: Any) -> Path:
        train(short, tmp_path / name, say=lambda _: None, **more)
        return tmp_path / name

    whole = run("whole", log=Logs([MetricsFile(tmp_path / "whole" / "metrics.jsonl")]))
    with pytest.raises(KilledError):
        run("killed", log=DyingLog(tmp_path / "killed", 18))
    killed = run("killed", resume=True, log=Logs([MetricsFile(tmp_path / "killed" / "metrics.jsonl")]))
    expected, found = weights(whole), weights(killed)
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_run_begins_with_what_another_has_learnt(tmp_path: Path) -> None:
    write_classes(tmp_path)
    train(recipe(tmp_path, "classification", "transformer"), tmp_path / "first", say=lambda _: None)
    again = recipe(tmp_path, "classification", "transformer", str(tmp_path / "first"), max_steps=1, learning_rate=1e-9)
    train(again, tmp_path / "second", say=lambda _: None)
    assert scores(tmp_path / "second") == scores(tmp_path / "first")  # the head too: it says the same

    other = tmp_path / "other"
    other.mkdir()
    write_likeness(other)
    start = str(tmp_path / "first")
    values = recipe(other, "regression", "transformer", start, max_steps=1, learning_rate=1e-9)
    train(values, other / "third", say=lambda _: None)
    first, third = (Run.open(folder).model().state_dict() for folder in (tmp_path / "first", other / "third"))
    assert all(torch.allclose(first[n], third[n], atol=1e-6) for n in first if n.startswith("encoder."))
    assert first["head.weight"].shape != third["head.weight"].shape
    assert (other / "third" / "tokenizer.json").read_bytes() == (tmp_path / "first" / "tokenizer.json").read_bytes()


def test_the_model_of_the_run_to_start_from_need_not_be_written(tmp_path: Path) -> None:
    write_classes(tmp_path)
    train(recipe(tmp_path, "classification", "recurrent", max_steps=1), tmp_path / "first", say=lambda _: None)
    data = {"root": str(tmp_path), **{part: {"file": f"{part}.jsonl"} for part in ("train", "valid")}}
    plain = {"name": "more", "task": "classification", "start_from": str(tmp_path / "first"), "data": data}
    found = build_recipe(plain, "test")
    assert found.model.model_dump() | {"dropout": 0} == Run.open(tmp_path / "first").recipe.model.model_dump() | {
        "dropout": 0
    }
    assert found.training.monitor == "accuracy" and found.text.vocab_size == 200


def test_what_would_have_no_effect_is_refused_and_no_bound_stays_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="label_smoothing is for classes"):
        recipe(tmp_path, "regression", "bert", label_smoothing=0.1)
    with pytest.raises(UserError, match="r_drop is for translators"):
        recipe(tmp_path, "tagging", "bert", r_drop=1.0)
    endless = recipe(tmp_path, "classification", "bert", max_epochs=0, max_steps=70)
    again: Any = build_recipe(tomllib.loads(endless.to_toml()), "test")
    assert again == endless and again.training.settled(10).max_steps == 70
    assert recipe(tmp_path, "classification", "bert", max_steps=70).training.settled(5).max_steps == 40
