"""Language models learn, resume exactly after a crash, and train in several processes."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.system.helpers import (
    CrashError,
    CrashingLog,
    assert_same_checkpoint,
    run_successfully,
    saved_tensors,
    train_quietly,
)
from tests.training.toy import written_metrics

from regard.recipe import Recipe
from regard.run.model import Model
from regard.tasks.registry import build_recipe
from regard.training.state import TrainingState

NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
MODELS: dict[str, dict[str, Any]] = {
    "lstm": dict(kind="lstm", d_model=32, layers=1, input_dropout=0.0, output_dropout=0.1, word_dropout=0.0),
    "gru": dict(kind="gru", d_model=32, layers=1, input_dropout=0.0, output_dropout=0.1, word_dropout=0.0),
    "markov": dict(kind="markov", d_model=48, d_embedding=24, history=5, dropout=0.0),
    "transformer": dict(kind="transformer", d_model=32, num_heads=2, d_ff=64, layers=2, dropout=0.0),
    "ngram": dict(kind="ngram", order=5),
}
TRAINING = dict(
    max_steps=160, batch_tokens=150, schedule="constant", learning_rate=1e-2, warmup=10, clip=1.0, validate_every=80,
)  # fmt: skip
NO_DROPOUT = {"input_dropout": 0.0, "output_dropout": 0.0, "hidden_dropout": 0.0}


def write_texts(folder: Path) -> None:
    """Lines that count up from a random number, modulo ten: only the first word is random."""
    for split, lines in (("train", 300), ("valid", 20), ("test", 30)):
        rng = random.Random(split)
        text = ""
        for _ in range(lines):
            first = rng.randrange(10)
            text += " " + " ".join(NUMBERS[(first + offset) % 10] for offset in range(4)) + " . \n"
        (folder / f"{split}.txt").write_text(text, encoding="utf-8")


def make_recipe(folder: Path, model: str, changes: dict[str, float] | None = None, **training: Any) -> Recipe:
    trained = {} if model == "ngram" else TRAINING
    values = {
        "name": model,
        "task": "language",
        "data": {
            "root": str(folder), "bptt": 15, "single_blanks": True, "min_word_count": 2, "workers": 1,
            **{split: {"file": f"{split}.txt"} for split in ("train", "valid", "test")},
        },
        "text": {"kind": "token"},
        "model": MODELS[model] | (changes or {}),
        "training": {"monitor": "perplexity", "samples": 1, **trained, **training},
        "runtime": {"device": "cpu", "threads": 1, "seed": 5},
    }  # fmt: skip
    return build_recipe(values, "test")


@pytest.mark.parametrize("kind", MODELS)
def test_language_model_learns_to_count(tmp_path: Path, kind: str) -> None:
    write_texts(tmp_path)
    trained = train_quietly(make_recipe(tmp_path, kind), tmp_path / "run")
    model = Model.load(tmp_path / "run", device="cpu")
    scores = {score.name: score for score in model.evaluate("test").scores}
    # One token of six is uniform over ten words, the others are certain: exp(ln(10) / 6) = 1.468.
    assert 1.4 < scores["perplexity"].value < 1.6, scores
    assert scores["perplexity"].value == scores["word perplexity"].value
    assert "180 words" in scores["word perplexity"].signature
    assert trained.outcome.best == pytest.approx(scores["perplexity"].value, rel=0.1)
    (prediction,) = model.predict(["four five"], search="greedy")
    continuation = prediction["continuations"][0]
    text = continuation["text"]
    assert text.startswith("four five six ") and text.endswith(" .") and continuation["finished"]
    numbers = [NUMBERS.index(word) for word in text.split()[:-1]]
    assert all((first + 1) % 10 == second for first, second in pairwise(numbers)), text


@pytest.mark.parametrize("kind", ["lstm", "markov"])
def test_resumed_run_equals_uninterrupted_run(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_texts(tmp_path)
    recipe = make_recipe(
        tmp_path, kind, max_steps=31, validate_every=10, checkpoint_every=5, log_every=3, accumulation=2
    )

    def crash_and_resume(folder: Path) -> Path:
        with pytest.raises(CrashError):
            train_quietly(recipe, folder, log=CrashingLog(folder, after=18))
        train_quietly(recipe, folder, resume=True)
        return folder

    whole = tmp_path / "whole"
    train_quietly(recipe, whole)
    resumed = crash_and_resume(tmp_path / "resumed")
    assert_same_checkpoint(whole, resumed)
    assert written_metrics(resumed) == written_metrics(whole)
    # Without the recurrent state in the checkpoint the weights differ.
    monkeypatch.setattr(TrainingState, "_restore", lambda self, recurrent_state: [])
    stateless = saved_tensors(crash_and_resume(tmp_path / "stateless"))
    assert not torch.equal(stateless["embedding.weight"], saved_tensors(whole)["embedding.weight"])


def test_two_processes_equal_two_micro_batches_and_each_run_resumes_the_other(tmp_path: Path) -> None:
    write_texts(tmp_path)
    short = dict(max_steps=12, validate_every=12, learning_rate=1e-3)
    train_quietly(make_recipe(tmp_path, "lstm", NO_DROPOUT, accumulation=2, **short), tmp_path / "one")
    path = tmp_path / "two.toml"
    path.write_text(make_recipe(tmp_path, "lstm", NO_DROPOUT, **short).to_toml(), encoding="utf-8")
    run_successfully("train", path, "--folder", tmp_path / "two", processes=2)
    for file in ("model.safetensors", "training.safetensors"):
        expected, tensors = saved_tensors(tmp_path / "one", file), saved_tensors(tmp_path / "two", file)
        assert expected.keys() == tensors.keys(), file
        for name in (name for name in expected if name.startswith(("embedding", "carried"))):
            torch.testing.assert_close(tensors[name], expected[name], atol=1e-4, rtol=1e-3, msg=name)
    assert {name for name in tensors if name.startswith("carried:")} == {
        f"carried:{shard}.{name}" for shard in (0, 1) for name in ("h", "c")
    }
    longer = make_recipe(tmp_path, "lstm", NO_DROPOUT, accumulation=2, **short | dict(max_steps=16, validate_every=16))
    for name in ("one", "two"):
        train_quietly(longer, tmp_path / name, resume=True)
    after = [saved_tensors(tmp_path / name)["embedding.weight"] for name in ("one", "two")]
    torch.testing.assert_close(after[0], after[1], atol=1e-4, rtol=1e-3)
