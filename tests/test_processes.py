"""Chunks are bounded, results come in order, and a process that dies is reported."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regard import processes
from regard.errors import UserError
from regard.processes import count_characters, count_workers, in_chunks, map_in_order


class Doubler:
    def __call__(self, chunk: list[int]) -> list[int]:
        return [2 * item for item in chunk]


class Dying:
    """A function whose process ends when it is loaded there."""

    def __init__(self) -> None:
        self.process = os.getpid()

    def __call__(self, chunk: list[int]) -> int:
        if os.getpid() != self.process:
            os._exit(3)
        return 0


def test_chunks_are_bounded_in_items_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "CHUNK_ITEMS", 3)
    monkeypatch.setattr(processes, "CHUNK_CHARACTERS", 10)
    examples = [{"text": "x" * size} for size in (1, 1, 1, 1, 9, 20, 2)]
    assert [[len(each["text"]) for each in chunk] for chunk in in_chunks(examples)] == [[1, 1, 1], [1, 9], [20], [2]]


def test_characters_are_counted_at_any_depth() -> None:
    assert count_characters({"words": ["ab", "c"], "answers": [{"text": "de", "start": 7}], "label": None}) == 5


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SINGLE_PROCESS_CHUNKS", 2)
    chunks = [[number] for number in range(20)]
    assert list(map_in_order(Doubler(), chunks, workers)) == [[2 * number] for number in range(20)]


def test_zero_workers_means_every_core() -> None:
    assert count_workers(0) >= 1
    assert count_workers(3) == 3


def test_a_process_that_dies_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SINGLE_PROCESS_CHUNKS", 2)
    with pytest.raises(UserError) as error:
        list(map_in_order(Dying(), iter([[0]] * 5), 2))
    assert (error.value.code, error.value.where) == ("worker-failed", "data.workers")


BLOCKED_WORKERS = """
import os, threading
from regard import processes

def work(chunk):
    os.write(1, f"{os.getpid()}\\n".encode())
    threading.Event().wait()

if __name__ == "__main__":
    processes.SINGLE_PROCESS_CHUNKS = 0
    list(processes.map_in_order(work, [[1], [2], [3]], 2))
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(BLOCKED_WORKERS)
    environment = {**os.environ, "PYTHONPATH": str(Path(processes.__file__).parents[1])}
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        handles = [os.pidfd_open(int(process.stdout.readline())) for _ in range(2)]
        process.kill()
    for handle in handles:
        select.select([handle], [], [])  # returns when the process has ended
        os.close(handle)


def work(item: str, report: Callable[[str], None]) -> None:
    """What each process of `run_each` does in the test below: by its item."""
    report(f"{item} begins")
    if item == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if item == "fails":
        raise ValueError("it was to fail")


def test_each_item_has_a_process_and_a_killed_one_ends_no_other() -> None:
    messages = list(processes.run_each(work, ["killed", "fails", "works"], 2))
    ends = {item: message.failure for item, message in messages if isinstance(message, processes.Ended)}
    assert {item for item, message in messages if message == f"{item} begins"} == ends.keys()
    assert "-9" in ends["killed"] and ends["fails"].startswith("ValueError: it was to fail") and ends["works"] == ""
