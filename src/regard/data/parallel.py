"""Work on chunks in several processes: results in order, a bounded number of chunks in memory."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import TypeVar, cast

from regard.errors import UserError

CHUNK_ITEMS, CHUNK_CHARACTERS = 2_000, 1 << 22
SINGLE_PROCESS_CHUNKS = 100
"""So few chunks are done in this process, by the tokenizer's own threads: starting processes takes longer."""

C = TypeVar("C")
R = TypeVar("R")


def in_chunks(items: Iterable[C]) -> Iterator[list[C]]:
    """Items in chunks, bounded in number and in characters of text."""
    chunk: list[C] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += count_characters(item)
        if len(chunk) == CHUNK_ITEMS or size >= CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def count_characters(value: object) -> int:
    """Characters of all texts in a value, for example in a dictionary or a list."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(count_characters, value.values()))
    return sum(map(count_characters, value)) if isinstance(value, (list, tuple)) else 0


def map_in_order(function: Callable[[C], R], chunks: Iterable[C], workers: int) -> Generator[R, None, None]:
    """Apply a picklable function to every chunk in `workers` processes; results come in the order of the chunks.

    A chunk is sent only when an earlier result was taken, so memory does not grow with the input.
    """
    chunks = iter(chunks)
    first = list(islice(chunks, SINGLE_PROCESS_CHUNKS + 1))
    if len(first) <= SINGLE_PROCESS_CHUNKS or workers == 1:
        yield from map(function, chain(first, chunks))
        return
    # "spawn", because a forked child would inherit the tokenizer's threads in an undefined state
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_start, initargs=(function,))
    pending: deque[Future[R]] = deque()
    try:
        for chunk in chain(first, chunks):
            pending.append(pool.submit(cast(Callable[[C], R], _apply), chunk))
            if len(pending) > 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool as error:
        raise UserError(
            "a process that tokenises ended unexpectedly",
            "set data.workers lower if memory ran out; a script of your own needs if __name__ == '__main__':",
            code="worker-failed",
            where="data.workers",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def count_workers(workers: int) -> int:
    """Number of processes; 0 means one for each core this process may use."""
    if workers:
        return workers
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_function: Callable[[object], object]


def _start(function: Callable[[C], R]) -> None:
    """Prepare a new process: one thread each, because there is a process for each core.

    It ends with its parent, also if the parent is killed: nobody would send it the end of the work.
    """
    global _function
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _function = cast(Callable[[object], object], function)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _apply(chunk: object) -> object:
    return _function(chunk)
