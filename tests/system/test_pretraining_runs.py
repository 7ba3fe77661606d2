"""A BERT through the whole system: it learns both questions, is interrupted without a trace, spreads over processes."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.cli.command import refused, regard
from tests.system.dying import DyingLog, KilledError
from tests.training.toy import written_metrics

from regard.errors import UserError
from regard.recipe import build_recipe
from regard.run import PretrainingRun, Run, train
from regard.runtime import World, seed_everything

ROOT = Path(__file__).parents[2]
TOPICS = [
    "cats chase mice", "saws cut wood", "pears taste sweet", "ships sail far", "bells ring loud", "girls jump rope",
]  # fmt: skip


def write_texts(folder: Path) -> None:
    """Documents that say one of six things again and again: a hidden word follows from its place and its neighbours,
    and two texts are of one document if they say the same, or by luck, once in six."""
    for part, count in (("train", 240), ("valid", 40), ("test", 40)):
        rng = random.Random(part)
        documents = [[rng.choice(TOPICS)] * rng.randint(6, 12) for _ in range(count)]
        (folder / f"{part}.txt").write_text("\n\n".join("\n".join(lines) for lines in documents), encoding="utf-8")


def recipe(folder: Path, **changes: dict[str, Any]) -> Any:
    values: dict[str, Any] = {
        "name": "small",
        "task": "pretraining",
        "data": {
            "root": str(folder), "max_length": 21, "workers": 1,
            **{part: {"file": f"{part}.txt"} for part in ("train", "valid", "test")},
        },
        "text": {"vocab_size": 200},
        "model": dict(d_model=64, num_heads=2, d_ff=128, layers=2, max_positions=32, dropout=0.0,
                      attention_dropout=0.0),
        "training": dict(max_steps=220, batch_tokens=512, learning_rate=4e-3, warmup=30, validate_every=110, samples=1),
        "runtime": {"device": "cpu", "threads": 1, "seed": 1},
    }  # fmt: skip
    for group, settings in changes.items():
        values[group] = values[group] | settings
    return build_recipe(values, "test")


def weights(run: Path, file: str = "model.safetensors") -> dict[str, torch.Tensor]:
    return load_file(sorted((run / "checkpoints").glob("step-*"))[-1] / file)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pretraining")
    write_texts(folder)
    train(recipe(folder), folder / "run", say=lambda text: None)
    return folder / "run"


def test_a_bert_learns_both_questions(learnt: Path) -> None:
    run = Run.open(learnt)
    assert isinstance(run, PretrainingRun)
    scores = {score.name: score.value for score in run.task().score(run.model(), run.store("test"))}
    assert scores["masked accuracy"] > 95, scores
    # Half of the pairs are of two documents, and one in six of these says the same by luck: 92 % can be known.
    assert scores["next sentence accuracy"] > 82, scores
    said = list(
        run.task().predict(
            run.model(),
            [
                {"text": "cats [MASK] mice cats chase mice", "pair": "cats chase mice"},
                {"text": "pears taste [MASK] pears taste sweet", "pair": "saws cut wood"},
            ],
        )
    )
    assert [row["masks"][0][0]["piece"] for row in said] == ["chase", "sweet"]
    assert said[0]["next"] > 0.5 > said[1]["next"]


def test_it_is_evaluated_by_a_command(learnt: Path) -> None:
    result = regard("evaluate", learnt, "--json", "--device", "cpu")
    assert result.status == 0, result.err
    scores = {score["name"]: score["value"] for score in json.loads(result.out)["scores"]}
    assert scores["masked accuracy"] > 95 and scores["masked perplexity"] < 1.3


def test_a_run_begins_with_another_s_words_and_weights(learnt: Path, tmp_path: Path) -> None:
    write_texts(tmp_path)
    more = recipe(tmp_path, training={"max_steps": 1, "warmup": 0, "learning_rate": 1e-7, "validate_every": 1})
    more = more.model_copy(update={"start_from": str(learnt)})
    trained = train(more, tmp_path / "more", say=lambda text: None)
    assert trained.outcome.metrics["masked_accuracy"] > 95
    assert (tmp_path / "more" / "tokenizer.json").read_bytes() == (learnt / "tokenizer.json").read_bytes()


def test_a_model_without_texts_says_that_it_has_none(learnt: Path, tmp_path: Path) -> None:
    Run.create(tmp_path / "imported", recipe(tmp_path, data={"train": [], "valid": [], "test": []}))
    assert "was not trained here" in refused("train", tmp_path / "imported")
    with pytest.raises(UserError, match="names no test data"):
        Run.open(tmp_path / "imported").store("test")


def test_one_document_is_too_few_for_two_texts(tmp_path: Path) -> None:
    write_texts(tmp_path)
    single = {"file": "valid.txt", "boundary": "file"}
    with pytest.raises(UserError, match=r"valid\.txt is one document"):
        train(recipe(tmp_path, data={"valid": single}), tmp_path / "run", say=lambda text: None)
    alone = recipe(
        tmp_path,
        data={"valid": single, "next_sentence": False, "whole_words": True},
        training={"max_steps": 2, "warmup": 1, "validate_every": 2},
    )
    trained = train(alone, tmp_path / "run", say=lambda text: None)
    assert set(trained.outcome.metrics) == {"loss", "masked_accuracy", "masked_perplexity"}
    seed_everything(alone.runtime.seed, "weights")
    fresh, found = trained.run.new_model().state_dict(), weights(tmp_path / "run")
    unasked = {"next.weight", "next.bias", "bert.pooler.weight", "bert.pooler.bias"}
    assert {name for name in fresh if torch.equal(fresh[name], found[name])} == unasked, "nor do they decay"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"data": {"max_length": 64}}, "model.max_positions = 32 is shorter than data.max_length = 64"),
        ({"training": {"batch_tokens": 16}}, "training.batch_tokens = 16 is less than one input"),
        ({"training": {"r_drop": 1.0}}, "r_drop is for translators"),
        ({"training": {"monitor": "bleu"}}, "none of next_sentence_accuracy"),
        ({"model": {"segments": 1}}, "model.segments = 1 tells no two apart"),
        (
            {"data": {"next_sentence": False}, "training": {"monitor": "next_sentence_accuracy"}},
            "asks for no next sentence",
        ),
    ],
)
def test_contradictions_are_refused_before_anything_is_computed(
    tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UserError, match=complaint):
        recipe(tmp_path, **changes)


def test_killed_and_resumed_is_uninterrupted_to_the_bit(tmp_path: Path) -> None:
    write_texts(tmp_path)
    quick = dict(max_steps=31, validate_every=10, checkpoint_every=5, log_every=3, accumulation=2, batch_tokens=1024)
    short = recipe(tmp_path, model={"d_model": 16, "d_ff": 16, "dropout": 0.1}, training=quick)

    def run(name: str, **more: Any) -> Path:
        train(short, tmp_path / name, say=lambda text: None, **more)
        return tmp_path / name

    whole = run("whole")
    with pytest.raises(KilledError):
        run("killed", log=DyingLog(tmp_path / "killed", after=18))
    resumed = run("killed", resume=True)
    alone = World(0, 1, 0, torch.device("cpu"), "fp32")
    assert Run.open(whole).batches(alone).steps_in_epoch < 18, "it is killed in a later epoch"
    for file in ("model.safetensors", "training.safetensors"):
        expected, found = weights(whole, file), weights(resumed, file)
        assert expected.keys() == found.keys()
        assert all(torch.equal(expected[name], found[name]) for name in expected), file
    assert written_metrics(resumed) == written_metrics(whole)


def test_two_processes_are_one_with_two_parts(tmp_path: Path) -> None:
    write_texts(tmp_path)
    quick = dict(max_steps=10, validate_every=10, learning_rate=1e-3, warmup=1)
    shape = {"d_model": 16, "d_ff": 16}
    train(recipe(tmp_path, model=shape, training=quick | {"accumulation": 2}), tmp_path / "one", say=lambda text: None)
    (tmp_path / "two.toml").write_text(recipe(tmp_path, model=shape, training=quick).to_toml(), encoding="utf-8")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "regard", "train"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *launch, str(tmp_path / "two.toml"), "-o", str(tmp_path / "two")],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected, found = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert expected.keys() == found.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, atol=1e-4, rtol=1e-3, msg=name)
