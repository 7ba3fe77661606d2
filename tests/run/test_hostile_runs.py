"""Hostile run folders: every command refuses them with a UserError, or works; nothing else happens."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.conftest import TinyRun
from tests.hostile import VALUES, copy_links, hostile_versions, paths_in, replaced, rewrite, sealed

from regard.errors import UserError
from regard.files import checksum, digest
from regard.reading import read_toml
from regard.recipe import to_toml
from regard.run.model import Model
from regard.run.report import learning_rate, loss_curves, read_metrics, run_facts
from regard.run.run import Run
from regard.run.train import train
from regard.runtime import open_world
from regard.tasks.operations import open_store
from regard.training.checkpoint import read_progress
from regard.training.events import TrainingStarted
from regard.training.log import Logs, MetricsFile
from regard.training.progress import LogAccumulator, TrainingProgress

INPUTS: dict[str, Any] = {"classification": "a lovely film", "translation": "one two"}


def quiet(text: str) -> None:
    """Report nothing."""


def failures(path: Path, action: Callable[[], object], values_each: int = 2) -> list[str]:
    """The hostile versions of a file that `action` fails on with anything but a UserError."""
    text, failed = path.read_text(encoding="utf-8"), []
    for name, version in hostile_versions(text, values_each):
        rewrite(path, version)
        try:
            action()
        except UserError as error:
            assert error.code and error.problem
        except Exception as error:
            failed.append(f"{path.name}: {name}: {type(error).__name__}: {error}")
    rewrite(path, text)
    return failed


def newest_state(folder: Path) -> Path:
    return sorted(folder.glob("checkpoints/step-*/state.json"))[-1]


@pytest.fixture
def copied(tiny_run: TinyRun, tmp_path: Path) -> Path:
    """A run of classification whose files may be replaced by `rewrite`, without the manifest that protects them."""
    copy_links(tiny_run("classification"), tmp_path / "run")
    (tmp_path / "run" / "manifest.json").unlink()
    return tmp_path / "run"


# ---- JSON ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", INPUTS)
def test_hostile_json_when_a_run_is_used(task: str, tiny_run: TinyRun, tmp_path: Path) -> None:
    def use() -> None:
        Model.load(tmp_path, device="cpu").predict([INPUTS[task]])

    copy_links(tiny_run(task), tmp_path)
    failed = failures(tmp_path / "manifest.json", lambda: Run.open(tmp_path).task, 1)
    (tmp_path / "manifest.json").unlink()
    for name in ("labels.json", "inputs.json", "tokenizer.json"):
        if (tmp_path / name).exists():
            failed += failures(tmp_path / name, lambda: Run.open(tmp_path).task, 1)
    failed += failures(newest_state(tmp_path), use, 1)
    assert not failed


def test_hostile_labels_of_a_tagger(tiny_run: TinyRun, tmp_path: Path) -> None:
    copy_links(tiny_run("tagging"), tmp_path)
    (tmp_path / "manifest.json").unlink()
    assert not failures(
        tmp_path / "labels.json", lambda: Model.load(tmp_path, device="cpu").predict({"words": ["Ada", "reads"]}), 4
    )


def test_hostile_state_when_training_resumes(copied: Path) -> None:
    path = newest_state(copied)
    world = open_world(Run.open(copied).recipe.runtime)

    def resume() -> None:
        progress = TrainingProgress.from_json(read_progress(path.parent), str(path))
        LogAccumulator(world.device).load(progress.window, world)

    assert not failures(path, resume, 4)


@pytest.mark.parametrize(
    ("key", "value"),
    [("step", "x"), ("step", -1), ("window", {"objective": 1.0}), ("best_step", 1e30), ("unknown", 1)],
)
def test_a_state_that_makes_no_sense_is_not_resumed(copied: Path, key: str, value: object) -> None:
    path = newest_state(copied)
    content = json.loads(path.read_text(encoding="utf-8"))
    rewrite(path, sealed(content | {"progress": content["progress"] | {key: value}}))
    with pytest.raises(UserError) as error:
        train(Run.open(copied).recipe, copied, resume=True, report=quiet, log=Logs())
    assert error.value.code == "damaged-file" and str(copied / "checkpoints") in error.value.where


def test_a_newer_format_is_refused_by_every_use(copied: Path) -> None:
    path = newest_state(copied)
    content = json.loads(path.read_text(encoding="utf-8"))
    rewrite(path, sealed(content | {"format": 99}))
    run = Run.open(copied)
    for action in (
        lambda: run.checkpoints.resolve("best"),
        lambda: run.checkpoints.resolve("last"),
        lambda: Model.load(copied, device="cpu"),
        lambda: train(run.recipe, copied, resume=True, report=quiet, log=Logs()),
    ):
        with pytest.raises(UserError) as error:
            action()
        assert (error.value.code, error.value.where) == ("newer-version", str(path.parent))
    assert path.exists(), "it is not set aside as damaged"


def test_a_manifest_of_a_newer_format_is_refused(tiny_run: TinyRun, tmp_path: Path) -> None:
    copy_links(tiny_run("classification"), tmp_path)
    path = tmp_path / "manifest.json"
    rewrite(path, sealed(json.loads(path.read_text(encoding="utf-8")) | {"format": 99}))
    with pytest.raises(UserError) as error:
        Model.load(tmp_path, device="cpu")
    assert (error.value.code, error.value.where) == ("newer-version", str(tmp_path))


def test_hostile_lines_of_metrics(copied: Path) -> None:
    path = copied / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    kinds = {json.loads(line)["kind"]: line for line in lines}
    model, failed = Model.load(copied, device="cpu"), []
    assert set(kinds) == {"train", "validation"}
    for line in kinds.values():
        for name, version in hostile_versions(line):
            rewrite(path, f"{lines[0]}\n{version}\n")
            try:
                records = read_metrics(copied)
                run_facts(model, records), loss_curves(records), learning_rate(records)
            except UserError as error:
                assert error.where.startswith(f"{path}:2")
            except Exception as error:
                failed.append(f"{name}: {type(error).__name__}: {error}")
            MetricsFile(path).log(TrainingStarted(10**6, 10**6))
            assert path.read_text(encoding="utf-8").startswith(lines[0])
    assert not failed


def test_a_damaged_store_is_built_again(tiny_run: TinyRun, tmp_path: Path) -> None:
    source, run = tiny_run("classification") / "store", Run.open(tiny_run("classification"))
    copy_links(source / "valid", tmp_path / "store" / "valid")
    rows, manifest = len(open_store(run.task, tmp_path, "valid")), tmp_path / "store" / "valid" / "manifest.json"
    entries = {"x": [1, 2, 3, 4, "sum"]}
    digests = json.dumps({"files": entries, "checksum": checksum(entries)})
    for path, text in ((manifest, manifest.read_text(encoding="utf-8")), (manifest.with_name("digests.json"), digests)):
        for _, version in list(hostile_versions(text, 1))[::4]:
            rewrite(path, version)
            assert len(open_store(run.task, tmp_path, "valid")) == rows


# ---- recipe.toml and weights -----------------------------------------------------------------------------------------


def test_hostile_settings_of_a_run(copied: Path) -> None:
    values, failed = read_toml(copied / "recipe.toml"), []
    for number, path in enumerate(paths_in(values)):
        for index in range(3):
            new = VALUES[(3 * number + index) % len(VALUES)]
            try:
                text = to_toml(replaced(values, path, new)).replace("null", "{}").replace("NaN", "nan")
                rewrite(copied / "recipe.toml", text.replace("Infinity", "inf"))
                Run.open(copied)
            except UserError as error:
                assert error.code
            except Exception as error:
                failed.append(f"{path} = {new!r}: {type(error).__name__}: {error}")
    assert not failed


@pytest.mark.parametrize(
    "changes",
    [
        {"layers": 256}, {"d_model": 65536, "d_ff": 65536, "layers": 256}, {"d_ff": 65536}, {"layers": 1},
        {"layers": 10**9}, {"d_model": 10**12}, {"segments": 65536},
    ],
)  # fmt: skip
def test_a_recipe_larger_than_its_weights_is_refused_before_memory_is_used(
    copied: Path, changes: dict[str, int]
) -> None:
    values = read_toml(copied / "recipe.toml")
    values["model"] |= changes
    rewrite(copied / "recipe.toml", to_toml(values))
    actions: list[Callable[[], object]] = [lambda: Model.load(copied, device="cpu").predict("a film")]
    if changes != {"layers": 1}:
        actions.append(lambda: Run.open(copied).initial_model())
    for action in actions:
        with pytest.raises(UserError) as error:
            action()
        assert error.value.code in ("other-model", "invalid-setting")


def test_a_model_larger_than_the_memory_is_refused(copied: Path) -> None:
    shutil.rmtree(copied / "checkpoints")
    values = read_toml(copied / "recipe.toml")
    values["model"] |= {"d_model": 65536, "d_ff": 65536, "layers": 256}
    rewrite(copied / "recipe.toml", to_toml(values))
    with pytest.raises(UserError) as error:
        Run.open(copied).initial_model()
    assert (error.value.code, error.value.where) == ("out-of-memory", "model")


def test_tensors_of_a_checkpoint_that_do_not_fit_are_refused(copied: Path) -> None:
    folder = newest_state(copied).parent
    original = json.loads((folder / "state.json").read_text(encoding="utf-8"))

    def rewrite_tensors(name: str, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
        tensors = load_file(folder / name)
        change(tensors)
        (folder / name).unlink()
        save_file(tensors, folder / name)
        entry = {"bytes": (folder / name).stat().st_size, "sha256": digest(folder / name)}
        content = original | {"files": original["files"] | {name: entry}}
        rewrite(folder / "state.json", sealed(content))

    def shorten_moments(tensors: dict[str, torch.Tensor]) -> None:
        key = next(name for name in tensors if name.startswith("exp_avg:") and tensors[name].dim() == 2)
        tensors[key] = tensors[key][:1].clone()

    rewrite_tensors("training.safetensors", shorten_moments)
    with pytest.raises(UserError) as error:
        train(Run.open(copied).recipe, copied, resume=True, report=quiet, log=Logs())
    assert error.value.code == "damaged-file"


# ---- files that are not regular --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["zero", "pipe", "folder"])
def test_devices_pipes_and_folders_in_a_run_are_refused(copied: Path, kind: str) -> None:
    state = newest_state(copied)
    names = ("recipe.toml", "labels.json", "tokenizer.json", "metrics.jsonl", str(state.relative_to(copied)))
    for name in (*names, str((state.parent / "model.safetensors").relative_to(copied))):
        path = copied / name
        kept = path.with_name("kept")
        path.rename(kept)
        if kind == "zero":
            path.symlink_to("/dev/zero")
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            path.mkdir()
        with pytest.raises(UserError) as error:
            if name == "metrics.jsonl":
                read_metrics(copied)
            else:
                Model.load(copied, device="cpu").predict("a film")
        assert error.value.code in ("not-a-file", "not-a-run", "damaged-file")
        if name == "metrics.jsonl":
            with pytest.raises(UserError) as error:
                MetricsFile(path).log(TrainingStarted(1, 2))
            assert error.value.code == "not-a-file"
        path.rmdir() if kind == "folder" else path.unlink()
        kept.rename(path)
    assert Model.load(copied, device="cpu").predict("a lovely film")["label"] == "good"
