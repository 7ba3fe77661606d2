"""BERT pretraining learns both tasks, resumes exactly after a crash, and trains in several processes."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cli.command import fails, regard
from tests.system.helpers import (
    CrashError,
    CrashingLog,
    assert_same_checkpoint,
    run_successfully,
    saved_tensors,
    train_quietly,
)
from tests.training.toy import written_metrics

from regard.errors import UserError
from regard.recipe import Recipe
from regard.run.model import Model
from regard.run.run import Run
from regard.runtime import World, seed_everything
from regard.tasks.operations import open_store
from regard.tasks.registry import build_recipe

TOPICS = [
    "cats chase mice", "saws cut wood", "pears taste sweet", "ships sail far", "bells ring loud", "girls jump rope",
]  # fmt: skip


def write_texts(folder: Path) -> None:
    """Documents that repeat one of six sentences.

    A masked word follows from its position and its neighbours. Two texts are of one document if they are equal; once in
    six times they are equal by chance.
    """
    for split, count in (("train", 240), ("valid", 40), ("test", 40)):
        rng = random.Random(split)
        documents = [[rng.choice(TOPICS)] * rng.randint(6, 12) for _ in range(count)]
        (folder / f"{split}.txt").write_text("\n\n".join("\n".join(lines) for lines in documents), encoding="utf-8")


def make_recipe(folder: Path, **changes: dict[str, Any]) -> Recipe:
    values: dict[str, Any] = {
        "name": "small",
        "task": "pretraining",
        "data": {
            "root": str(folder), "max_length": 21, "workers": 1,
            **{split: {"file": f"{split}.txt"} for split in ("train", "valid", "test")},
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


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a trained run."""
    folder = tmp_path_factory.mktemp("pretraining")
    write_texts(folder)
    train_quietly(make_recipe(folder), folder / "run")
    return folder / "run"


def test_bert_learns_masked_words_and_next_sentences(pretrained: Path) -> None:
    model = Model.load(pretrained, device="cpu")
    scores = {score.name: score.value for score in model.evaluate("test").scores}
    assert scores["masked accuracy"] > 95, scores
    # Half of the pairs are of two documents, and one in six of these is equal by chance: 92 % can be known.
    assert scores["next sentence accuracy"] > 82, scores
    predictions = list(
        model.predict(
            [
                {"text": "cats [MASK] mice cats chase mice", "pair": "cats chase mice"},
                {"text": "pears taste [MASK] pears taste sweet", "pair": "saws cut wood"},
            ]
        )
    )
    assert [prediction["masks"][0][0]["token"] for prediction in predictions] == ["chase", "sweet"]
    assert predictions[0]["next"] > 0.5 > predictions[1]["next"]


def test_evaluate_command(pretrained: Path) -> None:
    result = regard("evaluate", pretrained, "--json", "--device", "cpu")
    assert result.status == 0, result.err
    scores = {score["name"]: score["value"] for score in json.loads(result.out)["scores"]}
    assert scores["masked accuracy"] > 95 and scores["masked perplexity"] < 1.3


def test_run_starts_with_tokenizer_and_weights_of_another(pretrained: Path, tmp_path: Path) -> None:
    write_texts(tmp_path)
    recipe = make_recipe(tmp_path, training={"max_steps": 1, "warmup": 0, "learning_rate": 1e-7, "validate_every": 1})
    trained = train_quietly(recipe.model_copy(update={"start_from": str(pretrained)}), tmp_path / "more")
    assert trained.outcome.metrics["masked_accuracy"] > 95
    assert (tmp_path / "more" / "tokenizer.json").read_bytes() == (pretrained / "tokenizer.json").read_bytes()


def test_run_without_data_cannot_be_trained_or_evaluated(pretrained: Path, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "imported", make_recipe(tmp_path, data={"train": [], "valid": [], "test": []}))
    assert fails("train", run.folder).code == "no-data"
    with pytest.raises(UserError) as error:
        open_store(replace(Run.open(pretrained).task, recipe=run.recipe), tmp_path, "test")
    assert (error.value.code, error.value.where) == ("no-data", "data.test")


def test_next_sentences_need_two_documents(tmp_path: Path) -> None:
    write_texts(tmp_path)
    single = {"file": "valid.txt", "boundary": "file"}
    with pytest.raises(UserError) as error:
        train_quietly(make_recipe(tmp_path, data={"valid": single}), tmp_path / "run")
    assert (error.value.code, error.value.where) == ("one-document", "data.next_sentence")
    recipe = make_recipe(
        tmp_path,
        data={"valid": single, "next_sentence": False, "whole_words": True},
        training={"max_steps": 2, "warmup": 1, "validate_every": 2},
    )
    trained = train_quietly(recipe, tmp_path / "run")
    assert set(trained.outcome.metrics) == {"loss", "nll", "masked_accuracy", "masked_perplexity"}
    seed_everything(recipe.runtime.seed, "weights")
    initial, final = trained.run.task.new_model().state_dict(), saved_tensors(tmp_path / "run")
    unused = {"next.weight", "next.bias", "bert.pooler.weight", "bert.pooler.bias"}
    assert {name for name in initial if torch.equal(initial[name], final[name])} == unused, "they do not decay"


@pytest.mark.parametrize(
    ("changes", "code", "where"),
    [
        ({"data": {"max_length": 64}}, "invalid-setting", "data.max_length"),
        ({"training": {"batch_tokens": 16}}, "invalid-setting", "training.batch_tokens"),
        ({"training": {"r_drop": 1.0}}, "unused-setting", "training.r_drop"),
        ({"training": {"monitor": "bleu"}}, "invalid-setting", "training.monitor"),
        ({"model": {"segments": 1}}, "invalid-setting", "model.segments"),
        (
            {"data": {"next_sentence": False}, "training": {"monitor": "next_sentence_accuracy"}},
            "invalid-setting",
            "training.monitor",
        ),
    ],
)
def test_contradicting_settings_are_refused(tmp_path: Path, changes: dict[str, Any], code: str, where: str) -> None:
    with pytest.raises(UserError) as error:
        make_recipe(tmp_path, **changes)
    assert (error.value.code, error.value.where) == (code, where)


def test_resumed_run_equals_uninterrupted_run(tmp_path: Path) -> None:
    write_texts(tmp_path)
    short = dict(max_steps=31, validate_every=10, checkpoint_every=5, log_every=3, accumulation=2, batch_tokens=1024)
    recipe = make_recipe(tmp_path, model={"d_model": 16, "d_ff": 16, "dropout": 0.1}, training=short)
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    train_quietly(recipe, whole)
    with pytest.raises(CrashError):
        train_quietly(recipe, resumed, log=CrashingLog(resumed, after=18))
    train_quietly(recipe, resumed, resume=True)
    task, world = Run.open(whole).task, World(0, 1, 0, torch.device("cpu"), "fp32")
    assert task.batches(open_store(task, whole, "train"), world).steps_in_epoch(0) < 18, "it crashes in a later epoch"
    assert_same_checkpoint(whole, resumed)
    assert written_metrics(resumed) == written_metrics(whole)


def test_two_processes_equal_two_micro_batches(tmp_path: Path) -> None:
    write_texts(tmp_path)
    short = dict(max_steps=10, validate_every=10, learning_rate=1e-3, warmup=1)
    shape = {"d_model": 16, "d_ff": 16}
    train_quietly(make_recipe(tmp_path, model=shape, training=short | {"accumulation": 2}), tmp_path / "one")
    path = tmp_path / "two.toml"
    path.write_text(make_recipe(tmp_path, model=shape, training=short).to_toml(), encoding="utf-8")
    run_successfully("train", path, "--folder", tmp_path / "two", processes=2)
    expected, tensors = saved_tensors(tmp_path / "one"), saved_tensors(tmp_path / "two")
    assert expected.keys() == tensors.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(tensors[name], tensor, atol=1e-4, rtol=1e-3, msg=name)
