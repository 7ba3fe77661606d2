"""The recurrent state between batches is part of a checkpoint, and is loaded only if the batches are the same."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.training.toy import ToyModel, ToyTask, cpu_world, toy_settings

from regard.errors import UserError
from regard.training.checkpoint import Checkpoints
from regard.training.progress import TrainingProgress
from regard.training.state import TrainingState
from regard.training.task import Stateful, recurrent_state_of


class StatefulTask(ToyTask):
    def __init__(self) -> None:
        self.recurrent_state: dict[str, torch.Tensor] = {}


def state(recurrent_state: dict[str, torch.Tensor], accumulation: int) -> TrainingState:
    return TrainingState(ToyModel(), toy_settings(accumulation=accumulation), cpu_world(), recurrent_state)


def saved(folder: Path, recurrent_state: dict[str, torch.Tensor], accumulation: int) -> Checkpoints:
    checkpoints = Checkpoints(folder)
    one = state(recurrent_state, accumulation)
    one.progress.step = 4
    with one.writer:
        one.save(checkpoints)
    return checkpoints


@pytest.fixture
def recurrent_state() -> dict[str, torch.Tensor]:
    return {f"{part}.{name}": torch.randn(2, 3) for part in range(2) for name in ("h", "c")}


def test_a_task_with_recurrent_state_is_stateful() -> None:
    task = StatefulTask()
    assert isinstance(task, Stateful) and recurrent_state_of(task) is task.recurrent_state
    assert not isinstance(ToyTask(), Stateful) and recurrent_state_of(ToyTask()) == {}


def test_recurrent_state_is_restored_into_the_dictionary_of_the_task(
    tmp_path: Path, recurrent_state: dict[str, torch.Tensor]
) -> None:
    checkpoints = saved(tmp_path, recurrent_state, accumulation=2)
    back: dict[str, torch.Tensor] = {}
    again = state(back, accumulation=2)
    assert again.resume(checkpoints) == [] and again.progress.step == 4
    assert back.keys() == recurrent_state.keys()
    assert all(torch.equal(back[name], recurrent_state[name]) for name in recurrent_state)


def test_the_state_of_another_number_of_micro_batches_is_reset_with_a_note(
    tmp_path: Path, recurrent_state: dict[str, torch.Tensor]
) -> None:
    checkpoints = saved(tmp_path, recurrent_state, accumulation=2)
    back: dict[str, torch.Tensor] = {}
    (note,) = state(back, accumulation=1).resume(checkpoints)
    assert "reset" in note and not back


def test_a_rank_restores_the_state_of_its_own_micro_batches(
    tmp_path: Path, recurrent_state: dict[str, torch.Tensor]
) -> None:
    checkpoints = saved(tmp_path, recurrent_state, accumulation=2)
    tensors: dict[str, Any] = load_file(next(tmp_path.glob("step-*")) / "training.safetensors")
    assert {name.removeprefix("carried:") for name in tensors if name.startswith("carried:")} == recurrent_state.keys()
    back: dict[str, torch.Tensor] = {}
    last = state(back, accumulation=1)
    last.world = type(last.world)(1, 2, 1, last.world.device, "fp32")  # the second of two, each with one part
    last._load(checkpoints.all()[-1])
    assert back.keys() == {"1.h", "1.c"} and torch.equal(back["1.h"], recurrent_state["1.h"])


def test_progress_of_an_imported_model_is_read() -> None:
    progress = TrainingProgress(step=3, monitor="loss")
    assert TrainingProgress.from_json(progress.to_json() | {"random_weights": ["head.weight"]}) == progress
    with pytest.raises(UserError) as error:
        TrainingProgress.from_json(progress.to_json() | {"other": 1})
    assert error.value.code == "damaged-file"
