"""The thread of one run: it takes the inputs of many requests and computes them together.

A request is a `Job`: some inputs, and a function that computes a list of them. Jobs with equal keys have the same
function and are joined: a batch takes one input of each job in turn, so that a long document does not delay a short
request. Requests that arrive while a batch is computed form the next one. A job that is cancelled leaves the queue. If
a batch fails, each of its jobs is computed alone, so that an input that cannot be computed fails only its own request.

All work with a model happens in its thread, one batch after another, so models need no locks.
"""

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from regard.run.model import Model
from regard.serve.errors import ServiceError

Function = Callable[[Model, list[Any]], Sequence[Any]]
"""Computes a list of inputs; the result of one does not depend on the others."""
OnResult = Callable[[int, Any], None]


@dataclass(eq=False)
class Job:
    """Inputs of one request, and the future of their results."""

    key: Hashable
    function: Function
    inputs: Sequence[Any]
    on_result: OnResult | None = None
    """Called in the worker's thread with the index of an input and its result, as soon as it is known."""
    future: "Future[list[Any]]" = field(default_factory=Future)
    taken: int = 0
    results: dict[int, Any] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        """The number of inputs that no batch has taken."""
        return len(self.inputs) - self.taken

    def take(self) -> "Unit":
        """The next input."""
        self.taken += 1
        return Unit(self, self.taken - 1)

    def finish(self, index: int, result: Any) -> None:
        """Store a result; the last one completes the future."""
        self.results[index] = result
        if self.on_result is not None and not self.future.cancelled():
            self.on_result(index, result)
        if len(self.results) == len(self.inputs) and self.future.set_running_or_notify_cancel():
            self.future.set_result([self.results[index] for index in range(len(self.inputs))])

    def fail(self, error: BaseException) -> None:
        """Complete the future with an error."""
        if not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


@dataclass(frozen=True)
class Unit:
    """One input of a job."""

    job: Job
    index: int

    @property
    def value(self) -> Any:
        return self.job.inputs[self.index]


class Worker:
    """A thread that loads a model and computes jobs until it is stopped."""

    def __init__(
        self, name: str, load: Callable[[], Model], *, max_batch: int = 64, max_queue: int = 4096, delay: float = 0.0
    ) -> None:
        """`delay` seconds: how long an idle worker waits for further inputs before it computes the first ones."""
        self.name, self.max_batch, self.max_queue, self.delay = name, max_batch, max_queue, delay
        self.loaded: Future[Model] = Future()
        self.batches = self.computed = 0
        """Numbers of batches and of inputs that were computed."""
        self._load = load
        self._jobs: list[Job] = []
        self._waiting = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"regard {name}", daemon=True)

    def start(self) -> "Future[Model]":
        """Start loading the model, unless that was done before; the future has it, or the error."""
        if self._thread.ident is None:
            self._thread.start()
        return self.loaded

    @property
    def waiting(self) -> int:
        """Inputs in the queue."""
        return self._waiting

    def submit(
        self, key: Hashable, function: Function, inputs: Sequence[Any], on_result: OnResult | None = None
    ) -> "Future[list[Any]]":
        """Put a job into the queue; a ServiceError if the queue is full or the worker stops, or the error of a model
        that cannot be loaded."""
        job = Job(key, function, inputs, on_result)
        if not inputs:
            job.future.set_result([])
            return job.future
        with self._changed:
            if self.loaded.done() and (error := self.loaded.exception()) is not None:
                raise error
            if self._stopping:
                raise ServiceError("stopping", "the server stops", retry_after=5)
            if self._waiting and self._waiting + len(inputs) > self.max_queue:
                raise ServiceError(
                    "queue-full", f"{self._waiting} sentences wait already", "try again later", retry_after=2
                )
            self._jobs.append(job)
            self._waiting += len(inputs)
            self._changed.notify()
        job.future.add_done_callback(lambda _: self._remove(job))
        return job.future

    def stop(self) -> None:
        """Refuse new jobs; the thread ends when it has computed all others."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end of the thread; False if it still runs after `timeout` seconds."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            model = self._load()
        except BaseException as error:
            with self._changed:  # from now on `submit` raises it
                self.loaded.set_exception(error)
            self._fail_all(error)
            return
        self.loaded.set_result(model)
        while units := self._wait():
            self._compute(model, units)

    def _wait(self) -> list[Unit]:
        """The inputs of the next batch; empty if there will be none."""
        with self._changed:
            idle = not self._jobs
            self._changed.wait_for(lambda: self._jobs or self._stopping)
            if idle and self.delay and not self._stopping:
                end = time.monotonic() + self.delay
                self._changed.wait_for(
                    lambda: self._waiting >= self.max_batch or self._stopping, max(0.0, end - time.monotonic())
                )
            return self._take(self._jobs[0].key, self.max_batch) if self._jobs else []

    def _take(self, key: Hashable, count: int) -> list[Unit]:
        """At most `count` inputs of the jobs with this key, one of each job in turn; called with the lock held."""
        units: list[Unit] = []
        jobs = [job for job in self._jobs if job.key == key]
        while jobs and len(units) < count:
            units += [job.take() for job in jobs[: count - len(units)]]
            jobs = [job for job in jobs if job.waiting]
        self._waiting -= len(units)
        served = {unit.job for unit in units}  # they go behind the jobs that had no turn
        self._jobs = [job for job in self._jobs if job not in served] + [
            job for job in self._jobs if job in served and job.waiting
        ]
        return units

    def _compute(self, model: Model, units: list[Unit]) -> None:
        """Compute a batch; if it fails, each job of it alone."""
        self.batches += 1
        try:
            results = units[0].job.function(model, [unit.value for unit in units])
        except BaseException as error:
            jobs = list(dict.fromkeys(unit.job for unit in units))
            if len(jobs) == 1:
                jobs[0].fail(error)
            for job in jobs if len(jobs) > 1 else ():
                self._compute(model, [unit for unit in units if unit.job is job])
            return
        self.computed += len(units)
        for unit, result in zip(units, results, strict=True):
            unit.job.finish(unit.index, result)

    def _remove(self, job: Job) -> None:
        """Forget the inputs of a job that is done, cancelled or failed."""
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)
                self._waiting -= job.waiting
                job.taken = len(job.inputs)

    def _fail_all(self, error: BaseException) -> None:
        """Fail all jobs of the queue."""
        with self._changed:
            jobs, self._jobs, self._waiting = self._jobs, [], 0
        for job in jobs:
            job.fail(error)
