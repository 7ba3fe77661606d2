"""A recipe that names training data only: valid is held out of it, in training, resuming, evaluating and the doctor."""

import json
from pathlib import Path

import pytest
from tests.cli.command import fails, regard
from tests.tiny import write_recipe

from regard.data.store import fingerprint_of
from regard.doctor.examine import examine
from regard.run.run import Run

SHORT: dict[str, object] = {
    "data.valid": [], "data.test": [], "training.max_steps": 2, "training.validate_every": 1, "training.warmup": 1,
}  # fmt: skip


@pytest.mark.parametrize("task", ["translation", "parsing", "language", "pretraining", "classification"])
def test_training_data_is_enough(task: str, tmp_path: Path) -> None:
    recipe, run = write_recipe(tmp_path, task, settings=SHORT), tmp_path / "run"
    trained = regard("train", recipe, "--folder", run)
    assert trained.status == 0, trained.err
    opened = Run.open(run).task
    train, valid = ([json.dumps(example) for example in opened.read(split)] for split in ("train", "valid"))
    assert train and valid and (task == "language" or not set(train) & set(valid)), "lines of text may repeat"
    evaluated = regard("evaluate", run, "--on", "valid", "--json")
    assert evaluated.status == 0, evaluated.err
    assert fails("evaluate", run).code == "no-data", "there is no test"
    before = [fingerprint_of(run / "store" / split) for split in ("train", "valid")]
    resumed = regard("train", recipe, "--folder", run, "--resume", "training.max_steps=3")
    assert resumed.status == 0, resumed.err
    assert before == [fingerprint_of(run / "store" / split) for split in ("train", "valid")], "the same data"
    assert fails("train", recipe, "--folder", run, "--resume", "data.hold_out=0.3").code == "changed-run"


def test_the_vocabulary_is_learnt_from_what_is_left(tmp_path: Path) -> None:
    words = [f"w{n}" for n in range(40)]
    (tmp_path / "a.txt").write_text("".join(f"{word} {word}\n" for word in words), encoding="utf-8")
    settings = {"data.train": "a.txt", "data.valid": [], "data.test": [], "data.min_word_count": 0}
    recipe, run = write_recipe(tmp_path, "language", "ngram", settings), tmp_path / "run"
    assert regard("train", recipe, "--folder", run).status == 0
    task = Run.open(run).task
    held = {example["text"].split()[0] for example in list(task.read("valid"))}
    known = {word for word in words if len(task.tokenizers["source"].encode(word)) == 1}
    assert len(held) == 4 and known == set(words) - held


def test_a_held_out_test_set_is_evaluated(tmp_path: Path) -> None:
    recipe, run = write_recipe(tmp_path, "translation", settings=SHORT | {"data.hold_out_test": 0.2}), tmp_path / "run"
    assert regard("train", recipe, "--folder", run).status == 0
    sizes = {split: len(list(Run.open(run).task.read(split))) for split in ("train", "valid", "test")}
    values = json.loads(regard("evaluate", run, "--json").out)
    assert values["examples"] == sizes["test"] > 0 and sizes["valid"] > 0
    assert regard("align", run).status == 0


def test_long_pairs_that_are_held_out_are_filtered_as_in_training(tmp_path: Path) -> None:
    """Otherwise the model has too few positions for the validation data, and training cannot start."""
    positions = {"data.max_length": 8, "model.positions": "learned", "model.max_positions": 8}
    recipe = write_recipe(tmp_path, "translation", settings=SHORT | {"data.hold_out": 0.5} | positions)
    for side in ("src", "tgt"):
        path = tmp_path / f"train.{side}"
        long = "".join(f"{' '.join(['one'] * n)}\n" for n in range(10, 40))
        path.write_text(path.read_text(encoding="utf-8") + long, encoding="utf-8")
    result = regard("train", recipe, "--folder", tmp_path / "run")
    assert result.status == 0, result.err


@pytest.mark.parametrize("task", ["translation", "language", "pretraining"])
def test_the_doctor_examines_what_is_held_out(task: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, task, settings=SHORT)
    checks = {check.name: check for check in examine(recipe, quick=True)}
    assert checks["files"].status != "fail" and "schedule" in checks
