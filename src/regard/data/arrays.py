"""A folder of flat arrays that is either whole and current or is made again.

Each array is one file of plain little-endian numbers, written piece by piece and read through the page cache. A
`meta.json` names every file with its sha256 and carries a fingerprint of all that the content depends on, and a
checksum of itself. To open such a folder takes the same short time whatever its size: nothing is read but what the
file system says of each file, as long as that is what it said when the file was last read whole (`Digests`).
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from regard.data.digests import Digests, checksum
from regard.errors import UserError
from regard.files import read_json, replacing, write_json

META, SEEN = "meta.json", "seen.json"
FORMAT = 3  # which arrays there are and what they hold; another one is made again
Array = NDArray[Any]
Rows = tuple[Array, Array]
"""Rows of numbers end to end, and the length of each."""


class ArrayWriter:
    """Appends to one file of numbers."""

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        """Start an empty array of `dtype` at `path`."""
        self._stream = path.open("wb")
        self._dtype = _little(dtype)
        self.length = 0

    def append(self, values: Array) -> None:
        """Write `values` behind what is there."""
        self._stream.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self.length += len(values)

    def __enter__(self) -> "ArrayWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stream.close()


class RaggedWriter:
    """Appends rows of different lengths: `name.ids` holds them end to end, `name.offsets` where each begins."""

    def __init__(self, folder: Path, name: str, dtype: DTypeLike) -> None:
        """Start an empty list of rows in `folder`."""
        self._values = ArrayWriter(folder / f"{name}.ids", dtype)
        self._offsets = ArrayWriter(folder / f"{name}.offsets", np.int64)
        self._offsets.append(np.zeros(1, np.int64))

    def append(self, values: Array, lengths: Array) -> None:
        """Write rows that lie end to end in `values`."""
        self._offsets.append(self._values.length + np.cumsum(lengths, dtype=np.int64))
        self._values.append(values)

    def __enter__(self) -> "RaggedWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._values.__exit__(kind, error, at)
        self._offsets.__exit__(kind, error, at)


class Ragged:
    """Rows of different lengths, memory-mapped."""

    def __init__(self, folder: Path, name: str, dtype: DTypeLike) -> None:
        """Map what a `RaggedWriter` of the same name wrote."""
        self.values = map_array(folder / f"{name}.ids", dtype)
        self.offsets = map_array(folder / f"{name}.offsets", np.int64)

    def gather(self, rows: Array) -> Rows:
        """The given rows end to end, and the length of each."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        return self.values[positions(starts, lengths)], lengths


def row_offsets(lengths: Sequence[int] | Array) -> Array:
    """Where rows of these lengths begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def positions(starts: Array, lengths: Array) -> Array:
    """start, start + 1, ... start + length - 1 for every row, end to end."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())


def map_array(path: Path, dtype: DTypeLike) -> Array:
    """The numbers of a file without reading them; an empty file, which cannot be mapped, is an empty array."""
    if path.stat().st_size == 0:
        return np.empty(0, dtype)
    return np.asarray(np.memmap(path, dtype=_little(dtype), mode="r"))


def smallest_unsigned(count: int) -> np.dtype[Any]:
    """The narrower of two and four bytes that can number `count` things."""
    return np.dtype(np.uint16 if count <= 1 << 16 else np.uint32)


def fingerprint(*parts: str) -> str:
    """A sha256 over `parts`, each set off from the next."""
    return hashlib.sha256(json.dumps(["regard arrays 2", *parts]).encode()).hexdigest()


def seal(folder: Path, print_of_inputs: str, facts: dict[str, Any]) -> None:
    """Write `meta.json` over a finished folder."""
    sums = _sums(folder, (path.name for path in sorted(folder.iterdir())), Digests())
    content = {"format": FORMAT, "fingerprint": print_of_inputs, "sums": sums, **facts}
    write_json(folder / META, {**content, "checksum": checksum(content)})


def unseal(folder: Path, print_of_inputs: str, digests: Digests) -> dict[str, Any] | None:
    """The facts of a sealed folder, or None if it is missing, damaged or made from other inputs.

    What `digests` do not remember is read to its last byte: a wrong one would be trained on and never seen.
    """
    content = _facts(folder)
    if content is None or content.get("format") != FORMAT or content.get("fingerprint") != print_of_inputs:
        return None
    try:
        return content if content["sums"] == _sums(folder, content["sums"], digests) else None
    except OSError:
        return None


def open_or_make(
    folder: Path, print_of_inputs: str, digests: Digests, make: Callable[[Path], dict[str, Any]]
) -> dict[str, Any]:
    """The facts of a sealed folder; where there is none that is whole and current, `make` fills one and says them.

    It is made aside and renamed, so what is there is whole.
    """
    facts = unseal(folder, print_of_inputs, digests)
    if facts is None:
        with replacing(folder, folder=True) as place:
            seal(place, print_of_inputs, make(place))
        facts = unseal(folder, print_of_inputs, digests)
        if facts is None:
            raise UserError(f"{folder} changed while it was read", "let one process at a time prepare the data")
    digests.save()
    return facts


def damaged(folder: Path) -> list[str]:
    """The files of a sealed folder that are not as they were written, every byte of them read."""
    content = _facts(folder)
    if content is None:
        return [META]
    return [name for name, known in content["sums"].items() if _sum(folder / name) != known]


def made_from(folder: Path) -> str | None:
    """The fingerprint of what a sealed folder was made from, whole or not; None if nothing can be said."""
    try:
        return str(read_json(folder / META)["fingerprint"])
    except (UserError, KeyError, TypeError):
        return None


def _facts(folder: Path) -> dict[str, Any] | None:
    """What `meta.json` says, or None if it is not there or not as it was written."""
    try:
        content: dict[str, Any] = read_json(folder / META)
        return content if content.pop("checksum") == checksum(content) else None
    except (UserError, AttributeError, KeyError, TypeError):
        return None


def _sums(folder: Path, names: Iterable[str], digests: Digests) -> dict[str, str]:
    return {name: digests.of(folder / name) for name in names}


def _sum(path: Path) -> str | None:
    try:
        return Digests().of(path)
    except OSError:
        return None


def _little(dtype: DTypeLike) -> np.dtype[Any]:
    kind = np.dtype(dtype)
    return kind if sys.byteorder == "little" else kind.newbyteorder("<")
