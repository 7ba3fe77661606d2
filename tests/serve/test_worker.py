"""The queue and the thread of a run, with a stand-in for its model."""

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import pytest

from regard.errors import UserError
from regard.serve.worker import Worker


class Blocked:
    """A worker that computes nothing before `release`: until then all jobs wait."""

    def __init__(self, **options: Any) -> None:
        self.batches: list[list[Any]] = []
        self.event, self.busy = threading.Event(), threading.Event()
        self.worker = Worker("test", lambda: None, **options)  # type: ignore[arg-type, return-value]
        self.worker.start()
        self.worker.submit("block", self.block, [None])
        assert self.busy.wait(60)

    def block(self, model: Any, inputs: list[Any]) -> list[Any]:
        self.busy.set()
        assert self.event.wait(60)
        return inputs

    def double(self, model: Any, inputs: list[Any]) -> list[Any]:
        self.batches.append(inputs)
        if any(not isinstance(value, int) for value in inputs):
            raise ValueError("not a number")
        return [2 * value for value in inputs]

    def submit(self, *inputs: Any, key: str = "double", on_result: Callable[[int, Any], None] | None = None) -> Any:
        return self.worker.submit(key, self.double, inputs, on_result)

    def release(self) -> None:
        self.event.set()


def test_waiting_jobs_are_joined_and_take_turns() -> None:
    blocked = Blocked(max_batch=4)
    document, short = blocked.submit(1, 2, 3, 4, 5, 6), blocked.submit(10, 11)
    told: list[tuple[int, int]] = []
    other = blocked.submit(7, key="other", on_result=lambda index, result: told.append((index, result)))
    assert blocked.worker.waiting == 9
    blocked.release()
    assert (document.result(60), short.result(60), other.result(60)) == ([2, 4, 6, 8, 10, 12], [20, 22], [14])
    assert blocked.batches == [[1, 10, 2, 11], [7], [3, 4, 5, 6]]
    assert told == [(0, 14)]
    assert blocked.worker.waiting == 0


def test_a_cancelled_job_leaves_the_queue() -> None:
    blocked = Blocked()
    cancelled, kept = blocked.submit(1, 2, 3), blocked.submit(4)
    assert cancelled.cancel()
    assert blocked.worker.waiting == 1
    blocked.release()
    assert kept.result(60) == [8]
    assert blocked.batches == [[4]]
    with pytest.raises(CancelledError):
        cancelled.result()


def test_an_input_that_fails_fails_only_its_job() -> None:
    blocked = Blocked()
    good, bad, better = blocked.submit(1, 2), blocked.submit(3, "four", 5), blocked.submit(6)
    blocked.release()
    assert (good.result(60), better.result(60)) == ([2, 4], [12])
    assert isinstance(bad.exception(60), ValueError)
    assert blocked.submit(1).result(60) == [2]  # the thread goes on


def test_a_full_queue_refuses_and_a_stopped_worker_finishes() -> None:
    blocked = Blocked(max_queue=3)
    waiting = blocked.submit(1, 2)
    with pytest.raises(UserError) as full:
        blocked.submit(3, 4)
    assert full.value.code == "queue-full"
    last = blocked.submit(3)
    blocked.worker.stop()
    with pytest.raises(UserError) as stopping:
        blocked.submit(5)
    assert stopping.value.code == "stopping"
    assert not blocked.worker.join(0)
    blocked.release()
    assert blocked.worker.join()
    assert (waiting.result(), last.result()) == ([2, 4], [6])


def test_jobs_fail_with_the_error_of_a_model_that_cannot_be_loaded() -> None:
    entered, go_on = threading.Event(), threading.Event()

    def load() -> Any:
        entered.set()
        assert go_on.wait(60)
        raise UserError("no weights", code="missing-file")

    worker = Worker("test", load)
    loaded = worker.start()
    assert entered.wait(60)
    job = worker.submit("key", lambda model, inputs: inputs, [1])
    go_on.set()
    assert isinstance(job.exception(60), UserError) and isinstance(loaded.exception(60), UserError)
    with pytest.raises(UserError) as error:
        worker.submit("key", lambda model, inputs: inputs, [1])
    assert error.value.code == "missing-file"
    assert worker.join()


def test_many_threads_lose_nothing() -> None:
    worker = Worker("test", lambda: None, max_batch=7)  # type: ignore[arg-type, return-value]
    worker.start()
    results: dict[int, list[int]] = {}

    def client(number: int) -> None:
        for first in range(50):
            inputs = [1000 * number + first + extra for extra in range(first % 4)]
            future = worker.submit(first % 2, lambda model, values: [-value for value in values], inputs)
            if first % 5 == 0:
                future.cancel()
                continue
            assert future.result(60) == [-value for value in inputs]
        results[number] = []

    threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    worker.stop()
    assert worker.join() and worker.waiting == 0
