"""Batches of token sequences, padded to a rectangle or packed into a stream, and steps of training.

    padded   | the cat sat . |        packed   | the cat sat . a dog . _ _ |
             | a dog . _ _   |                   0             4       7        offsets

A padded batch is as wide as its longest sequence. A packed batch has a fixed capacity of tokens and sequences and is
filled up at the end, so that all batches have one shape and a CUDA graph can be replayed on them.

A task's `BatchSource` computes the step of a given number from a seed alone (`planning.py`, `bptt.py`,
`pretraining.py`). A background thread prepares steps ahead.

B sequences, T tokens of the longest, N tokens of a stream, C sequences of a stream.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from queue import SimpleQueue
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.attention.layouts import Packed, Padded, Tokens
from regard.data.arrays import Array, Rows, row_offsets
from regard.text.symbols import BOS, PAD

IGNORE = -100
"""Label without a loss; the default `ignore_index` of torch."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Tensors by name. Token sequences are `source` and, for encoder-decoder models, `target`:

        source                                              token ids, (B, T) or (N,); or features, (B, T, F)
        source_lengths                                      (B,), if padded
        source_offsets, source_rows, source_positions       (C + 1,), (N,), (N,), if packed: see `Packed`
        labels                                              see the task

    Further tensors, for example `segments`, belong to the task.
    """

    tensors: Mapping[str, Tensor]
    tokens: int
    """Tokens without padding, to measure speed."""
    shard: int = 0
    """Index of this batch among all micro-batches of its step, over all ranks."""

    @classmethod
    def of(cls, arrays: Mapping[str, Array], tokens: int, shard: int = 0) -> "Batch":
        """Convert arrays to tensors."""
        return cls({name: torch.as_tensor(array) for name, array in arrays.items()}, tokens, shard)

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    @property
    def source(self) -> Tokens:
        return self.sequences("source")

    @property
    def target(self) -> Tokens:
        return self.sequences("target")

    @property
    def labels(self) -> Tensor:
        return self.tensors["labels"]

    @property
    def is_packed(self) -> bool:
        return "source_offsets" in self.tensors

    def sequences(self, name: str) -> Tokens:
        """Token ids with their layout."""
        ids = self.tensors[name]
        if not self.is_packed:
            return Padded.of(ids, self.tensors[f"{name}_lengths"])
        offsets, rows = self.tensors[f"{name}_offsets"], self.tensors[f"{name}_rows"]
        return Tokens(ids, Packed(offsets, rows, self.tensors[f"{name}_positions"]))

    def replaced(self, **tensors: Tensor) -> "Batch":
        """Copy with some tensors replaced."""
        return replace(self, tensors={**self.tensors, **tensors})

    def without_labels(self, **ignored: int) -> "Batch":
        """Copy without a loss, for a rank that gets no examples: all ranks take part in every collective operation."""
        filled = {name: torch.full_like(self.tensors[name], value) for name, value in ignored.items()}
        return replace(self.replaced(**filled), tokens=0)

    def repeated(self) -> "Batch":
        """All sequences, then all of them again."""
        both = {name: torch.cat([tensor, tensor]) for name, tensor in self.tensors.items()}
        for name in ("source", "target") if self.is_packed else ():
            offsets, rows = self.tensors[f"{name}_offsets"], self.tensors[f"{name}_rows"]
            count = len(offsets) - 1
            both[f"{name}_offsets"] = torch.cat([offsets[:-1], offsets + len(self.tensors[name])])
            # All padding belongs to the last sequence: the one before the second half is no longer empty.
            first = rows.masked_fill(rows == count - 1, 2 * count - 1)
            both[f"{name}_rows"] = torch.cat([first, rows + count])
        return replace(self, tensors=both, tokens=2 * self.tokens)

    def to(self, device: torch.device | str) -> "Batch":
        """Copy on `device`. A copy from pinned memory is asynchronous."""
        return self._mapped(lambda tensor: tensor.to(device, non_blocking=True))

    def pin(self) -> "Batch":
        """Copy in page-locked memory, from which a GPU copies asynchronously."""
        return self._mapped(lambda tensor: tensor.pin_memory())

    def _mapped(self, function: Callable[[Tensor], Tensor]) -> "Batch":
        return replace(self, tensors={name: function(tensor) for name, tensor in self.tensors.items()})


def pad_sequences(name: str, rows: Rows, filler: int = PAD) -> dict[str, Array]:
    """Tensors of a padded sequence: a rectangle (B, T) and the lengths (B,)."""
    return {name: pad_rows(rows, filler), f"{name}_lengths": rows[1].astype(np.int64)}


def pack_sequences(name: str, rows: Rows, size: int, sequences: int, filler: int = PAD) -> dict[str, Array]:
    """Tensors of a packed stream of `size` tokens and `sequences` sequences.

    The tokens that fill up the stream belong to the last sequence, which is empty: `sequences` is at least one more
    than there are rows.
    """
    values, lengths = rows
    offsets = np.full(sequences + 1, len(values), np.int32)
    offsets[: len(lengths) + 1] = row_offsets(lengths)
    positions = np.arange(len(values)) - np.repeat(offsets[: len(lengths)], lengths)
    return {
        name: fill(values.astype(np.int64), size, filler),
        f"{name}_offsets": offsets,
        f"{name}_rows": fill(np.repeat(np.arange(len(lengths)), lengths), size, sequences - 1),
        f"{name}_positions": fill(positions, size, 0),
    }


def pad_rows(rows: Rows, filler: float = PAD) -> Array:
    """Rectangle (B, T) of rows, each filled up at the end; float32 or int64. Rows of vectors give (B, T, F)."""
    values, lengths = rows
    kind = np.float32 if values.dtype == np.float32 else np.int64
    rectangle = np.full((len(lengths), int(lengths.max()), *values.shape[1:]), filler, kind)
    rectangle[np.arange(rectangle.shape[1]) < lengths[:, None]] = values
    return rectangle


def fill(values: Array, size: int, filler: float) -> Array:
    """`values` filled up to `size` entries along the first dimension."""
    return np.concatenate([values, np.full((size - len(values), *values.shape[1:]), filler, values.dtype)])


def round_up(count: int, unit: int) -> int:
    """Next multiple of `unit`; matrix products are faster on such sizes."""
    return -(-count // unit) * unit


def decoder_inputs(targets: Rows) -> Rows:
    """Targets shifted to the right: each row begins with BOS and drops its last token."""
    values, lengths = targets
    shifted = np.empty(len(values), np.int64)
    shifted[1:] = values[:-1]
    shifted[np.cumsum(lengths) - lengths] = BOS
    return shifted, lengths


# ---- steps of training


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

    def steps_in_epoch(self, epoch: int) -> int:
        """Number of steps of an epoch."""


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
