"""The thread of one run: it takes the inputs of many requests and computes them together.

A request is a `Job`: some inputs, and a function that computes a list of them. Jobs with equal keys have the same
function and are joined: one input of each job is taken in turn, so that a long document does not delay a short request.

    batch               a function computes some inputs and is done with all of them at once; those that arrive
                        meanwhile form the next batch
    continuous batch    inputs enter and leave between two steps of a running search (`ContinuousBatch`); other
                        batches run between its steps

A job that is cancelled leaves the queue and the batch. If a batch fails, each of its jobs is computed alone, so that an
input that cannot be computed fails only its own request. All work with a model happens in its thread, so models need no
locks.
"""

import logging
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from regard.run.model import Model
from regard.serve.errors import ServiceError

Function = Callable[[Model, list[Any]], Sequence[object]]
"""Computes a list of inputs; the result of one does not depend on the others.

It may have a method `start`, see `ContinuousBatch`.
"""
OnResult = Callable[[int, Any], None]
LOG = logging.getLogger("regard.serve")
REFILL = 8
"""New inputs enter a continuous batch when they are an eighth of those in it: adding a few at a time is slow."""
REFILL_STEPS = 4
"""They enter at the latest after this many steps."""


class ContinuousBatch(Protocol):
    """A running computation that inputs enter and leave; `function.start(model)` makes one, or None."""

    def __len__(self) -> int:
        """The number of inputs in progress."""
        ...

    def add(self, units: "Sequence[Unit]") -> None:
        """Let inputs take part from the next step on; if that fails, nothing has changed."""
        ...

    def remove(self, unit: "Unit") -> None:
        """Forget an input."""
        ...

    def step(self) -> "list[tuple[Unit, object]]":
        """Go on by one step; the inputs that are done, with their results."""
        ...

    def partial(self, units: "Sequence[Unit]") -> "list[tuple[Unit, object]]":
        """What is known of the results of some inputs in progress."""
        ...


@dataclass(eq=False)
class Job:
    """Inputs of one request, and the future of their results."""

    key: Hashable
    function: Function
    inputs: Sequence[object]
    on_result: OnResult | None = None
    """Called in the worker's thread with the index of an input and its result, as soon as it is known."""
    on_partial: OnResult | None = None
    """Called after each step of a continuous batch with the first input in progress and a part of its result."""
    future: "Future[list[Any]]" = field(default_factory=Future)
    taken: int = 0
    results: dict[int, object] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        """The number of inputs that no batch has taken."""
        return len(self.inputs) - self.taken

    def take(self) -> "Unit":
        """The next input."""
        self.taken += 1
        return Unit(self, self.taken - 1)

    def finish(self, index: int, result: object) -> None:
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


class RunningBatch:
    """A continuous batch and the inputs in it."""

    def __init__(self, batch: ContinuousBatch) -> None:
        self.batch = batch
        self.units: dict[Unit, None] = {}
        self.steps = 0
        """Steps since inputs entered."""

    def takes(self, waiting: int, free: int) -> bool:
        """True if waiting inputs should enter now."""
        return REFILL * min(waiting, free) >= len(self.units) or self.steps >= REFILL_STEPS

    def add(self, units: Sequence[Unit]) -> None:
        """Let inputs enter."""
        self.batch.add(units)
        self.units |= dict.fromkeys(units)
        self.steps = 0

    def step(self) -> list[tuple[Unit, object]]:
        """One step: forget cancelled inputs, return finished ones, and report parts of the others to those who ask."""
        for unit in [unit for unit in self.units if unit.job.future.done()]:
            del self.units[unit]
            self.batch.remove(unit)
        results, self.steps = self.batch.step(), self.steps + 1
        for unit, _ in results:
            self.units.pop(unit, None)
        asked: dict[Job, Unit] = {}  # the first input in progress of each job that asks for it
        for unit in self.units:
            if unit.job.on_partial is not None:
                asked.setdefault(unit.job, unit)
        for unit, text in self.batch.partial(list(asked.values())) if asked else ():
            assert unit.job.on_partial is not None
            unit.job.on_partial(unit.index, text)
        return results


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
        self._running: dict[Hashable, RunningBatch] = {}
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
        self,
        key: Hashable,
        function: Function,
        inputs: Sequence[object],
        on_result: OnResult | None = None,
        on_partial: OnResult | None = None,
    ) -> "Future[list[Any]]":
        """Put a job into the queue; a ServiceError if the queue is full or the worker stops, or the error of a model
        that cannot be loaded."""
        job = Job(key, function, inputs, on_result, on_partial)
        if not inputs:
            job.future.set_result([])
            return job.future
        with self._changed:
            if self.loaded.done() and (error := self.loaded.exception()) is not None:
                raise error.with_traceback(None)  # the error would keep the frames of every request that raises it
            if self._stopping:
                raise ServiceError("stopping", "the server stops", retry_after=5)
            if self._waiting and self._waiting + len(inputs) > self.max_queue:
                problem = f"{self._waiting} sentences wait already"
                raise ServiceError("queue-full", problem, "try again later", retry_after=2)
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
                jobs, self._jobs, self._waiting = self._jobs, [], 0
            for job in jobs:
                job.fail(error)
            return
        self.loaded.set_result(model)
        while self._go_on(model):
            pass

    def _go_on(self, model: Model) -> bool:
        """Begin with new inputs and make one step of each running batch; False at the end.

        An error of regard itself ends the jobs, and not the thread.
        """
        units: list[Unit] = []
        try:
            units = self._wait()
            if units:
                self._begin(model, units)
            for key in list(self._running):
                self._step(model, key)
        except Exception as error:
            LOG.exception("an error in the worker %s", self.name)
            for unit in [*units, *(unit for running in self._running.values() for unit in running.units)]:
                unit.job.fail(error)
            self._running.clear()
        return bool(units or self._running or self._jobs or not self._stopping)

    def _wait(self) -> list[Unit]:
        """The inputs to begin with; empty if there are none and a batch is running, or if there will be none."""
        with self._changed:
            if not self._running:
                idle = not self._jobs
                self._changed.wait_for(lambda: self._jobs or self._stopping)
                if idle and self.delay and not self._stopping:
                    self._changed.wait_for(lambda: self._waiting >= self.max_batch or self._stopping, self.delay)
            free = self.max_batch - sum(len(running.batch) for running in self._running.values())
            for key, function in {job.key: job.function for job in self._jobs}.items():
                if not hasattr(function, "start"):
                    return self._take(key, self.max_batch)
                running = self._running.get(key)
                waiting = sum(job.waiting for job in self._jobs if job.key == key)
                if free > 0 and (running is None or running.takes(waiting, free)):
                    return self._take(key, free)
            return []

    def _begin(self, model: Model, units: list[Unit]) -> None:
        """Compute a batch, or let its inputs enter a continuous batch."""
        key, function = units[0].job.key, units[0].job.function
        try:
            running = self._running.get(key)
            if running is None and (start := getattr(function, "start", None)) is not None:
                batch = start(model)
                running = None if batch is None else RunningBatch(batch)
            if running is not None:
                running.add(units)
                self._running[key] = running
                return
        except BaseException:  # the inputs that are in the batch already go on
            LOG.debug("inputs that cannot enter a continuous batch", exc_info=True)
        self._compute(model, units)

    def _step(self, model: Model, key: Hashable) -> None:
        """One step of a continuous batch; if it fails, each of its jobs is computed alone."""
        running = self._running[key]
        try:
            results = running.step()
        except BaseException:
            del self._running[key]
            self._compute_alone(model, list(running.units))
            return
        if not len(running.batch):
            del self._running[key]
            self.batches += 1
        self.computed += len(results)
        for unit, result in results:
            unit.job.finish(unit.index, result)

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
            if len({unit.job for unit in units}) == 1:
                units[0].job.fail(error)
            else:
                self._compute_alone(model, units)
            return
        self.computed += len(units)
        for unit, result in zip(units, results, strict=True):
            unit.job.finish(unit.index, result)

    def _compute_alone(self, model: Model, units: list[Unit]) -> None:
        """Compute the inputs of each job as a batch of their own."""
        for job in dict.fromkeys(unit.job for unit in units):
            self._compute(model, [unit for unit in units if unit.job is job])

    def _remove(self, job: Job) -> None:
        """Forget the inputs of a job that is done, cancelled or failed."""
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)
                self._waiting -= job.waiting
                job.taken = len(job.inputs)
