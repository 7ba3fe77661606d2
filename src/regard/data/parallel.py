"""Work on chunks in several processes, results in order, a bounded number of chunks in memory."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import get_context
from typing import Any, TypeVar

from regard.errors import UserError

CHUNK_ITEMS, CHUNK_CHARACTERS = 2_000, 1 << 22
ALONE = 100  # so few chunks are done here, by the tokenizer's own threads: starting processes takes longer

C = TypeVar("C")
R = TypeVar("R")


def in_chunks(items: Iterable[C], characters: Callable[[C], int]) -> Iterator[list[C]]:
    """Items in handfuls of bounded size, given how many characters each of them has."""
    chunk: list[C] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += characters(item)
        if len(chunk) == CHUNK_ITEMS or size >= CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def map_in_order(
    prepare: Callable[..., Callable[[C], R]], arguments: tuple[Any, ...], chunks: Iterable[C], workers: int
) -> Generator[R, None, None]:
    """`prepare(*arguments)` once a process, then its result on every chunk; results come in the order of the chunks.

    A chunk is handed out only when an earlier result was taken, so memory does not grow with the input.
    """
    chunks = iter(chunks)
    first = list(islice(chunks, ALONE + 1))
    if len(first) <= ALONE or workers == 1:
        yield from map(prepare(*arguments), chain(first, chunks))
        return
    # "spawn", because a forked child would inherit the tokenizer's threads in an undefined state
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_start, initargs=(prepare, arguments))
    pending: deque[Future[Any]] = deque()
    try:
        for chunk in chain(first, chunks):
            pending.append(pool.submit(_do, chunk))
            if len(pending) > 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool as error:
        remedy = "set data.workers lower if memory ran out; a script of your own needs if __name__ == '__main__':"
        raise UserError("a process that tokenises ended unexpectedly", remedy) from error
    finally:
        pool.shutdown(cancel_futures=True)


def count_workers(workers: int) -> int:
    """The number of processes that `workers` means: 0 is one for each core this process may use."""
    if workers:
        return workers
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_prepared: Callable[[Any], Any]


def _start(prepare: Callable[..., Callable[[Any], Any]], arguments: tuple[Any, ...]) -> None:
    """In a new process: one thread each, since there is a process for each core."""
    global _prepared
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _prepared = prepare(*arguments)


def _do(chunk: Any) -> Any:
    return _prepared(chunk)
