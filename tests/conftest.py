"""For all tests: one hypothesis profile, a time limit, no GPU unless a test is marked `gpu`, and tiny runs of all tasks
(tests/tiny.py)."""

import faulthandler
import signal
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType

import hypothesis
import pytest
import torch
from tests.tiny import train_run

TinyRun = Callable[..., Path]

hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("repeatable")

MAX_SECONDS = 300
"""Time limit of a test with its fixtures. It ends a test that hangs; a busy machine does not reach it."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test at its time limit; if it hangs in C code, end the process a little later with a traceback."""

    def fail(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"{item.nodeid} took more than {MAX_SECONDS} seconds")

    gpu = pytest.MonkeyPatch()
    if item.get_closest_marker("gpu") is None:  # the same numbers, devices and findings on every machine
        gpu.setattr(torch.cuda, "is_available", lambda: False)
        gpu.setenv("CUDA_VISIBLE_DEVICES", "")
    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(MAX_SECONDS)
    faulthandler.dump_traceback_later(MAX_SECONDS + 30, exit=True)
    try:
        return (yield)
    finally:
        gpu.undo()
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def english_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """An English terminal with regard on its PATH."""
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setattr("regard.cli.shell.program", lambda: "regard")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the data, recipes and runs of `tiny_run`."""
    return tmp_path_factory.mktemp("tiny")


@pytest.fixture(scope="session")
def tiny_run(tiny_folder: Path) -> TinyRun:
    """tiny_run(task, kind=""): the folder of a trained run. Tests read it, and copy it to change it."""
    runs: dict[tuple[str, str, bool], Path] = {}

    def run(task: str, kind: str = "") -> Path:
        key = task, kind, torch.cuda.is_available()
        if key not in runs:
            runs[key] = train_run(tiny_folder / ("gpu" if key[2] else "cpu") / task, task, kind)
        return runs[key]

    return run
