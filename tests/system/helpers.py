"""Helpers for tests of whole runs: training in this process or in others, a simulated crash, saved tensors."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from regard.recipe import Recipe
from regard.run.train import Trained, train
from regard.training.events import Event, StepCompleted
from regard.training.log import Logs, MetricsFile

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


class CrashError(Exception):
    """A simulated crash of the process."""


class CrashingLog(Logs):
    """The log of a run in `folder` that raises CrashError after a step."""

    def __init__(self, folder: Path, after: int) -> None:
        super().__init__([MetricsFile(folder / "metrics.jsonl")])
        self.after = after

    def log(self, event: Event) -> None:
        super().log(event)
        if event == StepCompleted(self.after):
            raise CrashError


def train_quietly(recipe: Recipe, folder: Path, **options: Any) -> Trained:
    """Train a recipe in `folder` and print nothing."""
    return train(recipe, folder, report=lambda line: None, **options)


def run_command(*arguments: object, processes: int = 1) -> subprocess.CompletedProcess[str]:
    """Run `regard ARGUMENTS` in a process of its own, or in two that torchrun starts."""
    launch = TORCHRUN if processes == 2 else ()
    command = [sys.executable, *launch, "-m", "regard", *map(str, arguments)]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)


def run_successfully(*arguments: object, processes: int = 1) -> None:
    """Run a command that must succeed."""
    result = run_command(*arguments, processes=processes)
    assert result.returncode == 0, result.stderr


def saved_tensors(run: Path, file: str = "model.safetensors") -> dict[str, torch.Tensor]:
    """The tensors of a file of the last checkpoint."""
    return load_file(sorted((run / "checkpoints").glob("step-*"))[-1] / file)


def assert_same_checkpoint(run: Path, other: Path) -> None:
    """The last checkpoints of two runs are equal to the bit: weights and the state of training."""
    for file in ("model.safetensors", "training.safetensors"):
        expected, tensors = saved_tensors(run, file), saved_tensors(other, file)
        assert expected.keys() == tensors.keys(), file
        assert all(torch.equal(expected[name], tensors[name]) for name in expected), file
