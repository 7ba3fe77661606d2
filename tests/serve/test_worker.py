"""The queue and the thread of a run, with a stand-in for its model."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any

import pytest

from regard.errors import UserError
from regard.serve.worker import CLIENT, Job, Unit, Worker


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
        return self.worker.submit(key, self.double, inputs, on_result=on_result)

    def release(self) -> None:
        self.event.set()


def test_waiting_jobs_are_joined_and_take_turns() -> None:
    blocked = Blocked(max_batch=4)
    document, short = blocked.submit(1, 2, 3, 4, 5, 6), blocked.submit(10, 11)
    known: list[tuple[int, int]] = []
    other = blocked.submit(7, key="other", on_result=lambda index, result: known.append((index, result)))
    assert blocked.worker.waiting == 9
    blocked.release()
    assert (document.result(60), short.result(60), other.result(60)) == ([2, 4, 6, 8, 10, 12], [20, 22], [14])
    assert blocked.batches == [[1, 10, 2, 11], [7], [3, 4, 5, 6]]
    assert known == [(0, 14)]
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


def test_a_job_has_one_end() -> None:
    first, done, gone = (Job("key", lambda model, inputs: list(inputs), [1], [1]) for _ in range(3))
    done.finish(0, "result")
    assert gone.future.cancel()
    for job in (first, first, done, gone):
        job.fail(ValueError(job.number))
    assert str(first.future.exception(0)) == str(first.number)
    assert done.future.result(0) == ["result"] and gone.future.cancelled()


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
    for _ in range(3):
        with pytest.raises(UserError) as error:
            worker.submit("key", lambda model, inputs: inputs, [1])
        assert error.value.code == "missing-file"
        assert len(error.traceback) == 2  # the error does not collect the frames of all requests
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


class Countdown:
    """A continuous batch: an input n is done after n steps, and fails at 13."""

    def __init__(self) -> None:
        self.left: dict[Unit, int] = {}
        self.sizes: list[int] = []

    def __len__(self) -> int:
        return len(self.left)

    def add(self, units: Sequence[Unit]) -> None:
        if any(unit.value < 0 for unit in units):
            raise ValueError("a negative number cannot enter")
        self.left |= {unit: unit.value for unit in units}

    def remove(self, unit: Unit) -> None:
        del self.left[unit]

    def step(self) -> list[tuple[Unit, str]]:
        self.sizes.append(len(self.left))
        if 13 in self.left.values():
            raise ValueError("unlucky")
        self.left = {unit: left - 1 for unit, left in self.left.items()}
        done = [unit for unit, left in self.left.items() if left <= 0]
        return [(unit, f"continuous {unit.value}") for unit in done if self.left.pop(unit) <= 0]

    def partial(self, units: Sequence[Unit]) -> list[tuple[Unit, int]]:
        return [(unit, self.left[unit]) for unit in units]


class Count:
    """A function with a continuous batch; alone it computes the same as a batch."""

    def __init__(self) -> None:
        self.started = Countdown()

    def __call__(self, model: Any, inputs: list[int]) -> list[str]:
        if any(value in (13, -13) for value in inputs):
            raise ValueError("unlucky")
        return [f"batch {value}" for value in inputs]

    def start(self, model: Any) -> Countdown:
        return self.started


# ---- tokens ---------------------------------------------------------------------------------------------------------


class Queue:
    """A worker whose thread does not run: what it takes is seen step by step."""

    def __init__(self, **options: Any) -> None:
        self.worker = Worker("test", lambda: None, **options)  # type: ignore[arg-type, return-value]

    def submit(self, client: str, *costs: int, key: str = "key") -> Any:
        """Inputs are named after their client and costs."""
        token = CLIENT.set(client.encode())
        try:
            inputs = [f"{client}{cost}" for cost in costs]
            return self.worker.submit(key, lambda model, values: values, inputs, costs=costs)
        finally:
            CLIENT.reset(token)

    def take(self, *entered: int) -> list[str]:
        """The next inputs beside those that a running batch has."""
        return [unit.value for unit in self.worker._take("key", list(entered))]


def test_clients_get_equal_tokens_and_not_equal_numbers_of_inputs() -> None:
    queue = Queue(max_batch=5, batch_tokens=1000)
    queue.submit("a", *[4] * 4)
    queue.submit("b", *[1] * 20)
    assert queue.take() == ["a4", "b1", "b1", "b1", "b1"]
    assert queue.take() == ["a4", "b1", "b1", "b1", "b1"]
    queue.submit("c", *[2] * 5)  # it starts where the others are: they had 8 tokens each
    assert queue.take() == ["c2", "a4", "b1", "c2", "b1"]
    assert queue.take() == ["b1", "c2", "b1", "a4", "b1"]


def test_jobs_of_one_client_take_turns_by_tokens() -> None:
    queue = Queue(max_batch=4, batch_tokens=1000)
    queue.submit("a", *[50] * 10)
    assert queue.take() == ["a50"] * 4
    queue.submit("a", *[10] * 10)  # it does not catch up on what the other one had before
    assert queue.take() == ["a50", "a10", "a10", "a10"]
    assert queue.take() == ["a10", "a10", "a50", "a10"]


def test_a_batch_is_bounded_by_tokens_and_keeps_room_for_short_inputs() -> None:
    queue = Queue(batch_tokens=160)  # an input of up to 10 tokens is short
    queue.submit("hostile", *[50] * 9)
    assert queue.take() == ["hostile50"] * 2  # three quarters
    assert queue.take(50, 50) == []
    queue.submit("other", 5)
    assert queue.take(50, 50) == ["other5"]  # it enters a batch that is full of long ones
    queue.submit("other", *[10] * 9)
    assert queue.take(50, 50, 5) == ["other10"] * 3  # no more than a quarter while long ones wait ...
    assert queue.take(10, 10, 10, 10) == ["hostile50"]  # ... so that these find room
    queue = Queue(batch_tokens=160)
    queue.submit("other", *[10] * 20)
    assert len(queue.take()) == 16


def test_short_and_long_inputs_have_batches_in_turn_if_nothing_can_enter_them() -> None:
    queue = Queue(batch_tokens=160)
    queue.worker._is_plain = True  # what it learns from the first batch
    queue.submit("hostile", *[50] * 5)
    queue.submit("other", *[10] * 20)
    assert [queue.take() for _ in range(5)] == [
        ["other10"] * 16, ["hostile50"] * 2, ["other10"] * 4, ["hostile50"] * 2, ["hostile50"],
    ]  # fmt: skip


def test_a_running_batch_is_bounded_with_its_padding() -> None:
    queue = Queue(batch_tokens=160, max_batch=1000)
    queue.submit("a", *[1] * 99)
    assert len(queue.take(100)) == 5  # six inputs of the length 100 are 600 tokens, and 4 batches have 640
    queue.submit("b", 10_000)
    assert "b10000" not in queue.take(1) and queue.worker.waiting_tokens > 10_000
    alone = Queue(batch_tokens=160)
    alone.submit("b", 10_000, 10_000)
    assert alone.take() == ["b10000"]  # larger than a batch: alone


def test_a_full_queue_refuses_the_largest_job_of_the_client_that_fills_it() -> None:
    queue = Queue(max_queue_tokens=100)
    large, small = queue.submit("a", 20, 20), queue.submit("a", 30)
    assert queue.submit("b", 20) and queue.worker.waiting_tokens == 90
    other = queue.submit("b", 25)
    error = large.exception(0)
    assert (error.code, error.status, error.retry_after > 0) == ("queue-full", 503, True)
    assert not small.done() and not other.done() and queue.worker.waiting_tokens == 75
    with pytest.raises(UserError) as refused:
        queue.submit("b", 40)  # the client that would fill it most is refused itself
    assert refused.value.code == "queue-full" and queue.worker.waiting_tokens == 75
    short = queue.submit("a", 1)
    assert not short.done() and queue.worker.waiting == 4
    other.cancel()
    assert queue.worker.waiting_tokens == 51


def test_a_cancelled_job_has_no_turn_and_no_tokens() -> None:
    queue = Queue(batch_tokens=160)
    gone, kept = queue.submit("a", *[40] * 3), queue.submit("b", 40)
    assert queue.take() == ["a40", "b40", "a40"]
    gone.cancel()
    assert queue.take() == [] and queue.worker.waiting_tokens == 0 and not kept.done()


def test_other_batches_leave_steps_to_a_continuous_batch() -> None:
    blocked, count = Blocked(), Count()
    steps: list[int] = []

    def plain(model: Any, inputs: list[Any]) -> list[Any]:
        steps.append(len(count.started.sizes))
        return inputs

    short = blocked.worker.submit("continuous", count, [40.5])  # it never has 13 left
    others = [blocked.worker.submit(f"plain {number}", plain, [number]) for number in range(2)]
    blocked.release()
    assert short.result(60) == ["continuous 40.5"] and [other.result(60) for other in others] == [[0], [1]]
    assert steps[1] - steps[0] >= 16


def test_inputs_enter_and_leave_a_continuous_batch() -> None:
    blocked, count = Blocked(max_batch=4), Count()
    parts: list[tuple[int, int]] = []
    submit, finished = blocked.worker.submit, list[str]()
    futures = {
        name: submit(
            "continuous", count, inputs, (),
            lambda index, result, name=name: finished.append(name),  # type: ignore[misc]
            (lambda index, left: parts.append((index, left))) if name == "known" else None,
        )
        for name, inputs in {"long": [9], "known": [3], "short": [1, 1, 1, 1, 1]}.items()
    }  # fmt: skip
    gone = submit("continuous", count, [50])
    gone.cancel()
    other = blocked.submit(5)
    blocked.release()
    assert [futures[name].result(60) for name in ("long", "known")] == [["continuous 9"], ["continuous 3"]]
    assert futures["short"].result(60) == ["continuous 1"] * 5 and other.result(60) == [10]
    assert finished == ["short", "short", "short", "short", "known", "short", "long"] or finished[-1] == "long"
    assert parts == [(0, 2), (0, 1)]
    assert max(count.started.sizes) == 4 and len(count.started) == 0


def test_a_failing_input_of_a_continuous_batch_fails_only_its_job() -> None:
    blocked, count = Blocked(), Count()
    jobs = [blocked.worker.submit("continuous", count, inputs) for inputs in ([3, 4], [13], [-1], [-13], [5])]
    blocked.release()
    results = [job.exception(60) or job.result() for job in jobs]
    assert [isinstance(result, ValueError) for result in results] == [False, True, False, True, False]
    assert results[0] == ["batch 3", "batch 4"] and results[2] == ["batch -1"]
    assert blocked.worker.submit("continuous", count, [2]).result(60) in (["continuous 2"], ["batch 2"])


def test_a_full_continuous_batch_delays_no_other_work_and_ends_when_it_is_cancelled() -> None:
    blocked, count = Blocked(max_batch=2), Count()
    endless = [blocked.worker.submit("continuous", count, [10**12]) for _ in range(2)]
    waiting = blocked.worker.submit("continuous", count, [1])
    blocked.release()
    assert blocked.submit(1, 2, 3).result(60) == [2, 4, 6]
    assert not waiting.done() and len(count.started) == 2
    assert endless[0].cancel()
    assert waiting.result(60) == ["continuous 1"]  # the place of the cancelled one
    assert endless[1].cancel()
    blocked.worker.stop()
    assert blocked.worker.join() and len(count.started) == 0


def test_short_inputs_enter_and_cancelled_ones_leave_at_the_next_step() -> None:
    blocked, count = Blocked(batch_tokens=160), Count()
    submit = blocked.worker.submit
    endless = [submit("continuous", count, [10**12], costs=[50]) for _ in range(3)]
    short = submit("continuous", count, [1], costs=[5])
    blocked.release()
    assert short.result(60) == ["continuous 1"]
    assert [unit.job.future for unit in count.started.left] == endless[:2]  # the third waits for room
    first = next(iter(count.started.left))
    steps: list[int] = []
    remove = count.started.remove

    def counted(unit: Unit) -> None:
        steps.append(len(count.started.sizes))
        remove(unit)

    count.started.remove = counted  # type: ignore[method-assign]
    endless[0].cancel()
    assert submit("continuous", count, [2], costs=[5]).result(60) == ["continuous 2"]
    assert len(steps) == 1 and first not in count.started.left and len(count.started) == 2
    for future in endless[1:]:
        future.cancel()
    blocked.worker.stop()
    assert blocked.worker.join()


def test_a_bug_fails_jobs_and_not_the_thread() -> None:
    blocked, count = Blocked(), Count()

    def bug(index: int, result: Any) -> None:
        raise RuntimeError("a bug")

    jobs = [blocked.submit(1, on_result=bug), blocked.worker.submit("continuous", count, [3])]
    blocked.release()
    assert isinstance(jobs[0].exception(60), RuntimeError)
    jobs[1].exception(60)  # done, whatever the result
    assert blocked.submit(4).result(60) == [8]
