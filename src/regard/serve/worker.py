"""The thread of one run: it takes the inputs of many requests and computes them together.

A request is a `Job`: some inputs, and a function that computes a list of them. Jobs with equal keys have the same
function and are joined. An input costs tokens (times beam), and costs decide what is computed next:

    turns       the client that had the fewest tokens is next, and of its jobs the one that had the fewest: start-time
                fair queueing (Goyal et al. 1996). A client that was away starts where the others are.
    batch       at most `batch_tokens`. A quarter of it is for short inputs only, so that they need not wait until a
                long one is done; while long ones wait, short ones get this quarter and no more. If nothing can enter
                a batch while it is computed, short and long inputs have batches of their own in turn.
    queue       at most `max_queue_tokens`. If it is full, the largest job of the client that fills it most is refused.

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
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from regard.run.model import Model
from regard.serve.errors import ServiceError

Function = Callable[[Model, list[Any]], Sequence[object]]
"""Computes a list of inputs; the result of one does not depend on the others.

It may have a method `start`, see `ContinuousBatch`.
"""
OnResult = Callable[[int, Any], None]
LOG = logging.getLogger("regard.serve")
CLIENT: ContextVar[bytes] = ContextVar("client", default=b"")
"""Who sent the request in progress: its address, or the sha256 sum of its API key."""
SHORT, RESERVED, PADDED = 16, 4, 4
"""An input is short if it costs at most 1/16 of a batch; 1/4 of a batch is for short ones. The inputs of a continuous
batch are padded to the longest one, and then cost at most 4 times as much as a batch."""
PLAIN_STEPS = 16
"""Steps of continuous batches between two other batches, which nothing can enter while they are computed."""
BATCH_TOKENS, MAX_QUEUE_TOKENS = 4096, 262_144
REFILL = 8
"""New inputs enter a continuous batch when they are an eighth of those in it: adding a few at a time is slow."""
REFILL_STEPS = 4
"""They enter at the latest after this many steps."""


class ContinuousBatch(Protocol):
    """A running computation that inputs enter and leave; `function.start(model)` makes one, or None."""

    def __len__(self) -> int:
        """The number of inputs in progress."""

    def add(self, units: "Sequence[Unit]") -> None:
        """Let inputs take part from the next step on; if that fails, nothing has changed."""

    def remove(self, unit: "Unit") -> None:
        """Forget an input."""

    def step(self) -> "list[tuple[Unit, object]]":
        """Go on by one step; the inputs that are done, with their results."""

    def partial(self, units: "Sequence[Unit]") -> "list[tuple[Unit, object]]":
        """What is known of the results of some inputs in progress."""


@dataclass(eq=False)
class Job:
    """Inputs of one request, and the future of their results."""

    key: Hashable
    function: Function
    inputs: Sequence[object]
    costs: Sequence[int] = ()
    """The tokens of each input, times the beam; 1 each if they are not given."""
    on_result: OnResult | None = None
    """Called in the worker's thread with the index of an input and its result, as soon as it is known."""
    on_partial: OnResult | None = None
    """Called after each step of a continuous batch with the first input in progress and a part of its result."""
    client: bytes = field(default_factory=CLIENT.get)
    number: int = field(default_factory=count().__next__)
    """Jobs are numbered in the order in which they arrive."""
    spent: int = 0
    """Tokens that batches took, or that the client's other jobs had before this one arrived."""
    future: "Future[list[Any]]" = field(default_factory=Future)
    taken: int = 0
    results: dict[int, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.costs = self.costs or [1] * len(self.inputs)
        self.tokens = sum(self.costs)
        """Tokens of inputs that no batch has taken."""

    @property
    def waiting(self) -> int:
        """The number of inputs that no batch has taken."""
        return len(self.inputs) - self.taken

    def take(self) -> "Unit":
        """The next input."""
        unit = Unit(self, self.taken)
        self.taken, self.tokens, self.spent = self.taken + 1, self.tokens - unit.cost, self.spent + unit.cost
        return unit

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

    @property
    def cost(self) -> int:
        return self.job.costs[self.index]


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
        self,
        name: str,
        load: Callable[[], Model],
        *,
        max_batch: int = 64,
        batch_tokens: int = BATCH_TOKENS,
        max_queue: int = 4096,
        max_queue_tokens: int = MAX_QUEUE_TOKENS,
        delay: float = 0.0,
    ) -> None:
        """`delay` seconds: how long an idle worker waits for further inputs before it computes the first ones."""
        self.name, self.max_batch, self.max_queue, self.delay = name, max_batch, max_queue, delay
        self.batch_tokens, self.max_queue_tokens = batch_tokens, max_queue_tokens
        self.loaded: Future[Model] = Future()
        self.batches = self.computed = 0
        """Numbers of batches and of inputs that were computed."""
        self._load = load
        self._jobs: list[Job] = []
        self.waiting = 0
        """Inputs in the queue."""
        self._changed = threading.Condition()
        self._stopping = False
        self._running: dict[Hashable, RunningBatch] = {}
        self._steps = PLAIN_STEPS  # of continuous batches since the last other one
        self._is_plain = self._is_short = False  # True if the last batch was no continuous one; had short inputs
        self._clock, self._ends = 0, dict[bytes, int]()  # virtual time: of the last turn, and of each client's next one
        self._thread = threading.Thread(target=self._run, name=f"regard {name}", daemon=True)

    def start(self) -> "Future[Model]":
        """Start loading the model, unless that was done before; the future has it, or the error."""
        if self._thread.ident is None:
            self._thread.start()
        return self.loaded

    @property
    def waiting_tokens(self) -> int:
        """The cost of the inputs in the queue."""
        return sum(job.tokens for job in list(self._jobs))

    def submit(
        self,
        key: Hashable,
        function: Function,
        inputs: Sequence[object],
        costs: Sequence[int] = (),
        on_result: OnResult | None = None,
        on_partial: OnResult | None = None,
    ) -> "Future[list[Any]]":
        """Put a job into the queue; a ServiceError if the queue is full or the worker stops, or the error of a model
        that cannot be loaded."""
        job = Job(key, function, inputs, costs, on_result, on_partial)
        if not inputs:
            job.future.set_result([])
            return job.future
        with self._changed:
            if self.loaded.done() and (error := self.loaded.exception()) is not None:
                raise error.with_traceback(None)  # the error would keep the frames of every request that raises it
            if self._stopping:
                raise ServiceError("stopping", "the server is stopping", retry_after=5)
            refused = self._refused(job)
            if job not in refused:
                job.spent = min((other.spent for other in self._jobs if other.client == job.client), default=0)
                self._jobs.append(job)
                self.waiting += len(inputs)
                self._changed.notify()
        for other in refused:
            error = ServiceError("queue-full", "the queue is full", "try again later", retry_after=5)
            if other is job:
                raise error
            other.fail(error)
        job.future.add_done_callback(lambda _: self._remove(job))
        return job.future

    def _refused(self, new: Job) -> list[Job]:
        """The jobs that a new one is too much with; only itself if it is one of them. Called with the lock held."""
        jobs, refused = [*self._jobs, new], list[Job]()
        tokens, waiting = sum(job.tokens for job in jobs), self.waiting + new.waiting
        shares = Counter[bytes]()
        for job in jobs:
            shares[job.client] += job.tokens
        while len(jobs) > 1 and (tokens > self.max_queue_tokens or waiting > self.max_queue):
            largest = max(jobs, key=lambda job: (shares[job.client], job.tokens, job.number))
            if largest is new:
                return [new]
            jobs.remove(largest)
            refused.append(largest)
            tokens, waiting = tokens - largest.tokens, waiting - largest.waiting
            shares[largest.client] -= largest.tokens
        return refused

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
                jobs, self._jobs, self.waiting = self._jobs, [], 0
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
                    self._changed.wait_for(lambda: self.waiting >= self.max_batch or self._stopping, self.delay)
            entered = [unit.cost for running in self._running.values() for unit in running.units]
            free, units = self.max_batch - len(entered), list[Unit]()
            for key, function in {job.key: job.function for job in sorted(self._jobs, key=self._turn)}.items():
                running = self._running.get(key)
                waiting = sum(job.waiting for job in self._jobs if job.key == key)
                if not hasattr(function, "start"):
                    units = self._take(key, []) if not self._running or self._steps >= PLAIN_STEPS else []
                elif free > 0 and (running is None or running.takes(waiting, free)):
                    units = self._take(key, entered)
                if units:
                    break
            return units

    def _begin(self, model: Model, units: list[Unit]) -> None:
        """Compute a batch, or let its inputs enter a continuous batch."""
        key, function = units[0].job.key, units[0].job.function
        try:
            running = self._running.get(key)
            if running is None and (start := getattr(function, "start", None)) is not None:
                batch = start(model)
                running = None if batch is None else RunningBatch(batch)
                self._is_plain = batch is None
            if running is not None:
                running.add(units)
                self._running[key] = running
                return
        except BaseException:  # the inputs that are in the batch already go on
            LOG.debug("inputs that cannot enter a continuous batch", exc_info=True)
        self._compute(model, units)

    def _step(self, model: Model, key: Hashable) -> None:
        """One step of a continuous batch; if it fails, each of its jobs is computed alone."""
        running, self._steps = self._running[key], self._steps + 1
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

    def _turn(self, job: Job) -> tuple[int, int, int]:
        """The order in which jobs have their turns: the smallest is next."""
        return max(self._clock, self._ends.get(job.client, 0)), job.spent, job.number

    def _take(self, key: Hashable, entered: list[int]) -> list[Unit]:
        """Inputs with this key in turns, as many as fit beside the costs of those that are in a continuous batch.

        Called with the lock held.
        """
        units: list[Unit] = []
        jobs, short = [job for job in self._jobs if job.key == key], self.batch_tokens // SHORT
        long_waits, apart = any(job.costs[job.taken] > short for job in jobs), self._is_plain and not entered
        if apart:
            short_waits = any(job.costs[job.taken] <= short for job in jobs)
            self._is_short = short_waits and not (long_waits and self._is_short)
        while jobs and len(entered) < self.max_batch:
            job = min(jobs, key=self._turn)
            cost = job.costs[job.taken]
            other = apart and (cost <= short) != self._is_short
            if other or not self._fits(cost, entered, long_waits and not apart):
                jobs.remove(job)
                continue
            self._clock = self._turn(job)[0]
            units.append(job.take())
            entered.append(units[-1].cost)
            self._ends[job.client] = self._clock + units[-1].cost
            if not job.waiting:
                jobs.remove(job)
        self.waiting -= len(units)
        self._jobs = [job for job in self._jobs if job.waiting]
        self._ends = {client: end for client, end in self._ends.items() if end > self._clock}
        return units

    def _fits(self, cost: int, entered: Sequence[int], long_waits: bool) -> bool:
        """True if an input may enter a batch; an input that is larger than a batch is alone."""
        limit, short = self.batch_tokens, self.batch_tokens // SHORT
        if not entered:
            return True
        if (len(entered) + 1) * max(cost, *entered) > PADDED * limit:
            return False
        if cost > short:
            return sum(entered) + cost <= limit - limit // RESERVED
        if long_waits:
            return sum(other for other in entered if other <= short) + cost <= limit // RESERVED
        return sum(entered) + cost <= limit

    def _compute(self, model: Model, units: list[Unit]) -> None:
        """Compute a batch; if it fails, each job of it alone."""
        self.batches, self._steps = self.batches + 1, 0
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
            if not job.future.done():  # it was cancelled while others were computed
                self._compute(model, [unit for unit in units if unit.job is job])

    def _remove(self, job: Job) -> None:
        """Forget the inputs of a job that is done, cancelled or failed."""
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)
                self.waiting -= job.waiting
                job.taken, job.tokens = len(job.inputs), 0
