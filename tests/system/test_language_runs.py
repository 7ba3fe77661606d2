"""Language models through the whole system: they learn, are interrupted without a trace, and spread over processes."""

import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.system.dying import DyingLog, KilledError
from tests.training.toy import written_metrics

from regard.recipe import build_recipe
from regard.run import Writer, train
from regard.training.state import TrainingState

ROOT = Path(__file__).parents[2]
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
MODELS: dict[str, dict[str, Any]] = {
    "lstm": dict(kind="lstm", d_model=32, layers=1, input_dropout=0.0, output_dropout=0.1, word_dropout=0.0),
    "gru": dict(kind="gru", d_model=32, layers=1, input_dropout=0.0, output_dropout=0.1, word_dropout=0.0),
    "markov": dict(kind="markov", d_model=48, d_embedding=24, history=5, dropout=0.0),
    "transformer": dict(kind="transformer", d_model=32, num_heads=2, d_ff=64, layers=2, dropout=0.0),
    "ngram": dict(kind="ngram", order=5),
}


def write_texts(folder: Path) -> None:
    """Lines that count up from anywhere, modulo ten, in words: after the first word nothing is left to chance."""
    for part, lines in (("train", 300), ("valid", 20), ("test", 30)):
        rng = random.Random(part)
        text = ""
        for _ in range(lines):
            first = rng.randrange(10)
            text += " " + " ".join(NAMES[(first + place) % 10] for place in range(4)) + " . \n"
        (folder / f"{part}.txt").write_text(text, encoding="utf-8")


def recipe(folder: Path, model: str, **training: Any) -> Any:
    values = {
        "name": model,
        "task": "language",
        "data": {
            "root": str(folder), "bptt": 15, "single_blanks": True, "unknown_below": 2, "workers": 1,
            **{part: {"file": f"{part}.txt"} for part in ("train", "valid", "test")},
        },
        "text": {"kind": "token"},
        "model": MODELS[model],
        "training": dict(
            max_steps=160, batch_tokens=150, schedule="constant", learning_rate=1e-2, warmup=10, clip=1.0,
            validate_every=80, monitor="perplexity", samples=1,
        ) | training,
        "runtime": {"device": "cpu", "threads": 1, "seed": 5},
    }  # fmt: skip
    return build_recipe(values, "test")


def weights(run: Path, file: str = "model.safetensors") -> dict[str, torch.Tensor]:
    return load_file(sorted((run / "checkpoints").glob("step-*"))[-1] / file)


@pytest.mark.parametrize("model", MODELS)
def test_a_language_model_learns_to_count(tmp_path: Path, model: str) -> None:
    write_texts(tmp_path)
    trained = train(recipe(tmp_path, model), tmp_path / "run", say=lambda text: None)
    writer = Writer.load(tmp_path / "run", device="cpu")
    found = writer.evaluate(trained.run.recipe.data.test, tmp_path)
    scores = {score.name: score for score in found.scores}
    # One token of six is drawn from ten, the others are certain: exp(ln(10) / 6) = 1.468.
    assert 1.4 < scores["perplexity"].value < 1.6, scores
    assert scores["perplexity"].value == scores["word perplexity"].value
    assert "180 words" in scores["word perplexity"].signature
    assert trained.outcome.best == pytest.approx(scores["perplexity"].value, rel=0.1)
    (line,) = writer.generate(["four five"], search="greedy")
    assert line.texts[0].startswith("four five six ") and line.texts[0].endswith(" .") and line.hypotheses[0].finished
    numbers = [NAMES.index(word) for word in line.texts[0].split()[:-1]]
    assert all((first + 1) % 10 == second for first, second in pairwise(numbers)), line.texts


@pytest.mark.parametrize("model", ["lstm", "markov"])
def test_killed_and_resumed_is_uninterrupted_to_the_bit(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_texts(tmp_path)
    short = recipe(tmp_path, model, max_steps=31, validate_every=10, checkpoint_every=5, log_every=3, accumulation=2)

    def run(name: str, **more: Any) -> Path:
        train(short, tmp_path / name, say=lambda text: None, **more)
        return tmp_path / name

    def killed(name: str) -> Path:
        with pytest.raises(KilledError):
            run(name, log=DyingLog(tmp_path / name, after=18))
        return run(name, resume=True)

    whole, resumed = run("whole"), killed("killed")
    for file in ("model.safetensors", "training.safetensors"):
        expected, found = weights(whole, file), weights(resumed, file)
        assert expected.keys() == found.keys()
        assert all(torch.equal(expected[name], found[name]) for name in expected), file
    assert written_metrics(resumed) == written_metrics(whole)
    # The recurrent state makes the difference: without it the same run ends elsewhere.
    monkeypatch.setattr(TrainingState, "_restore", lambda self, recurrent_state: [])
    assert not torch.equal(weights(killed("forgetful"))["embedding.weight"], weights(whole)["embedding.weight"])


def test_two_processes_are_one_with_two_parts_and_either_goes_on_from_the_other(tmp_path: Path) -> None:
    write_texts(tmp_path)
    quiet = dict(max_steps=12, validate_every=12, learning_rate=1e-3)
    one = recipe(tmp_path, "lstm", accumulation=2, **quiet)
    (tmp_path / "two.toml").write_text(recipe(tmp_path, "lstm", **quiet).to_toml(), encoding="utf-8")
    model = one.model.model_copy(update={"input_dropout": 0.0, "output_dropout": 0.0, "hidden_dropout": 0.0})
    train(one.model_copy(update={"model": model}), tmp_path / "one", say=lambda text: None)
    drops = [f"model.{name}_dropout=0.0" for name in ("input", "output", "hidden")]
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "regard", "train"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *launch, str(tmp_path / "two.toml"), *drops, "-o", str(tmp_path / "two")],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for file in ("model.safetensors", "training.safetensors"):
        expected, found = weights(tmp_path / "one", file), weights(tmp_path / "two", file)
        assert expected.keys() == found.keys(), file
        for name in (name for name in expected if name.startswith(("embedding", "carried"))):
            torch.testing.assert_close(found[name], expected[name], atol=1e-4, rtol=1e-3, msg=name)
    assert {name for name in found if name.startswith("carried:")} == {
        f"carried:{part}.{name}" for part in (0, 1) for name in ("h", "c")
    }
    further = one.model_copy(
        update={"model": model, "training": one.training.model_copy(update={"max_steps": 16, "validate_every": 16})}
    )
    for name in ("one", "two"):
        train(further, tmp_path / name, resume=True, say=lambda text: None)
    after = [weights(tmp_path / name)["embedding.weight"] for name in ("one", "two")]
    torch.testing.assert_close(after[0], after[1], atol=1e-4, rtol=1e-3)
