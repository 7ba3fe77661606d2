"""A store: tokenised examples in a folder, as named ragged columns that are memory-mapped.

    name.values, name.offsets    a column (see arrays.py)
    name.lengths                 (rows,) length of each selected row
    rows                         (rows,) selected rows, if duplicates were removed
    groups                       (groups + 1,) first row of each group: a document, or an example of several inputs
    manifest.json                what the store was made from, and the sha256 of every file; or a list of parts, each a
                                 store in a folder (see parts.py)
    digests.json                 sha256 of files that were read before (see digests.py)

Examples stream through an encoder in chunks, in several processes, so memory does not grow with the data. Only the
keys that find duplicates grow, eight bytes a row. The order of rows is the order of examples, for any number of
processes. A store that is current is opened by mapping it: its files are not read.
"""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Protocol, cast

import numpy as np
from numpy.typing import DTypeLike
from pydantic import BaseModel

from regard.data.arrays import Array, ArrayWriter, Ragged, RaggedWriter, Rows, map_array, positions, row_offsets
from regard.data.digests import Digests
from regard.data.duplicates import Marks, find_duplicates
from regard.data.examples import Example
from regard.errors import UserError
from regard.files import JsonObject, Manifest, replacing
from regard.processes import count_workers, in_chunks, map_in_order
from regard.reading import check_type
from regard.run_files import MANIFEST

DIGESTS = "digests.json"
PLAN = "plan.json"
"""The plan of a store in parts: as long as they are not complete, there is no manifest."""
PARTS = "parts"
"""The key of a manifest that lists the parts of a store."""
MAPPED_PARTS = 512
"""Parts that are mapped at a time, if the system allows so many open files."""
FILES_PER_PART = 8
FORMAT = 4
"""Version of the files; a store of another version is built again."""
CHUNK_ROWS = 1 << 16

ProgressCallback = Callable[[int, int | None], None]
"""Called with the number of examples done, and the number of all examples if it is known."""


@dataclass(frozen=True)
class Encoded:
    """A chunk of examples after tokenising."""

    columns: Mapping[str, Rows]
    examples: int
    """Number of examples in the chunk."""
    counts: Counter[str] = field(default_factory=Counter)
    """Facts that are summed over all chunks."""
    keys: Array | None = None
    """(rows,) 64-bit hash of each row. Of rows with equal keys the store keeps the first."""
    groups: Array | None = None
    """First row of each group that begins in this chunk. A group without rows disappears."""
    marks: Marks | None = None
    """What finds further duplicates among the rows (see duplicates.py)."""
    reasons: Sequence[str | None] = ()
    """Why each example is left out; None for one that is a row."""


class Encoder(Protocol):
    """Tokenises chunks of examples; picklable, to run in several processes."""

    @property
    def identity(self) -> str:
        """Everything that the encoded columns depend on, besides the examples."""

    @property
    def dtypes(self) -> Mapping[str, DTypeLike]:
        """The columns and their types."""

    def __call__(self, examples: list[Example]) -> Encoded: ...


class Store:
    """Named ragged columns, and counts that describe them."""

    def __init__(
        self,
        columns: Mapping[str, Ragged],
        *,
        lengths: Mapping[str, Array] | None = None,
        rows: Array | None = None,
        groups: Array | None = None,
        counts: Mapping[str, int] | None = None,
        fingerprint: str = "",
    ) -> None:
        self._columns, self._lengths, self._rows = columns, lengths or {}, rows
        self.groups = np.zeros(1, np.int64) if groups is None else groups
        self.counts: Mapping[str, int] = counts or {}
        self.fingerprint = fingerprint
        """Hash of everything the store was made from."""

    @classmethod
    def of(cls, encoded: Encoded) -> "Store":
        """A store in memory of one encoded chunk, without removal of duplicates."""
        columns = {name: Ragged(values, row_offsets(lengths)) for name, (values, lengths) in encoded.columns.items()}
        rows = max((len(column) for column in columns.values()), default=0)
        groups = None if encoded.groups is None else np.append(encoded.groups, rows)
        return cls(columns, groups=groups, counts=encoded.counts)

    @classmethod
    def open(cls, folder: Path, manifest: Manifest) -> "Store":
        """Map the files of a folder that are current."""
        if PARTS in manifest.facts:
            return PartedStore(folder, manifest)
        dtypes = cast(dict[str, str], manifest.facts["dtypes"])
        rows, groups = (
            map_array(folder / name, np.int64) if name in manifest.files else None for name in ("rows", "groups")
        )
        return cls(
            {name: Ragged.map(folder, name, dtype) for name, dtype in dtypes.items()},
            lengths={name: map_array(folder / f"{name}.lengths", np.int32) for name in dtypes},
            rows=rows,
            groups=groups,
            counts=cast(dict[str, int], manifest.facts["counts"]),
            fingerprint=str(manifest.inputs),
        )

    def __len__(self) -> int:
        """Number of rows."""
        return len(next(iter(self._columns.values()))) if self._rows is None else len(self._rows)

    def gather(self, name: str, indices: Array) -> Rows:
        """Some rows of a column end to end, and the length of each."""
        return self._columns[name].gather(indices if self._rows is None else self._rows[indices])

    def load(self, indices: Array) -> "Store":
        """Some rows in memory."""
        return _in_memory({name: self.gather(name, indices) for name in self._columns})

    def lengths(self, name: str) -> Array:
        """(rows,): length of each row of a column."""
        return self._lengths[name] if name in self._lengths else np.diff(self.offsets(name))

    def values(self, name: str) -> Array:
        """(N,): all rows of a column end to end."""
        assert self._rows is None, "rows that were removed lie between the others"
        return self._columns[name].values

    def offsets(self, name: str) -> Array:
        """(rows + 1,): where each row of a column begins in its `values`."""
        assert self._rows is None, "rows that were removed lie between the others"
        return self._columns[name].offsets


def _in_memory(columns: Mapping[str, Rows]) -> Store:
    """A store of some rows."""
    ragged = {name: Ragged(values, row_offsets(lengths)) for name, (values, lengths) in columns.items()}
    return Store(ragged, lengths={name: lengths for name, (_, lengths) in columns.items()})


class PartedStore(Store):
    """The parts of a manifest as one store. A part is mapped when it is read; memory does not grow with the rows."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        parts = check_type(manifest.facts[PARTS], list[PartFacts], folder / MANIFEST)
        counts = cast(dict[str, int], manifest.facts["counts"])
        super().__init__({}, counts=counts, fingerprint=str(manifest.inputs))
        self._folder, self._dtypes = folder, cast(dict[str, str], manifest.facts["dtypes"])
        self._parts = [(part.folder, part.kept) for part in parts]
        self._starts = row_offsets([part.rows for part in parts])
        self._facts = {name: LengthFacts.join(part.lengths[name] for part in parts) for name in self._dtypes}
        self._checked = np.zeros(len(parts), bool)
        self._map = lru_cache(mappable_parts())(self._map_part)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def gather(self, name: str, indices: Array) -> Rows:
        return self._read([name], indices)[name]

    def load(self, indices: Array) -> Store:
        return _in_memory(self._read([*self._dtypes], indices))

    def _read(self, names: Sequence[str], indices: Array) -> dict[str, Rows]:
        """Some rows of columns; each part is mapped once and read from its beginning to its end."""
        order, found = np.argsort(indices, kind="stable"), {name: list[Rows]() for name in names}
        for number, rows in self._by_part(indices[order]):
            part = self._map(number)
            for name in names:
                found[name].append(part.gather(name, rows))
        places = np.argsort(order)  # where each index is in the sorted order
        result = {}
        for name, gathered in found.items():
            values, lengths = (np.concatenate(arrays) for arrays in zip(*gathered, strict=True))
            begins = np.cumsum(lengths) - lengths
            result[name] = values[positions(begins[places], lengths[places])], lengths[places]
        return result

    def lengths(self, name: str) -> Array:
        return cast(Array, PartedLengths(self, name, self._facts[name]))  # as much of an array as planning needs

    def lengths_at(self, name: str, indices: Array) -> Array:
        """Lengths of some rows of a column."""
        order = np.argsort(indices, kind="stable")
        found = [self._map(number).lengths(name)[rows] for number, rows in self._by_part(indices[order])]
        result = np.empty(len(indices), np.int32)
        result[order] = np.concatenate(found)
        return result

    def _map_part(self, number: int) -> Store:
        """Map one part; the size of its files is checked once."""
        folder, kept = self._parts[number]
        part, chosen = self._folder / folder, self._folder / (kept or folder)
        if not self._checked[number]:
            for path in dict.fromkeys((part, chosen)):
                check_part(path)
            self._checked[number] = True
        columns = {name: Ragged.map(part, name, dtype, scattered=True) for name, dtype in self._dtypes.items()}
        lengths = {name: map_array(chosen / f"{name}.lengths", np.int32, scattered=True) for name in self._dtypes}
        rows = map_array(chosen / "rows", np.int64, scattered=True) if kept else None
        return Store(columns, lengths=lengths, rows=rows)

    def _by_part(self, ascending: Array) -> Iterator[tuple[int, Array]]:
        """The parts of some rows, each with the numbers of the rows in it."""
        bounds = np.searchsorted(ascending, self._starts)
        for number in np.flatnonzero(np.diff(bounds)):
            rows = ascending[bounds[number] : bounds[number + 1]]
            yield int(number), rows - self._starts[number]


class PartedLengths:
    """(rows,): length of each row of a column, without an array of all; sums and the maximum are in the manifest."""

    def __init__(self, store: PartedStore, name: str, facts: "LengthFacts") -> None:
        self._store, self._name, self._facts = store, name, facts

    def __len__(self) -> int:
        return len(self._store)

    def __getitem__(self, indices: Array) -> Array:
        return self._store.lengths_at(self._name, indices)

    def sum(self, dtype: object = None) -> int:
        return self._facts.total

    def max(self) -> int:
        return self._facts.longest

    def mean(self) -> float:
        return self.sum() / len(self)

    def std(self) -> float:
        variance = self._facts.squares / len(self) - self.mean() ** 2
        return float(max(variance, 0.0) ** 0.5)


class LengthFacts(BaseModel):
    """Sum, sum of squares and maximum of the row lengths of a column."""

    total: int = 0
    squares: int = 0
    longest: int = 0

    @classmethod
    def join(cls, facts: Iterable["LengthFacts"]) -> "LengthFacts":
        """The facts of several columns end to end."""
        result = cls()
        for part in facts:
            result.total, result.squares = result.total + part.total, result.squares + part.squares
            result.longest = max(result.longest, part.longest)
        return result

    def add(self, lengths: Array) -> None:
        """Count further rows."""
        exact = lengths.astype(np.int64)
        self.total, self.squares = self.total + int(exact.sum()), self.squares + int((exact**2).sum())
        self.longest = max(self.longest, int(exact.max(initial=0)))


class PartFacts(BaseModel):
    """A part of a store: its folder, the folder with the rows to keep if it has duplicates, facts about its rows."""

    folder: str
    kept: str = ""
    rows: int
    lengths: dict[str, LengthFacts]


def mappable_parts() -> int:
    """How many parts can be mapped at a time, with half of the open files that the system allows."""
    if sys.platform == "win32":
        return MAPPED_PARTS
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * FILES_PER_PART * MAPPED_PARTS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MAPPED_PARTS if soft == resource.RLIM_INFINITY else min(MAPPED_PARTS, soft // (2 * FILES_PER_PART))


def check_part(part: Path, digest: Callable[[Path], str] | None = None) -> Manifest:
    """The manifest of a part; a UserError if the part is missing or damaged. Without `digest`, sizes are checked."""
    manifest = Manifest.read_or_none(part / MANIFEST)
    damaged = {MANIFEST: "it is missing or damaged"} if manifest is None else manifest.damaged(part, digest=digest)
    if manifest is None or damaged:
        file, problem = next(iter(damaged.items()))
        remedy = f"delete {part} and repeat `regard prepare`"
        raise UserError(f"{part / file}: {problem}", remedy, code="damaged-file", where=part)
    return manifest


class StoreWriter:
    """Writes the columns of a store into a folder."""

    def __init__(self, folder: Path, dtypes: Mapping[str, DTypeLike]) -> None:
        self.folder = folder
        self.facts: JsonObject = {}
        """Further facts for the manifest."""
        self.dtypes = type_names(dtypes)
        self._columns = {name: RaggedWriter(folder, name, dtype) for name, dtype in dtypes.items()}
        self._groups: ArrayWriter | None = None
        self._last_group = -1
        self._rows: Array | None = None

    def append(self, columns: Mapping[str, Rows], groups: Array | None = None) -> None:
        """Write rows, and the groups that begin with some of them."""
        if groups is not None:
            self._groups = self._groups or ArrayWriter(self.folder / "groups", np.int64)
            starts = groups + next(iter(self._columns.values())).rows
            self._groups.append(starts[np.diff(starts, prepend=self._last_group) > 0])  # an empty group disappears
            self._last_group = int(starts[-1]) if len(starts) else self._last_group
        for name, rows in columns.items():
            self._columns[name].append(rows)

    def select(self, rows: Array) -> None:
        """Keep these rows only."""
        self._rows = rows
        with closing(ArrayWriter(self.folder / "rows", np.int64)) as writer:
            writer.append(rows)

    def __enter__(self) -> "StoreWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        rows = max((column.rows for column in self._columns.values()), default=0)
        with ExitStack() as stack:  # closes every file, even if the disk is full
            for column in self._columns.values():
                stack.callback(column.close)
            if self._groups is not None:
                stack.callback(self._groups.close)
                if self._last_group < rows:
                    self._groups.append(np.array([rows]))
        for name in self._columns if error is None else ():
            self._write_lengths(name)

    def _write_lengths(self, name: str) -> None:
        offsets = map_array(self.folder / f"{name}.offsets", np.int64)
        rows = len(offsets) - 1 if self._rows is None else len(self._rows)
        with closing(ArrayWriter(self.folder / f"{name}.lengths", np.int32)) as writer:
            for first in range(0, rows, CHUNK_ROWS):
                chunk = np.arange(first, min(first + CHUNK_ROWS, rows))
                chunk = chunk if self._rows is None else self._rows[chunk]
                writer.append(offsets[chunk + 1] - offsets[chunk])


def open_or_build(
    folder: Path,
    identity: str,
    examples: Callable[[], Iterable[Example]],
    encoder: Encoder,
    workers: int = 0,
    progress: ProgressCallback | None = None,
    digests: Digests | None = None,
    data: str = "the data",
) -> Store:
    """Open the store of some examples in `folder`; build it if it is missing, damaged or made from something else.

    `identity` stands for everything the examples depend on. `examples()` is called only to build. `workers` is the
    number of processes, 0 for one on each core. `data` names the examples in an error.
    """

    def build(writer: StoreWriter) -> Counter[str]:
        items, counts, keys, marks, rows = examples(), Counter[str](), list[Array](), list[Marks](), 0
        total = len(items) if isinstance(items, Sized) else None
        with closing(map_in_order(encoder, in_chunks(items), count_workers(workers))) as encoded:
            for chunk in encoded:
                writer.append(chunk.columns, chunk.groups)
                counts.update(chunk.counts)
                counts["examples"] += chunk.examples
                rows += len(next(iter(chunk.columns.values()))[1])
                if chunk.keys is not None:
                    keys.append(chunk.keys)
                if chunk.marks is not None:
                    marks.append(chunk.marks)
                if progress is not None:
                    progress(counts["examples"], total)
        if keys or marks:
            kept, repeated = distinct_rows(rows, keys, marks)
            counts.update({reason: len(copies) for reason, copies in repeated.items()})
            rows = len(kept)
            writer.select(kept)
        counts["rows"] = rows
        return require_rows(counts, data)

    return open_or_write(folder, fingerprint(identity, encoder.identity), encoder.dtypes, build, digests)


def distinct_rows(rows: int, keys: Sequence[Array], marks: Sequence[Marks]) -> tuple[Array, dict[str, Array]]:
    """Those of `rows` rows that are kept, and the others by reason: duplicates of rows that are kept."""
    kept, repeated = np.arange(rows), dict[str, Array]()
    if keys:
        first = np.sort(np.unique(np.concatenate(keys), return_index=True)[1])
        kept, repeated["duplicate"] = first, np.delete(kept, first)
    if marks:
        repeated |= find_duplicates(Marks.join(marks), kept)
        for reason in repeated.keys() - {"duplicate"}:
            kept = np.setdiff1d(kept, repeated[reason], assume_unique=True)
    return kept, repeated


def require_rows(counts: Counter[str], data: str) -> Counter[str]:
    """Return the counts of a store; a UserError if it has no rows."""
    if not counts["rows"]:
        facts = ", ".join(f"{name.replace('_', ' ')}: {count:,}" for name, count in counts.items() if count)
        remedy = f"check the data and the filters in [data] ({facts or 'nothing was read'})"
        raise UserError(f"all examples in {data} were filtered out", remedy, code="no-data", where=data)
    return counts


def open_or_write(
    folder: Path,
    inputs: str,
    dtypes: Mapping[str, DTypeLike],
    write: Callable[[StoreWriter], Mapping[str, int]],
    digests: Digests | None = None,
) -> Store:
    """Open the store in `folder` if it was made from `inputs`; otherwise `write` it beside `folder` and rename it."""
    digests = Digests(folder / DIGESTS) if digests is None else digests
    manifest = _current(folder, inputs, dtypes, digests)
    if manifest is None:
        if is_parted(folder) or (folder / PLAN).exists():  # one process would take days for what many have done
            problem = f"the parts in {folder} are incomplete, damaged, or made from other text, settings or tokenizers"
            remedy = f"repeat `regard prepare` with `--parts`; to prepare the data in one process, delete {folder}"
            raise UserError(problem, remedy, code="outdated-parts", where=folder)
        write_store(folder, inputs, dtypes, write)
        manifest = _current(folder, inputs, dtypes, digests)
        if manifest is None:
            problem, remedy = f"{folder} changed while it was read", "do not prepare this data in two processes at once"
            raise UserError(problem, remedy, code="in-use", where=folder)
    digests.save()
    return Store.open(folder, manifest)


def write_store(
    folder: Path,
    inputs: str,
    dtypes: Mapping[str, DTypeLike],
    write: Callable[[StoreWriter], Mapping[str, int]],
) -> None:
    """Write a store beside `folder`, then put it in the place of `folder`: it is there as a whole or not at all."""
    with replacing(folder, folder=True) as aside:
        with StoreWriter(aside, dtypes) as writer:
            counts = write(writer)
        names = sorted(path.name for path in aside.iterdir())
        facts: JsonObject = {"dtypes": writer.dtypes, "counts": dict(counts), **writer.facts}
        Manifest.describe(aside, names, format=FORMAT, inputs=inputs, facts=facts).write(aside / MANIFEST)


def is_parted(folder: Path) -> bool:
    """True if the store in `folder` is a list of parts."""
    manifest = Manifest.read_or_none(folder / MANIFEST)
    return manifest is not None and PARTS in manifest.facts


def _current(folder: Path, inputs: str, dtypes: Mapping[str, DTypeLike], digests: Digests) -> Manifest | None:
    """The manifest of a store that was made from `inputs`, has columns of these types and is not damaged, or None.

    Files that `digests` does not know are read completely: a wrong byte would be trained on without notice.
    """
    manifest = Manifest.read_or_none(folder / MANIFEST)
    if manifest is None or not manifest.is_current(inputs, FORMAT):
        return None
    parts = ("values", "offsets", "lengths") if PARTS not in manifest.facts else ()
    columns = [f"{name}.{part}" for name in dtypes for part in parts]
    if manifest.facts.get("dtypes") != type_names(dtypes) or not manifest.files.keys() >= {*columns}:
        return None
    try:
        check_type(manifest.facts.get("counts"), dict[str, int], folder / MANIFEST)
        return None if manifest.damaged(folder, digest=digests.of) else manifest
    except (OSError, UserError):
        return None


def type_names(dtypes: Mapping[str, DTypeLike]) -> dict[str, str]:
    """The types of columns by their names, as a manifest has them."""
    return {name: np.dtype(dtype).name for name, dtype in dtypes.items()}


def damaged_files(folder: Path) -> list[str]:
    """Files of a store that are not as they were written; every byte is read."""
    manifest = Manifest.read_or_none(folder / MANIFEST)
    if manifest is None:
        return [MANIFEST]
    parts = [name.removesuffix(f"/{MANIFEST}") for name in manifest.files if PARTS in manifest.facts]
    return [*manifest.damaged(folder), *(f"{part}/{name}" for part in parts for name in damaged_files(folder / part))]


def fingerprint_of(folder: Path) -> str | None:
    """Fingerprint of the store in `folder`, current or not; None if there is none."""
    manifest = Manifest.read_or_none(folder / MANIFEST)
    return None if manifest is None else str(manifest.inputs)


def fingerprint(*texts: str) -> str:
    """sha256 of some texts."""
    return hashlib.sha256(json.dumps(["regard store", *texts]).encode()).hexdigest()
