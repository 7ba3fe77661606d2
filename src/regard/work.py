"""Work on many inputs, which can be watched, stopped and continued: for translations, predictions, scores and vectors.

    with Work(progress, total, path, made_from) as work:          a file beside the output, until that is written
        for result in work.count(compute(work.feed(inputs))):
            ...

Whoever computes a batch does it inside `recall`. If work with a file is under way, the results of each batch are kept
in the file. The same work, started again, makes the same batches in the same order, so it reads their results instead,
as far as they go. All that makes an output of them is done again, so that it is equal to the byte. The file is

    regard unfinished 1
    SHA256 MADE_FROM         what the results depend on: input, run, options
    SHA256 [BATCH, RESULT]   for each batch: the checksum of the batch, and its results

A kill at any moment leaves complete lines, and perhaps half a line, which is dropped. Without work under way, `recall`
only computes.

Several processes (a `Team`) do one work together: all run the same program on the same inputs, so all make the same
batches. `recall_all` takes them in rounds of one batch per process and shares the results, so every process continues
with what a single one would have computed. Only rank 0 has the file and writes the output.
"""

import hashlib
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from contextvars import ContextVar
from functools import partial
from itertools import accumulate, islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeVar, cast

from regard.errors import UserError
from regard.files import JsonObject, checksum, io_errors, lock_file

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BEGIN = b"regard unfinished 1\n"
ENDING = ".unfinished"
Progress = Callable[[int, int | None], None]
"""Called with the number of inputs that are done, and with their total if it is known."""

T = TypeVar("T")
Group = TypeVar("Group", bound=Sequence[int])
Job = tuple[object, Callable[[], T], float]
"""A batch, the function that computes its results, and the share of inputs that is done then: see `recall`."""
_current: "ContextVar[Work | None]" = ContextVar("_current", default=None)


class Team(Protocol):
    """The processes that share one work."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def share(self, value: T) -> list[T]:
        """The values of all processes, by rank; every process calls this."""


class Interrupted(KeyboardInterrupt):
    """Work was stopped by Ctrl-C or SIGTERM; what is done is in the file `path`."""

    def __init__(self, done: int, path: Path) -> None:
        super().__init__(f"stopped after {done}; kept in {path}")
        self.done, self.path = done, path


class Work:
    """Counts inputs and results, calls `progress`, and keeps the results of batches in `path` if there is one."""

    def __init__(
        self,
        progress: Progress | None = None,
        total: int | None = None,
        path: Path | None = None,
        made_from: JsonObject | None = None,
        team: Team | None = None,
    ) -> None:
        self.team = team
        self.total, self.path, self.done = total, None if team and team.rank else path, 0
        self.changed: list[str] = []
        """What the results in the file were made from and is different now; such results are not used."""
        self.batches = 0
        """Batches whose results are in the file."""
        self._progress, self._made_from = progress, json.loads(json.dumps(made_from or {}))
        self.shown = -1
        """The number that `progress` was called with last."""
        self._taken = self._before = 0
        self._stream: BinaryIO | None = None
        self._reading = False
        self._stack = ExitStack()

    @property
    def is_continued(self) -> bool:
        """True as long as results of the file are used."""
        return self._reading

    @property
    def before(self) -> int:
        """Inputs whose results were in the file."""
        return self.done if self._reading else self._before

    def __enter__(self) -> "Work":
        with ExitStack() as stack:
            if self.path is not None:
                with io_errors(self.path):
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    self._stream = stack.enter_context(self.path.open("a+b"))
                lock_file(self._stream.fileno(), self.path)
                self._begin(self._stream, self.path)
            if self.team:
                self._reading = self.team.share(self._reading)[0]
            stack.callback(_current.reset, _current.set(self))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Remove the file if the output is written, or if nothing is worth keeping."""
        with self._stack:
            if self.path is not None and (kind is None or not self.batches):
                with io_errors(self.path):
                    self.path.unlink(missing_ok=True)
        if self.path is not None and self.batches and kind is KeyboardInterrupt:
            raise Interrupted(max(self.done, self.shown), self.path)

    def feed(self, inputs: Iterable[T]) -> Iterator[T]:
        """Hand on the inputs and count them."""
        for item in inputs:
            self._taken += 1
            yield item

    def count(self, results: Iterable[T]) -> Iterator[T]:
        """Hand on the results and count them."""
        for result in results:
            yield result
            self.done += 1
            self._show(self.done)

    def _show(self, done: int) -> None:
        """Call `progress` with a larger number than before, but not for results of the file."""
        if not self._reading and done > self.shown:
            self.shown = done
            if self._progress is not None:
                self._progress(done, self.total)

    def recall(self, batch: object, compute: Callable[[], object], share: float) -> object:
        """The results for a batch from the file, or computed; `share` of the inputs that were taken are then done."""
        if self._stream is None:
            self._show(self.done)
            value = compute()
        else:
            if found := self._find(batch):
                return found[0]
            self._show(self.done)
            value = self._keep(batch, compute())
        self._show(self.done + int((self._taken - self.done) * share))
        return value

    def recall_round(self, jobs: Sequence[Job[object]], team: Team) -> list[object]:
        """The results of at most one job per process: those in rank 0's file, the others computed at the same time."""
        known: list[object] = []
        if self._reading:
            found = (self._find(batch) if self._stream else [] for batch, _, _ in jobs)
            known = team.share([value[0] for value in takewhile(bool, found)])[0]
            if len(known) < len(jobs) and self._reading:
                self._reading, self._before = False, self.done
        self._show(self.done)
        missing = jobs[len(known) :]
        computed = share_round([compute for _, compute, _ in missing], team)
        if self._stream is not None:
            computed = [self._keep(batch, value) for (batch, _, _), value in zip(missing, computed, strict=True)]
        self._show(self.done + int((self._taken - self.done) * jobs[-1][2]))
        return known + computed

    def _find(self, batch: object) -> list[object]:
        """The results for a batch from the file, in a list; none if it does not follow there, and then none do."""
        if not self._reading or self._stream is None:
            return []
        position, record = self._stream.tell(), _read(self._stream.readline())
        if isinstance(record, list) and record[0] == checksum(batch):
            self.batches += 1
            return [record[1]]
        self._reading, self._before = False, self.done
        self._stream.seek(position)
        self._stream.truncate()
        return []

    def _keep(self, batch: object, value: object) -> object:
        """Write the results for a batch to the file; return them as they will be read."""
        self.batches += 1
        return json.loads(self._append([checksum(batch), value]))[1]

    def _begin(self, stream: BinaryIO, path: Path) -> None:
        """Read what the results in the file were made from; empty it if that has changed."""
        stream.seek(0)
        if not BEGIN.startswith(stream.readline()):
            problem = f"{path} is needed for unfinished results, but contains something else"
            raise UserError(problem, "move this file, or choose a different output", code="unwritable", where=path)
        before = _read(stream.readline())
        self._reading = before == self._made_from
        if not self._reading:
            if isinstance(before, dict):
                names = [*self._made_from, *before.keys() - self._made_from.keys()]
                self.changed = [name for name in names if before.get(name) != self._made_from.get(name)]
            stream.seek(0)
            stream.truncate()
            stream.write(BEGIN)
            self._append(self._made_from)

    def _append(self, value: object) -> bytes:
        """Write a line of the file; return its JSON."""
        content = json.dumps(value).encode()
        assert self._stream is not None and self.path is not None
        with io_errors(self.path):
            self._stream.write(hashlib.sha256(content).hexdigest().encode() + b" " + content + b"\n")
            self._stream.flush()
            os.fsync(self._stream.fileno())
        return content


def join_work(total: int) -> AbstractContextManager[Work] | None:
    """The work under way if there is one, now with a total."""
    if (work := _current.get()) is not None:
        work.total = total
    return None if work is None else nullcontext(work)


def recall(batch: object, compute: Callable[[], T], share: float = 1.0) -> T:
    """Compute the results for a batch, or take them from the file of the work under way.

    batch      JSON of everything that the results depend on, besides what the work is made from
    compute    computes the results, as JSON: lists and dictionaries, no tuples
    share      the share of the inputs at hand that is done after this batch
    """
    return next(recall_all([(batch, compute, share)]))


def recall_all(jobs: Iterable[Job[T]]) -> Iterator[T]:
    """As `recall`, for each job in order; the processes of a team compute one job each at the same time."""
    work, remaining = _current.get(), iter(jobs)
    if work is None or work.team is None:
        for batch, compute, share in remaining:
            yield compute() if work is None else cast(T, work.recall(batch, compute, share))
    else:
        while round_ := list(islice(remaining, work.team.size)):
            yield from cast(list[T], work.recall_round(round_, work.team))


def recall_groups(
    groups: Sequence[Group], key: Callable[[Group], object], compute: Callable[[Group], T]
) -> Iterator[tuple[Group, T]]:
    """Each group of inputs and the results for it: `recall_all` with a batch for every group."""
    ends = list(accumulate(map(len, groups)))
    jobs = ((key(group), partial(compute, group), end / ends[-1]) for group, end in zip(groups, ends, strict=True))
    yield from zip(groups, recall_all(jobs), strict=True)


def compute_all(functions: Iterable[Callable[[], T]]) -> Iterator[T]:
    """The results of all functions in order; the processes of a team call one each at the same time."""
    work, remaining = _current.get(), iter(functions)
    if work is None or work.team is None:
        yield from (function() for function in remaining)
    else:
        while round_ := list(islice(remaining, work.team.size)):
            yield from share_round(round_, work.team)


def share_round(functions: Sequence[Callable[[], T]], team: Team) -> list[T]:
    """Call function number `rank` and share the results; a UserError of one process is raised in all."""
    own: list[T] = []
    error = None
    try:
        own += [function() for function in functions[team.rank : team.rank + 1]]
    except UserError as raised:
        error = raised
    shared = team.share((own, error))
    if failure := next((error for _, error in shared if error), None):
        raise failure
    return [value for values, _ in shared for value in values]


def pack_array(array: "npt.NDArray[np.float32]") -> JsonObject:
    """An array as JSON."""
    return {"shape": array.shape, "data": b64encode(array.astype("<f4").tobytes()).decode()}


def unpack_array(packed: JsonObject) -> "npt.NDArray[np.float32]":
    """The array of `pack_array`."""
    import numpy as np

    return np.frombuffer(b64decode(packed["data"]), "<f4").reshape(packed["shape"]).copy()


def _read(line: bytes) -> object:
    """The value of a line; None if it is incomplete or damaged."""
    sha256, _, content = line.removesuffix(b"\n").partition(b" ")
    complete = line.endswith(b"\n") and hashlib.sha256(content).hexdigest().encode() == sha256
    return json.loads(content) if complete else None
