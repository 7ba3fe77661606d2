"""Tiny runs of every task, each trained once in a session; see tests/tiny.py."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tiny import train_run

TinyRun = Callable[..., Path]


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the data, recipes and runs of `tiny_run`."""
    return tmp_path_factory.mktemp("tiny")


@pytest.fixture(scope="session")
def tiny_run(tiny_folder: Path) -> TinyRun:
    """tiny_run(task, kind=""): the folder of a trained run. Tests read it, and copy it to change it."""
    runs: dict[tuple[str, str], Path] = {}

    def run(task: str, kind: str = "") -> Path:
        if (task, kind) not in runs:
            runs[task, kind] = train_run(tiny_folder / task, task, kind)
        return runs[task, kind]

    return run
