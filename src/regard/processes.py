"""Work in several processes that end with their parent.

`map_in_order` applies a function to chunks in a pool: results in order, a bounded number of chunks in memory.
`run_each` starts a process per item and passes on what it reports: one that is killed ends no other.

Processes are spawned: a forked child would inherit the threads of torch and of tokenizers in an undefined state. The
import of plugins.py lets them unpickle classes of plug-ins.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain, islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from threading import Thread
from traceback import extract_tb
from typing import TypeVar, cast

import regard.plugins as plugins  # noqa: F401
from regard.errors import UserError

CHUNK_ITEMS, CHUNK_CHARACTERS = 2_000, 1 << 22
SINGLE_PROCESS_CHUNKS = 100
"""So few chunks are done in this process, by the tokenizer's own threads: starting processes takes longer."""

CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Microseconds of computation per period that a container may use on Linux: "200000 100000" are two cores."""

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
    """Apply a picklable function to every chunk in `workers` processes; results come in the order of the chunks. A
    chunk is sent only when an earlier result was taken, so memory does not grow with the input."""
    chunks = iter(chunks)
    first = list(islice(chunks, SINGLE_PROCESS_CHUNKS + 1))
    if len(first) <= SINGLE_PROCESS_CHUNKS or workers == 1:
        yield from map(function, chain(first, chunks))
        return
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_start_worker, initargs=(function,))
    pending: deque[Future[R]] = deque()
    try:
        for chunk in chain(first, chunks):
            pending.append(pool.submit(cast(Callable[[C], R], _apply), chunk))
            if len(pending) > 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool as error:
        problem = "a tokenizing process ended unexpectedly"
        remedy = "reduce `data.workers` if memory ran out; a script of your own needs `if __name__ == '__main__':`"
        raise UserError(problem, remedy, code="worker-failed", where="data.workers") from error
    finally:
        pool.shutdown(cancel_futures=True)


def count_workers(workers: int) -> int:
    """Number of processes; 0 means one per core that this process may use, also in a container with a limit."""
    if workers:
        return workers
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = CPU_QUOTA.read_text().split()
        return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):  # another system, or no limit
        return cores


_function: Callable[[object], object]


def _start_worker(function: Callable[[C], R]) -> None:
    """Prepare a process of the pool: one thread each, because there is a process for each core."""
    global _function
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _function = cast(Callable[[object], object], function)
    _end_with_parent()


def _apply(chunk: object) -> object:
    return _function(chunk)


@dataclass(frozen=True)
class Ended:
    """The end of a process; `failure` is the reason if it failed."""

    failure: str = ""


def run_each(
    work: Callable[[C, Callable[[str], None]], object], items: Iterable[C], processes: int
) -> Generator[tuple[C, str | Ended], None, None]:
    """Call `work(item, report)` in a new process per item, `processes` at a time; yield each reported line and end."""
    waiting, running = deque(items), dict[Connection, tuple[C, SpawnProcess]]()
    context = get_context("spawn")
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                item = waiting.popleft()
                connection, end = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(work, item, end), daemon=True)
                process.start()
                end.close()
                running[connection] = item, process
            for connection in cast(list[Connection], wait(list(running))):
                item, process = running[connection]
                message = _receive(connection, process)
                if isinstance(message, Ended):
                    del running[connection]
                yield item, message
    finally:
        for connection, (_, process) in running.items():
            process.terminate()
            process.join()
            connection.close()


def _receive(connection: Connection, process: SpawnProcess) -> str | Ended:
    """The next line of a process, or its end."""
    try:
        message: str | Ended = connection.recv()
        if isinstance(message, str):
            return message
        process.join()
    except (EOFError, ConnectionError):  # it was killed
        process.join()
        message = Ended(f"its process ended with exit status {process.exitcode}")
    connection.close()
    return message


def _work(work: Callable[[C, Callable[[str], None]], object], item: C, connection: Connection) -> None:
    """What a process of `run_each` does; Ctrl-C is for its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    try:
        work(item, connection.send)
        connection.send(Ended())
    except Exception as error:
        connection.send(Ended(explain(error)))


def explain(error: Exception) -> str:
    """An error in one line: its kind, its text and where it was raised."""
    if isinstance(error, UserError):
        return error.problem
    frames = extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def _end_with_parent() -> None:
    """End this process with its parent, even if the parent is killed: nobody would send it the end of the work."""

    def wait_for_parent() -> None:
        parent = parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    Thread(target=wait_for_parent, daemon=True).start()
