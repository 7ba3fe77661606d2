"""Preparing the next batches while the current one is computed."""

import threading
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _End:
    """Says that nothing follows, or what went wrong."""

    error: BaseException | None = None


def prefetch(items: Iterable[T], depth: int = 4) -> Generator[T, None, None]:
    """Yield `items` in their order while a thread prepares up to `depth` of them ahead.

    An error in `items` is raised where the item would have come. Closing the iterator ends the thread.

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
