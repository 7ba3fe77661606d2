"""What a task carries from batch to batch is part of a checkpoint, and comes back only where it means the same."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.training.toy import ToyModel, ToyTask, cpu_world, toy_settings

from regard.training import Carrying, Checkpoints
from regard.training.state import TrainingState
from regard.training.task import carried_by


class Remembering(ToyTask):
    def __init__(self) -> None:
        self.carried: dict[str, torch.Tensor] = {}


def state(carried: dict[str, torch.Tensor], accumulation: int) -> TrainingState:
    return TrainingState(ToyModel(), toy_settings(accumulation=accumulation), cpu_world(), carried)


def saved(folder: Path, carried: dict[str, torch.Tensor], accumulation: int) -> Checkpoints:
    checkpoints = Checkpoints(folder)
    one = state(carried, accumulation)
    one.progress.step = 4
    one.save(checkpoints)
    return checkpoints


@pytest.fixture
def carried() -> dict[str, torch.Tensor]:
    return {f"{part}.{name}": torch.randn(2, 3) for part in range(2) for name in ("h", "c")}


def test_a_task_says_by_having_it_that_it_carries_something() -> None:
    task = Remembering()
    assert isinstance(task, Carrying) and carried_by(task) is task.carried
    assert not isinstance(ToyTask(), Carrying) and carried_by(ToyTask()) == {}


def test_what_is_carried_comes_back_into_the_same_dictionary(tmp_path: Path, carried: dict[str, torch.Tensor]) -> None:
    checkpoints = saved(tmp_path, carried, accumulation=2)
    back: dict[str, torch.Tensor] = {}
    again = state(back, accumulation=2)
    assert again.resume(checkpoints) == [] and again.progress.step == 4
    assert back.keys() == carried.keys()
    assert all(torch.equal(back[name], carried[name]) for name in carried)


def test_of_another_number_of_parts_nothing_comes_back_and_it_is_said(
    tmp_path: Path, carried: dict[str, torch.Tensor]
) -> None:
    checkpoints = saved(tmp_path, carried, accumulation=2)
    back: dict[str, torch.Tensor] = {}
    (remark,) = state(back, accumulation=1).resume(checkpoints)
    assert "of 2 parts, and now there are 1" in remark and not back


def test_a_rank_takes_its_own_parts(tmp_path: Path, carried: dict[str, torch.Tensor]) -> None:
    checkpoints = saved(tmp_path, carried, accumulation=2)
    tensors: dict[str, Any] = load_file(next(tmp_path.glob("step-*")) / "training.safetensors")
    assert {name.removeprefix("carried:") for name in tensors if name.startswith("carried:")} == carried.keys()
    back: dict[str, torch.Tensor] = {}
    last = state(back, accumulation=1)
    last.world = type(last.world)(1, 2, 1, last.world.device, "fp32")  # the second of two, each with one part
    last._load(checkpoints.all()[-1])
    assert back.keys() == {"1.h", "1.c"} and torch.equal(back["1.h"], carried["1.h"])
