"""Checkpoints: written atomically, checked by checksums, pruned; a damaged one is never used silently."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from tests.training.toy import toy_run, toy_settings

from regard.errors import UserError
from regard.files import checksum, digest
from regard.training import checkpoint as module
from regard.training.checkpoint import Checkpoints, find_damage, read_progress, read_weights, weights_sum


def saved(folder: Path, steps: list[int], keep: int = 10, best: dict[int, int] | None = None) -> Checkpoints:
    """Checkpoints of `steps`; `best` says which step was the best one when a step was saved."""
    checkpoints = Checkpoints(folder, keep)
    for step in steps:
        progress = {"step": step, "score": float(step), "best_step": (best or {}).get(step)}
        checkpoints.save(step, {"w": torch.full((4,), float(step))}, {"exp_avg:w": torch.zeros(4)}, progress)
    return checkpoints


def names(checkpoints: Checkpoints) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in checkpoints.all()]


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def change_a_digit(file: Path) -> None:
    file.write_text(file.read_text().replace('"step": 3', '"step": 4'))


def test_weights_and_progress_are_read_back(tmp_path: Path) -> None:
    path = saved(tmp_path, [3]).resolve("last")
    assert torch.equal(read_weights(path)["w"], torch.full((4,), 3.0))
    assert read_progress(path)["step"] == 3
    assert sorted(file.name for file in path.iterdir()) == ["model.safetensors", "state.json", "training.safetensors"]
    assert len({file.stat().st_mode for file in path.iterdir()}) == 1, "all files have the same permissions"
    assert weights_sum(path) == digest(path / "model.safetensors")


def test_a_checkpoint_without_inputs_in_its_state_is_read(tmp_path: Path) -> None:
    """Earlier versions wrote the same keys without "inputs"."""
    path = saved(tmp_path, [3]).resolve("last")
    state = json.loads((path / "state.json").read_text())
    del state["inputs"], state["sha256"]
    (path / "state.json").write_text(json.dumps({**state, "sha256": checksum(state)}, indent=2))
    assert find_damage(path) is None
    assert read_progress(path)["step"] == 3


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    best = {1: 1, 2: 2, 3: 2, 4: 2, 5: 2, 6: 6, 7: 6}
    checkpoints = saved(tmp_path, [1, 2, 3, 4, 5], keep=2, best=best)
    assert names(checkpoints) == [2, 4, 5]
    index = json.loads((tmp_path / "checkpoints.json").read_text())
    assert (index["best"], index["last"]) == ("step-00000002", "step-00000005")
    assert index["scores"] == {"step-00000002": 2.0, "step-00000004": 4.0, "step-00000005": 5.0}
    checkpoints = saved(tmp_path, [6, 7], keep=1, best=best)
    assert names(checkpoints) == [6, 7]


def test_names_are_resolved_even_without_the_index(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, [1, 2, 3], best={1: 1, 2: 2, 3: 2})
    (tmp_path / "checkpoints.json").unlink()
    names = [checkpoints.resolve(name).name for name in ("best", "last", "step-00000001")]
    assert names == ["step-00000002", "step-00000003", "step-00000001"]
    for name in ("averaged", "../step-00000001"):
        with pytest.raises(UserError) as error:
            checkpoints.resolve(name)
        assert (error.value.code, error.value.where) == ("no-checkpoint", str(tmp_path))
        assert "step-00000001, step-00000002" in error.value.remedy
    with pytest.raises(UserError) as error:
        Checkpoints(tmp_path / "empty").resolve("best")
    assert error.value.code == "no-checkpoint"


@pytest.mark.parametrize(
    ("harm", "file"),
    [
        (truncate, "model.safetensors"),
        (flip_a_bit, "model.safetensors"),
        (flip_a_bit, "training.safetensors"),
        (truncate, "state.json"),
        (change_a_digit, "state.json"),
        (Path.unlink, "model.safetensors"),
        (Path.unlink, "state.json"),
    ],
)
def test_the_newest_undamaged_checkpoint_is_used(tmp_path: Path, harm: Callable[[Path], object], file: str) -> None:
    checkpoints = saved(tmp_path, [1, 2, 3])
    harm(tmp_path / "step-00000003" / file)
    good, problems = checkpoints.newest_undamaged()
    assert good == tmp_path / "step-00000002"
    assert len(problems) == 1 and str(tmp_path / "step-00000003" / file) in problems[0]


def test_resolving_a_damaged_checkpoint_suggests_an_intact_one(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, [1, 2, 3])
    truncate(tmp_path / "step-00000003" / "model.safetensors")
    flip_a_bit(tmp_path / "step-00000002" / "model.safetensors")
    with pytest.raises(UserError) as error:
        checkpoints.resolve("last")
    assert (error.value.code, error.value.where) == ("damaged-file", str(tmp_path / "step-00000003"))
    assert "step-00000001" in error.value.remedy
    with pytest.raises(UserError) as error:
        read_weights(tmp_path / "step-00000003")
    assert error.value.where == str(tmp_path / "step-00000003" / "model.safetensors")


def test_training_resumes_from_the_last_undamaged_checkpoint_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = toy_settings(max_steps=40, checkpoint_every=10)
    toy_run(tmp_path / "whole", settings)
    toy_run(tmp_path / "hurt", toy_settings(max_steps=30, checkpoint_every=10))
    truncate(tmp_path / "hurt" / "checkpoints" / "step-00000030" / "training.safetensors")
    capsys.readouterr()
    toy_run(tmp_path / "hurt", settings)
    output = capsys.readouterr().err
    assert "step-00000030/training.safetensors is damaged" in output and "resumes from step-00000020" in output
    ends = [read_weights(Checkpoints(tmp_path / name / "checkpoints").resolve("last")) for name in ("whole", "hurt")]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    assert find_damage(tmp_path / "hurt" / "checkpoints" / "step-00000030") is None


def test_training_is_refused_if_every_checkpoint_is_damaged(tmp_path: Path) -> None:
    toy_run(tmp_path, toy_settings(max_steps=20))
    truncate(tmp_path / "checkpoints" / "step-00000020" / "model.safetensors")
    with pytest.raises(UserError) as error:
        toy_run(tmp_path, toy_settings(max_steps=20))
    assert (error.value.code, error.value.where) == ("damaged-file", str(tmp_path / "checkpoints"))


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    toy_run(tmp_path, toy_settings(max_steps=20))
    half = tmp_path / "checkpoints" / ".step-00000040.x.partial"
    (half / "step-00000040").mkdir(parents=True)
    toy_run(tmp_path, toy_settings(max_steps=21))
    assert not half.exists()


def fsync_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)


def library_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(module, "save_file", full)


@pytest.mark.parametrize("fill", [fsync_fails, library_fails])
def test_a_full_disk_leaves_the_last_checkpoint_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fill: Callable[[pytest.MonkeyPatch], None]
) -> None:
    checkpoints = saved(tmp_path, [1], keep=1)
    with monkeypatch.context() as patch:
        fill(patch)
        with pytest.raises(UserError) as error:
            saved(tmp_path, [2], keep=1)
    assert error.value.code == "disk-full" and "step-00000002" in error.value.where
    assert names(checkpoints) == [1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoints.json", "step-00000001"]
    assert checkpoints.newest_undamaged() == (tmp_path / "step-00000001", [])


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FORMAT", 99)
    path = saved(tmp_path, [1]).resolve("last")
    monkeypatch.undo()
    with pytest.raises(UserError) as error:
        read_progress(path)
    assert error.value.code == "newer-version"


@pytest.mark.parametrize("harm", [truncate, lambda file: file.write_text(file.read_text().replace(": 2", ": 1"))])
def test_the_best_checkpoint_needs_the_newest_state(tmp_path: Path, harm: Callable[[Path], object]) -> None:
    checkpoints = saved(tmp_path, [1, 2, 3], best={1: 1, 2: 2, 3: 2})
    assert checkpoints.resolve("best").name == "step-00000002"
    harm(tmp_path / "step-00000003" / "state.json")
    with pytest.raises(UserError) as error:
        checkpoints.resolve("best")
    assert error.value.where == str(tmp_path / "step-00000003" / "state.json")
    assert "step-00000002" in error.value.remedy
    assert checkpoints.resolve("step-00000002").name == "step-00000002"
