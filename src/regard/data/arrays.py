"""Arrays in files: flat numbers and ragged rows, written in chunks and memory-mapped.

Each array is one file of plain little-endian numbers. A ragged column `name` is

    name.values     (N,) all rows end to end
    name.offsets    (rows + 1,) where each row begins
"""

import mmap
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]
Rows = tuple[Array, Array]
"""Rows of numbers end to end, and the length of each."""


class ArrayWriter:
    """Appends to one file of numbers."""

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self._stream = path.open("wb")
        self._dtype = _little_endian(dtype)
        self.length = 0

    def append(self, values: Array) -> None:
        """Write `values` at the end."""
        self._stream.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self.length += len(values)

    def close(self) -> None:
        self._stream.close()


class RaggedWriter:
    """Appends rows to a ragged column."""

    def __init__(self, folder: Path, name: str, dtype: DTypeLike) -> None:
        self._values = ArrayWriter(folder / f"{name}.values", dtype)
        self._offsets = ArrayWriter(folder / f"{name}.offsets", np.int64)
        self._offsets.append(np.zeros(1, np.int64))

    @property
    def rows(self) -> int:
        """Number of rows written so far."""
        return self._offsets.length - 1

    def append(self, rows: Rows) -> None:
        """Write rows at the end."""
        values, lengths = rows
        self._offsets.append(self._values.length + np.cumsum(lengths, dtype=np.int64))
        self._values.append(values)

    def close(self) -> None:
        with closing(self._offsets):  # even if the disk is full
            self._values.close()


class Ragged:
    """Rows of different lengths."""

    def __init__(self, values: Array, offsets: Array) -> None:
        self.values, self.offsets = values, offsets

    @classmethod
    def map(cls, folder: Path, name: str, dtype: DTypeLike, *, scattered: bool = False) -> "Ragged":
        """Memory-map a column that a `RaggedWriter` of the same name wrote."""
        types = {"values": dtype, "offsets": np.int64}
        return cls(*(map_array(folder / f"{name}.{kind}", types[kind], scattered=scattered) for kind in types))

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.offsets) - 1

    def gather(self, indices: Array) -> Rows:
        """Some rows end to end, and the length of each."""
        starts = self.offsets[indices]
        lengths = self.offsets[indices + 1] - starts
        return self.values[positions(starts, lengths)], lengths


def row_offsets(lengths: Sequence[int] | Array) -> Array:
    """Where rows of these lengths begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def positions(starts: Array, lengths: Array) -> Array:
    """start, start + 1, ... start + length - 1 for every row, end to end."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())


def flatten(rows: Sequence[Sequence[float]], dtype: DTypeLike) -> Rows:
    """Rows of Python numbers end to end, and the length of each."""
    return np.array([value for row in rows for value in row], dtype), np.array([len(row) for row in rows], np.int64)


def map_array(path: Path, dtype: DTypeLike, *, scattered: bool = False) -> Array:
    """Memory-map the numbers of a file. An empty file, which cannot be mapped, is an empty array. With `scattered`,
    single rows are read: the system does not read ahead."""
    with path.open("rb") as stream:
        if os.fstat(stream.fileno()).st_size == 0:
            return np.empty(0, dtype)
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    if scattered and hasattr(mmap, "MADV_RANDOM"):
        mapped.madvise(mmap.MADV_RANDOM)
    return np.frombuffer(mapped, _little_endian(dtype))


def smallest_unsigned(count: int) -> np.dtype[Any]:
    """The narrower of two and four bytes that can number `count` things."""
    return np.dtype(np.uint16 if count <= 1 << 16 else np.uint32)


def _little_endian(dtype: DTypeLike) -> np.dtype[np.generic]:
    kind = np.dtype(dtype)
    return kind if sys.byteorder == "little" else kind.newbyteorder("<")
