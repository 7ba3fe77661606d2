"""Checkpoints are written while training goes on: what is written, what waits for it, and what its errors do."""

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
import torch
from tests.training.ranks import run_ranks
from tests.training.test_training_loop import assert_same_run, at
from tests.training.toy import ToyBatch, ToyLoss, ToyTask, toy_run, toy_settings
from torch import Tensor, nn

from regard.errors import UserError
from regard.runtime import RuntimeSettings, open_world
from regard.training import checkpoint as module
from regard.training.checkpoint import Checkpoints, read_training, read_weights, step_of
from regard.training.writing import Writer

Save = Callable[[Path, dict[str, Tensor]], None]


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def replaced_saving(monkeypatch: pytest.MonkeyPatch, step: int, action: Save) -> None:
    """Call `action` instead of writing a file of the checkpoint of `step`."""
    save = module._save_tensors

    def save_or_act(path: Path, tensors: dict[str, Tensor]) -> None:
        (action if step_of(path.parent) == step else save)(path, tensors)

    monkeypatch.setattr(module, "_save_tensors", save_or_act)


def steps_in(folder: Path) -> list[int]:
    checkpoints = Checkpoints(folder / "checkpoints")
    assert checkpoints.newest_undamaged()[1] == []
    assert not list(checkpoints.folder.glob(".*.partial"))
    return [step_of(path) for path in checkpoints.all()]


# ---- the writer ------------------------------------------------------------------------------------------------------


def test_one_write_at_a_time() -> None:
    order, asked = [], Event()

    def first() -> None:
        asked.wait()
        order.append("first")

    with Writer() as writer:
        writer.start(first)
        order.append("training")
        asked.set()
        writer.start(lambda: order.append("second"))
    assert order == ["training", "first", "second"]


def test_an_error_is_raised_once_by_the_next_start_or_at_the_end() -> None:
    def fail() -> None:
        raise UserError("full", code="disk-full")

    done: list[int] = []
    with Writer() as writer:
        writer.start(fail)
        with pytest.raises(UserError):
            writer.start(lambda: done.append(1))
        writer.start(lambda: done.append(2))
    assert done == [2]
    with pytest.raises(UserError) as raised, writer:
        writer.start(fail)
        raise KeyboardInterrupt
    assert raised.value.code == "disk-full" and isinstance(raised.value.__context__, KeyboardInterrupt)


# ---- training meanwhile ----------------------------------------------------------------------------------------------


class Counting(ToyTask):
    """A task whose recurrent state is changed in place by every step."""

    def __init__(self) -> None:
        self.recurrent_state = {"0.steps": torch.zeros(1)}

    def loss(self, model: nn.Module, batch: ToyBatch) -> ToyLoss:
        self.recurrent_state["0.steps"] += 1
        return super().loss(model, batch)


def test_a_checkpoint_has_the_state_of_its_step_though_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"validate_every": 10, "ema": 0.9, "keep": 9}
    toy_run(tmp_path / "short", toy_settings(max_steps=10, **settings), task=Counting())
    later, save = Event(), module._save_tensors

    def save_later(path: Path, tensors: dict[str, Tensor]) -> None:
        later.wait()
        save(path, tensors)

    replaced_saving(monkeypatch, 10, save_later)
    toy_run(tmp_path / "long", toy_settings(max_steps=30, **settings), task=Counting(), before=at(19, later.set))
    for read in (read_weights, read_training):
        short, long = (read(tmp_path / name / "checkpoints" / "step-00000010") for name in ("short", "long"))
        assert short.keys() == long.keys() and all(torch.equal(short[name], long[name]) for name in short)
    assert steps_in(tmp_path / "long") == [10, 20, 30]


def test_checkpoints_in_quick_succession_are_all_whole(tmp_path: Path) -> None:
    toy_run(tmp_path / "often", toy_settings(max_steps=30, validate_every=15, checkpoint_every=1, ema=0.9, keep=40))
    assert steps_in(tmp_path / "often") == [*range(1, 31)]
    toy_run(tmp_path / "whole", toy_settings(max_steps=30, validate_every=15, ema=0.9))
    assert_same_run(tmp_path / "whole", tmp_path / "often")


def test_a_full_disk_is_an_error_of_the_next_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    with monkeypatch.context() as patch:
        replaced_saving(patch, 40, full_disk)
        with pytest.raises(UserError) as error:
            toy_run(tmp_path, toy_settings(max_steps=80), before=seen.append)
    assert error.value.code == "disk-full" and "step-00000040" in error.value.where
    assert 59 in seen and 60 not in seen and steps_in(tmp_path) == [20]
    assert toy_run(tmp_path, toy_settings(max_steps=80)).step == 80
    toy_run(tmp_path / "whole", toy_settings(max_steps=80))
    assert_same_run(tmp_path / "whole", tmp_path)


@pytest.mark.parametrize("stop", [None, 45])
def test_a_full_disk_at_the_end_or_at_an_interruption_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int | None
) -> None:
    replaced_saving(monkeypatch, stop or 60, full_disk)
    with pytest.raises(UserError) as error:
        toy_run(tmp_path, toy_settings(), before=at(stop or 99, lambda: signal.raise_signal(signal.SIGTERM)))
    assert error.value.code == "disk-full" and steps_in(tmp_path) == [20, 40]


@pytest.mark.parametrize("error", [KeyboardInterrupt, UserError("x", code="mistake")])
def test_whatever_ends_training_the_write_in_progress_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    ended, save = Event(), module._save_tensors

    def end() -> None:
        ended.set()
        raise error

    def save_after_the_end(path: Path, tensors: dict[str, Tensor]) -> None:
        ended.wait()
        save(path, tensors)

    replaced_saving(monkeypatch, 20, save_after_the_end)
    with pytest.raises(error if isinstance(error, type) else type(error)):
        toy_run(tmp_path, toy_settings(), before=at(25, end))
    assert steps_in(tmp_path) == [20]


# ---- ranks -----------------------------------------------------------------------------------------------------------


def train_rank(folder: str, late: int, full: int) -> None:
    """Rank 1 writes its shard of step `late` only when its training is further, and has no space for that of `full`."""
    world = open_world(RuntimeSettings(device="cpu", seed=3, threads=1, parallel="shard"))
    later, save = Event(), module._save_tensors

    def save_late_or_never(path: Path, tensors: dict[str, Tensor]) -> None:
        if world.rank == 1:
            if step_of(path.parent) == late:
                later.wait()
            if step_of(path.parent) == full:
                full_disk()
        save(path, tensors)

    module._save_tensors = save_late_or_never
    settings = toy_settings(max_steps=30, validate_every=5, ema=0.9)
    if not full:
        toy_run(Path(folder), settings, world, before=at(late + 4, later.set))
        return
    with pytest.raises(UserError) as error:
        toy_run(Path(folder), settings, world)
    assert error.value.code == "disk-full" and f"step-{full:08d}" in error.value.where


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs gloo")
def test_ranks_train_and_validate_while_a_shard_is_written(tmp_path: Path) -> None:
    run_ranks(2, train_rank, str(tmp_path / "late"), 10, 0)
    run_ranks(2, train_rank, str(tmp_path / "plain"), 0, 0)
    assert_same_run(tmp_path / "plain", tmp_path / "late")
    assert steps_in(tmp_path / "late") == [10, 15, 20, 25, 30]


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs gloo")
def test_a_full_disk_of_one_rank_is_an_error_of_all(tmp_path: Path) -> None:
    run_ranks(2, train_rank, str(tmp_path), 0, 15)
    assert steps_in(tmp_path) == [5, 10]
