"""A kill or a disk error at every file operation: nothing is lost, and the same command then succeeds."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from tests.faults import Action, failed_everywhere, faults_everywhere, killed_everywhere, leftovers
from tests.run.test_run import quiet, small_recipe

from regard import files
from regard.data.store import Store, StoreWriter, open_or_write
from regard.files import remove_leftovers, replacing
from regard.run import distill as distilling
from regard.run.distill import distill
from regard.run.run import Run
from regard.training.averaging import average_checkpoints
from regard.training.checkpoint import Checkpoints, find_damage, read_weights, step_of
from regard.work import recall

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files left open by a kill


@pytest.fixture(autouse=True)
def quick_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power fails here; `tests.faults` still counts the calls."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture(params=["exchange", "two renames"])
def exchange(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Folders are exchanged in one step, or renamed in two where the file system cannot exchange."""
    if request.param == "two renames":
        monkeypatch.setattr(files, "_exchange", lambda first, second: False)
    return bool(request.param == "exchange")


def save(checkpoints: Checkpoints, step: int, value: float, best: int) -> None:
    tensors = {"w": torch.full((4,), float(value))}
    checkpoints.save(step, tensors, {"exp_avg:w": tensors["w"]}, {"step": step, "score": value, "best_step": best})


def value_of(checkpoint: Path) -> float:
    assert find_damage(checkpoint) is None
    return float(read_weights(checkpoint)["w"][0])


# ---- replacing -------------------------------------------------------------------------------------------------------


def write_folder(folder: Path, text: str) -> None:
    with replacing(folder / "x", folder=True) as path:
        (path / "a").write_text(text)
        (path / "below").mkdir()
        (path / "below" / "b").write_text(text)


def read_folder(folder: Path) -> set[str]:
    assert sorted(path.name for path in (folder / "x").rglob("*")) == ["a", "b", "below"]
    return {path.read_text() for path in (folder / "x").rglob("*") if path.is_file()}


@pytest.mark.parametrize("kill", [True, False])
def test_replacing_a_folder_loses_neither_the_old_nor_the_new_one(tmp_path: Path, exchange: bool, kill: bool) -> None:
    seen = set()
    for folder in faults_everywhere(
        tmp_path, lambda folder: write_folder(folder, "old"), lambda folder: write_folder(folder, "new"), kill
    ):
        if not kill or exchange:
            assert read_folder(folder) in ({"old"}, {"new"})
        remove_leftovers(folder)
        assert not leftovers(folder)
        seen |= read_folder(folder)
    assert seen == {"old", "new"}


def test_recovery_can_be_killed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between the two renames, then a kill anywhere in the recovery."""
    monkeypatch.setattr(files, "_exchange", lambda first, second: False)

    def between(folder: Path) -> None:
        write_folder(folder, "new")
        aside = folder / ".x.abc.partial"
        write_folder(aside, "new")
        (folder / "x").rename(aside / ".replaced")

    for folder in killed_everywhere(tmp_path, between, remove_leftovers):
        write_folder(folder, "newest")
        assert read_folder(folder) == {"newest"} and not leftovers(folder)


# ---- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kill", [True, False])
def test_saving_keeps_a_whole_checkpoint_and_resuming_tidies(tmp_path: Path, kill: bool) -> None:
    def before(folder: Path) -> None:
        for step in (1, 2, 3):
            save(Checkpoints(folder, keep=2), step, step, best=1)

    def action(folder: Path) -> None:
        save(Checkpoints(folder, keep=2), 4, 4.0, best=4)

    newest = set()
    for folder in faults_everywhere(tmp_path, before, action, kill):
        checkpoints = Checkpoints(folder, keep=2)
        assert [step_of(path) for path in checkpoints.all()] == [value_of(path) for path in checkpoints.all()]
        last = step_of(checkpoints.all()[-1])
        checkpoints.set_aside_after(last)
        assert [step_of(path) for path in checkpoints.all()] == ([3, 4] if last == 4 else [1, 2, 3])
        index = json.loads((folder / "checkpoints.json").read_text())
        assert (index["last"], index["best"]) == (f"step-{last:08}", f"step-{4 if last == 4 else 1:08}")
        assert {path.name for path in checkpoints.all()} == set(index["scores"])
        assert not leftovers(folder)
        newest.add(last)
    assert newest == {3, 4}


@pytest.mark.parametrize("kill", [True, False])
def test_the_only_checkpoint_can_be_written_again(tmp_path: Path, exchange: bool, kill: bool) -> None:
    def write(value: float) -> Action:
        return lambda folder: save(Checkpoints(folder), 1, value, best=1)

    seen = set()
    for folder in faults_everywhere(tmp_path, write(1.0), write(2.0), kill):
        remove_leftovers(folder)
        assert [path.name for path in Checkpoints(folder).all()] == ["step-00000001"]
        seen.add(value_of(Checkpoints(folder).resolve("last")))
    assert seen == {1.0, 2.0}


@pytest.mark.parametrize("kill", [True, False])
def test_averaging_keeps_the_old_average_until_the_new_one_is_there(tmp_path: Path, exchange: bool, kill: bool) -> None:
    def average(*steps: int) -> Action:
        def run(folder: Path) -> None:
            checkpoints = Checkpoints(folder)
            paths = [checkpoints.resolve(f"step-{step:08}") for step in steps]
            checkpoints.save_average(average_checkpoints(paths), paths)

        return run

    def before(folder: Path) -> None:
        for step in (1, 2, 3):
            save(Checkpoints(folder), step, step, best=1)
        average(1, 2)(folder)

    for folder in faults_everywhere(tmp_path, before, average(2, 3), kill):
        if not kill or exchange:
            assert value_of(folder / "averaged") in (1.5, 2.5)
        assert [value_of(path) for path in Checkpoints(folder).all()] == [1, 2, 3]
        average(1, 3)(folder)
        assert value_of(folder / "averaged") == 2.0
        assert not leftovers(folder), "the next average removes them"


# ---- preparation -----------------------------------------------------------------------------------------------------


def open_store(folder: Path, value: int) -> Store:
    def write(writer: StoreWriter) -> dict[str, int]:
        writer.append({"x": (np.full(3, value, np.int32), np.array([1, 2], np.int32))})
        return {"rows": 2}

    return open_or_write(folder / "store" / "train", f"inputs {value}", {"x": np.int32}, write)


@pytest.mark.parametrize("kill", [True, False])
def test_a_store_is_current_or_built_again(tmp_path: Path, exchange: bool, kill: bool) -> None:
    def build(value: int) -> Action:
        return lambda folder: open_store(folder, value)

    for folder in faults_everywhere(tmp_path, build(1), build(2), kill):
        assert open_store(folder, 2).values("x").tolist() == [2, 2, 2]
        remove_leftovers(folder / "store")
        assert not leftovers(folder)


def test_a_vocabulary_of_other_text_is_never_kept(tmp_path: Path) -> None:
    """Preparation is killed, the text changes, and preparation starts again."""
    texts = {"first": "aaa aab abb\tbbb\n" * 30, "second": "xxy xyy yyx\tyyx\n" * 30}
    recipe = small_recipe(tmp_path, text={"vocab_size": 270})

    def prepare(folder: Path, text: str) -> bytes:
        (tmp_path / "train.tsv").write_text(texts[text])
        run = Run.create(folder / "run", recipe)
        run.prepare(quiet)
        return (folder / "run" / "tokenizer.json").read_bytes()

    (tmp_path / "fresh").mkdir()
    expected = prepare(tmp_path / "fresh", "second")
    (tmp_path / "kills").mkdir()
    for folder in killed_everywhere(tmp_path / "kills", lambda folder: None, lambda folder: prepare(folder, "first")):
        assert prepare(folder, "second") == expected
        Run.open(folder / "run").check_manifest()


# ---- distillation ----------------------------------------------------------------------------------------------------


class Teacher:
    """A translator that turns lines round."""

    task = SimpleNamespace(read=lambda split: ({"src": f"line {number}"} for number in range(5)))
    world = SimpleNamespace(device=SimpleNamespace(type="cpu"))

    def predict(self, lines: list[str]) -> Iterator[dict[str, str]]:
        turned = recall(lines, lambda: [line[::-1] for line in lines])  # as an engine does for its batches
        return ({"translation": line} for line in turned)

    def made_from(self) -> dict[str, object]:
        return {"weights": "w"}


@pytest.mark.parametrize("faulty", [killed_everywhere, failed_everywhere])
def test_an_interrupted_distillation_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faulty: Any) -> None:
    monkeypatch.setattr(distilling, "CHUNK_LINES", 2)
    monkeypatch.setattr(distilling, "origin", lambda translator, options: {"weights": "w"})
    teacher = cast(Any, Teacher())

    def contents(folder: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (folder / "out").iterdir() if path.name != ".lock"}

    distill(teacher, tmp_path / "whole" / "out")
    expected, before = contents(tmp_path / "whole"), set()
    assert set(expected) == {"train.src", "train.tgt", "train.manifest.json"}
    (tmp_path / "faults").mkdir()
    for folder in faulty(tmp_path / "faults", lambda folder: None, lambda folder: distill(teacher, folder / "out")):
        before.add(distill(teacher, folder / "out").before)
        assert contents(folder) == expected
    assert before >= {0, 2, 4}
