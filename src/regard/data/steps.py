"""Steps of training, and their preparation in a background thread.

A task's `BatchSource` computes the step of a given number from a seed alone (`planning.py`, `bptt.py`,
`pretraining_batches.py`). From there on all tasks are the same.
"""

import threading
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from queue import SimpleQueue
from typing import Protocol, TypeVar

from regard.data.batch import Batch

T = TypeVar("T")


@dataclass(frozen=True)
class Step:
    """One rank's share of an optimizer step, and the size of the whole step over all ranks."""

    micro_batches: Sequence[Batch]
    """One batch for each gradient accumulation."""
    count: int
    """Labels of the whole step (target tokens, masked tokens, examples): its loss is divided by them."""
    tokens: int
    """Tokens of the whole step, to measure speed."""
    epoch: int

    def pin(self) -> "Step":
        """Copy in page-locked memory."""
        return replace(self, micro_batches=[batch.pin() for batch in self.micro_batches])


@dataclass(frozen=True)
class Share:
    """The shards of a step that one rank computes: one for each gradient accumulation."""

    rank: int = 0
    world_size: int = 1
    accumulation: int = 1

    @property
    def count(self) -> int:
        """Number of shards of a step over all ranks."""
        return self.world_size * self.accumulation

    @property
    def shards(self) -> range:
        """Indices of the shards of this rank."""
        return range(self.rank * self.accumulation, (self.rank + 1) * self.accumulation)


WHOLE = Share()


class BatchSource(Protocol):
    """Endless steps of training, addressed by number."""

    def batch(self, step: int) -> Step:
        """This rank's share of a step; a function of (seed, step)."""
        ...

    def steps_in_epoch(self, epoch: int) -> int:
        """Number of steps of an epoch."""
        ...


@dataclass(frozen=True)
class PrefetchedSteps:
    """All steps from a given number on, prepared by a thread while earlier steps are computed."""

    batches: BatchSource
    pinned: bool

    def __call__(self, first: int) -> Generator[Step, None, None]:
        return prefetch(self._step(number) for number in count(first))

    def _step(self, number: int) -> Step:
        step = self.batches.batch(number)
        return step.pin() if self.pinned else step


@dataclass(frozen=True)
class _End:
    """Marks the end of the items, and the error that ended them."""

    error: BaseException | None = None


def prefetch(items: Iterable[T], depth: int = 4) -> Generator[T, None, None]:
    """Yield `items` in order while a thread prepares up to `depth` of them ahead.

    An error in `items` is raised at the item where it occurred. Closing the iterator ends the thread.

        stream = prefetch(batches.batch(step) for step in range(first, last))
    """
    free = threading.Semaphore(depth)
    ready: SimpleQueue[T | _End] = SimpleQueue()
    stopped = threading.Event()

    def produce() -> None:
        end = _End()
        try:
            source = iter(items)
            while free.acquire() and not stopped.is_set():
                ready.put(next(source))
        except StopIteration:
            pass
        except BaseException as error:
            end = _End(error)
        ready.put(end)

    thread = threading.Thread(target=produce, name="prefetch", daemon=True)
    thread.start()
    try:
        while not isinstance(item := ready.get(), _End):
            yield item
            free.release()
        if item.error is not None:
            raise item.error
    finally:
        stopped.set()
        free.release()
        thread.join()
