"""Stores in parts: a corpus is prepared by many processes, on one machine or many, with the result of a single one.

    plan.json         slices of the corpus: a source, or a range of lines in its files
    parts/NAME/       a slice, filtered and tokenised: a store; keys: hashes of its rows, by partition
    duplicates/G/     group G of the partitions: the rows of each part that have an equal row before them
    kept/NAME/        the rows of a part that are not duplicates, if it has duplicates
    manifest.json     the parts in the order of the corpus

Each line is a map over independent items: slices, groups of partitions, parts. An item is a pure function of files,
and leaves a folder with a manifest as a whole or not at all. So any number of processes can do the work in any order, a
process that is killed leaves nothing half done, and doing it again gives the same bytes. What is there already is not
done again: a folder's name, or the inputs in its manifest, identify everything it was made from.

Of equal rows the first in the order of the corpus is kept. Equal rows have equal keys, and so lie in one partition: to
compare all rows, memory for 1/256 of the keys is enough. A small corpus has fewer groups, because files cost time.
"""

import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import DTypeLike
from pydantic import BaseModel

from regard.data.accounts import Account
from regard.data.arrays import Array, ArrayWriter, Ragged, map_array
from regard.data.digests import Digests
from regard.data.examples import Example
from regard.data.fields import Fields
from regard.data.formats import identify, make_examples, no_examples, open_source, read_records
from regard.data.records import BINARY
from regard.data.sources import Source
from regard.data.store import (
    CHUNK_ROWS,
    FORMAT,
    PARTS,
    PLAN,
    Encoder,
    LengthFacts,
    PartFacts,
    StoreWriter,
    check_part,
    fingerprint,
    require_rows,
    type_names,
    write_store,
)
from regard.data.tables import beginning, choose_layout
from regard.errors import UserError
from regard.files import COMPRESSED, Manifest, digest, open_binary, remove_folder, split_archive
from regard.processes import in_chunks
from regard.reading import check_dataclass, check_type, refuse_devices
from regard.run_files import MANIFEST

DUPLICATES, KEPT = "duplicates", "kept"
SLICE_BYTES = 1 << 24
"""A file is not cut into smaller slices: a part has seven files, and each costs some time."""
PARTITION_BITS = 8
PARTITIONS = 1 << PARTITION_BITS
GROUP_BYTES = 1 << 28
"""Text whose keys are compared at a time, unless the corpus has more than PARTITIONS times as much."""
KEY_ROWS = 1 << 20
"""Keys that are sorted by partition at a time."""
KEYS: Mapping[str, DTypeLike] = {"keys": np.uint64, "key_rows": np.uint32}
"""Columns of a part whose rows are segments: the keys of partition 0, 1 ... of the first KEY_ROWS rows, and so on."""
BLOCK = 1 << 20
BOM = b"\xef\xbb\xbf"


class Slice(BaseModel):
    """A part of the corpus: a whole source, or the lines of its files from `starts` to `stops`, in bytes."""

    name: str
    source: int
    """The number of the source in the recipe."""
    starts: list[int] = []
    stops: list[int] = []
    line: int = 1
    """The number of the first line."""
    header: bool | None = None
    """True if the first line of a table names the columns of this slice too; False if no line does."""


class Plan(BaseModel):
    """Slices of a corpus in its order, and what they were made from."""

    content: str
    """Identifies the corpus (`Task.content`)."""
    inputs: str
    """Identifies the store: the corpus and the encoder."""
    parts: int
    """The largest number of slices of a source."""
    slices: list[Slice]
    groups: int
    """Groups of partitions: a power of two."""
    files: dict[str, list[int]]
    """Size and time of the last change of each file."""

    def write(self, folder: Path) -> None:
        Manifest(FORMAT, self.inputs, facts={"plan": self.model_dump()}).write(folder / PLAN)

    @classmethod
    def read(cls, folder: Path) -> "Plan":
        manifest = Manifest.read(folder / PLAN)
        plan: Plan = check_type(manifest.facts.get("plan"), cls, folder / PLAN)
        return plan


@dataclass(frozen=True)
class Corpus:
    """Training data to prepare in parts: where it is, how it is read and encoded, and the folder of its store."""

    sources: Sequence[Source]
    root: Path
    fields: Fields
    encoder: Encoder
    folder: Path
    distinct: bool = True
    """True if only the first of equal rows is kept."""
    names: str = "the data"
    """Names the data in an error."""


# ---- the plan


def make_plan(corpus: Corpus, content: str, parts: int, digests: Digests) -> Plan:
    """Cut every source of a corpus into up to `parts` slices. A file that is added later changes no other's slices."""
    slices = []
    files = {str(path): _status(path) for source in corpus.sources for path in source.files(corpus.root)}
    for number, source in enumerate(corpus.sources):
        identity = identify([source], corpus.root, corpus.fields, digests)
        for item in _cut_source(source, number, corpus, parts):
            place = repr((item.starts, item.stops, item.header))
            item.name = fingerprint("part", identity, corpus.encoder.identity, place)[:20]
            slices.append(item)
    inputs, size = fingerprint(content, corpus.encoder.identity), sum(size for size, _ in files.values())
    groups = min(PARTITIONS, 1 << (size // GROUP_BYTES).bit_length())
    return Plan(content=content, inputs=inputs, parts=parts, slices=slices, groups=groups, files=files)


def check_plan(plan: Plan, corpus: Corpus) -> None:
    """Raise a UserError if a file, the tokenizers or the settings changed after the plan was made; no file is read."""
    known = {str(path): path for source in corpus.sources for path in source.files(corpus.root)}
    if known.keys() != plan.files.keys() or plan.inputs != fingerprint(plan.content, corpus.encoder.identity):
        raise outdated_plan(corpus.folder, "the recipe")
    for name, status in plan.files.items():
        if _status(known[name]) != status:
            raise outdated_plan(corpus.folder, name)


def outdated_plan(folder: Path, changed: str) -> UserError:
    """The error for a plan after which something changed; `folder` is that of the store."""
    problem, remedy = f"{changed} changed after {folder / PLAN} was written", "repeat the command with `--part 0`"
    return UserError(problem, remedy, code="outdated-plan", where=folder / PLAN)


def _status(path: Path) -> list[int]:
    path = split_archive(path)[0]
    if not path.is_file():
        open_binary(path).close()  # raises the error that the user sees
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _cut_source(source: Source, number: int, corpus: Corpus, parts: int) -> list[Slice]:
    """The slices of a source: ranges of lines, if its format has one record per line and it is not compressed."""
    whole, kind, paths = Slice(name="", source=number), corpus.fields.format_of(source), source.files(corpus.root)
    plain = all(path.suffix not in COMPRESSED and not split_archive(path)[1] for path in paths)
    by_line = kind in ("aligned", "jsonl", "examples") or (kind == "tsv" and not source.quoted)
    if not plain or not by_line or source.labels_file is not None:
        return [whole]
    count = min(parts, paths[0].stat().st_size // SLICE_BYTES)
    cuts = _cut_lines(paths[0], count)
    offsets = [[offset for offset, _ in cuts], *(_find_lines(path, [line for _, line in cuts]) for path in paths[1:])]
    starts = [[0] * len(paths)]
    lines = [1]
    tab = (source.delimiter or "\t").encode() if kind == "tsv" else b""
    for (_, line), *places in zip(cuts, *offsets, strict=False):
        if all(_may_begin(path, place, tab) for path, place in zip(paths, places, strict=True)):
            starts.append(places)
            lines.append(line)
    header = None
    if kind == "tsv" and len(starts) > 1:
        files = open_source(source, corpus.root, corpus.fields)
        header = choose_layout(files, kind, *beginning(files.lines())).header
    bounds = [*starts, [path.stat().st_size for path in paths]]
    return [
        Slice(name="", source=number, starts=first, stops=last, line=line, header=header)
        for (first, last), line in zip(pairwise(bounds), lines, strict=True)
    ]


def _cut_lines(path: Path, count: int) -> list[tuple[int, int]]:
    """Where to cut a file into `count` ranges of lines: offset and number of the line that follows each cut."""
    size, cuts, lines, position = path.stat().st_size, list[tuple[int, int]](), 0, 0
    with path.open("rb") as stream:
        for target in (number * size // count for number in range(1, count)):
            while position < target:
                block = stream.read(min(BLOCK, target - position))
                position, lines = position + len(block), lines + block.count(b"\n")
            rest = stream.readline()  # of the line at the target
            position, lines = position + len(rest), lines + 1
            if rest.endswith(b"\n") and position < size:
                cuts.append((position, lines + 1))
    return list(dict.fromkeys(cuts))


def _find_lines(path: Path, numbers: Sequence[int]) -> list[int]:
    """Where the lines with these ascending numbers, from 2, begin; fewer if the file has fewer."""
    found, lines, position = list[int](), 1, 0
    with path.open("rb") as stream:
        while len(found) < len(numbers) and (block := stream.read(BLOCK)):
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
            for number in numbers[len(found) :]:
                if number - lines > len(ends):
                    break
                found.append(position + int(ends[number - lines - 1]) + 1)
            position, lines = position + len(block), lines + len(ends)
    return found


def _may_begin(path: Path, offset: int, tab: bytes) -> bool:
    """False if a line would be read differently at the beginning of a file, where its encoding is checked. The first
    row of a table decides how many columns, separated by `tab`, the others have."""
    with path.open("rb") as stream:
        stream.seek(offset)
        line = stream.readline(BLOCK)
    same = not tab or line.count(tab) == _first_line(path).count(tab)
    return same and line.endswith(b"\n") and not line.startswith((BOM, *BINARY))


# ---- a part


class _Range(io.RawIOBase):
    """Some bytes, then a file from `start` to `stop`."""

    def __init__(self, path: Path, prefix: bytes, start: int, stop: int) -> None:
        super().__init__()
        self._stream, self._prefix, self._left = path.open("rb"), prefix, stop - start
        self._stream.seek(start)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        data = self._prefix[: len(buffer)]
        self._prefix = self._prefix[len(data) :]
        if not data:
            data = self._stream.read(min(len(buffer), self._left))
            self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def read_slice(corpus: Corpus, item: Slice, record: Callable[[Account], None]) -> Iterator[Example]:
    """The examples of a slice; at the end, `record` gets the account of what was read."""
    source = corpus.sources[item.source]
    paths = source.files(corpus.root)
    for path in paths:
        refuse_devices(path)
    later = bool(item.starts) and item.starts[0] > 0
    prefix = _first_line(paths[0]) if later and item.header else b""
    if later and item.header is False:
        source = source.model_copy(update={"header": False})
    ranges = dict(zip(paths, zip(item.starts, item.stops, strict=True), strict=True)) if item.starts else {}

    def opener(path: Path) -> BinaryIO:
        if path not in ranges:
            return open_binary(path)
        return cast(BinaryIO, io.BufferedReader(_Range(path, prefix, *ranges[path]), BLOCK))

    def finish(account: Account) -> None:
        if prefix:  # the header is counted where it is
            account.read -= 1
            account.dropped = {name: count for name, count in account.dropped.items() if name != "header"}
        record(account)

    try:
        records = read_records(source, corpus.root, corpus.fields, opener, finish)
        yield from make_examples(records, source, corpus.fields, {})
    except UserError as error:
        if not later:
            raise
        problem = f"{error.problem} (counted from line {item.line - bool(prefix):,} of the file)"
        raise UserError(problem, error.remedy, code=error.code, where=error.where) from error


def _first_line(path: Path) -> bytes:
    """The first line of a file that is not blank."""
    with path.open("rb") as stream:
        return next((line for line in stream if line.removeprefix(BOM).strip()), b"")


def write_part(corpus: Corpus, plan: Plan, number: int) -> None:
    """Read, filter and tokenise a slice, unless it is there: a folder in `parts`."""
    encoder, accounts, item = corpus.encoder, list[Account](), plan.slices[number]

    def write(writer: StoreWriter) -> Counter[str]:
        counts, keys = Counter[str](), _KeyWriter(writer)
        lengths = {name: LengthFacts() for name in encoder.dtypes}
        for chunk in map(encoder, in_chunks(read_slice(corpus, item, accounts.append))):
            writer.append(chunk.columns)
            counts.update(chunk.counts)
            counts["examples"] += chunk.examples
            counts["rows"] += len(next(iter(chunk.columns.values()))[1])
            for name, (_, sizes) in chunk.columns.items():
                lengths[name].add(sizes)
            if chunk.keys is not None:
                keys.append(chunk.keys)
        keys.flush()
        check_plan(plan, corpus)  # the name of the part stands for what was just read
        writer.facts["account"] = vars(accounts[0])
        writer.facts["lengths"] = {name: facts.model_dump() for name, facts in lengths.items()}
        return counts

    _write_once(corpus.folder / PARTS / item.name, item.name, {**encoder.dtypes, **KEYS}, write)


class _KeyWriter:
    """Writes the keys of rows, sorted by partition, in segments of bounded size (see `KEYS`)."""

    def __init__(self, writer: StoreWriter) -> None:
        self._writer, self._waiting, self._first = writer, list[Array](), 0

    def append(self, keys: Array) -> None:
        self._waiting.append(keys)
        if sum(map(len, self._waiting)) >= KEY_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what was appended."""
        if not self._waiting:
            return
        keys = np.concatenate(self._waiting)
        partitions = (keys >> np.uint64(64 - PARTITION_BITS)).astype(np.uint8)
        order = np.argsort(partitions, kind="stable")
        sizes = np.bincount(partitions, minlength=PARTITIONS)
        self._writer.append({"keys": (keys[order], sizes), "key_rows": (order + self._first, sizes)})
        self._first, self._waiting = self._first + len(keys), []


def _write_once(
    folder: Path, inputs: str, dtypes: Mapping[str, DTypeLike], write: Callable[[StoreWriter], Mapping[str, int]]
) -> None:
    """Write a store, unless there is one that was made from `inputs` and whose files have their sizes."""
    manifest = Manifest.read_or_none(folder / MANIFEST)
    current = manifest is not None and manifest.is_current(inputs, FORMAT)
    if manifest is None or not current or manifest.damaged(folder, digest=None):
        write_store(folder, inputs, dtypes, write)


# ---- duplicates


def find_duplicates(folder: Path, names: Sequence[str], group: int, groups: int) -> None:
    """Find the rows of each part that have an equal row before them, in one group of the partitions."""

    def write(writer: StoreWriter) -> dict[str, int]:
        found = [_keys_of(folder / PARTS / name, group, groups) for name in names]
        ends = np.cumsum([len(keys) for keys, _ in found])
        keys, rows = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        repeated = np.ones(len(keys), bool)
        repeated[np.unique(keys, return_index=True)[1]] = False
        bounds = np.searchsorted(np.flatnonzero(repeated), ends)
        writer.append({"rows": (rows[repeated], np.diff(bounds, prepend=0))})
        return {"rows": int(repeated.sum())}

    inputs = fingerprint("duplicates", str(group), str(groups), *names)
    _write_once(folder / DUPLICATES / _group_name(group), inputs, {"rows": np.uint32}, write)


def _group_name(group: int) -> str:
    return f"{group:03}"


def _keys_of(part: Path, group: int, groups: int) -> tuple[Array, Array]:
    """The keys of a part in one group of partitions, and their rows. Equal keys have ascending rows."""
    keys, rows = (Ragged.map(part, name, dtype) for name, dtype in KEYS.items())
    segments = np.arange(len(keys))
    segments = segments[segments % PARTITIONS * groups // PARTITIONS == group]
    return keys.gather(segments)[0], rows.gather(segments)[0]


def select_rows(folder: Path, names: Sequence[str], number: int, groups: int) -> None:
    """Check every byte of a part; if it has duplicates, write the rows that are none, and their lengths."""
    part, name = folder / PARTS / names[number], _kept_name(names, number)
    facts = check_part(part, digest).facts

    def write(writer: StoreWriter) -> dict[str, int]:
        dropped = [_duplicates_in(folder, group, number) for group in range(groups)]
        kept = np.ones(int(cast(dict[str, int], facts["counts"])["rows"]), bool)
        kept[np.concatenate(dropped)] = False
        columns = {name: LengthFacts() for name in cast(dict[str, object], facts["lengths"])}
        writer.facts["lengths"] = facts["lengths"]
        if kept.all():
            return {"rows": len(kept)}
        writer.select(np.flatnonzero(kept))
        for column, kept_lengths in columns.items():
            lengths = map_array(part / f"{column}.lengths", np.int32)
            with closing(ArrayWriter(writer.folder / f"{column}.lengths", np.int32)) as stream:
                for first in range(0, len(kept), CHUNK_ROWS):
                    chunk = lengths[first : first + CHUNK_ROWS][kept[first : first + CHUNK_ROWS]]
                    stream.append(chunk)
                    kept_lengths.add(chunk)
        writer.facts["lengths"] = {name: counted.model_dump() for name, counted in columns.items()}
        return {"rows": int(kept.sum())}

    _write_once(folder / KEPT / name, name, {}, write)


def _kept_name(names: Sequence[str], number: int) -> str:
    """Identifies the kept rows of a part: they depend on the parts before it."""
    return fingerprint("kept", *names[: number + 1])[:20]


def _duplicates_in(folder: Path, group: int, number: int) -> Array:
    """The duplicates in one part, of one group of partitions."""
    rows = Ragged.map(folder / DUPLICATES / _group_name(group), "rows", np.uint32)
    return rows.values[rows.offsets[number] : rows.offsets[number + 1]]


# ---- the whole


def steps(corpus: Corpus, plan: Plan) -> dict[str, int]:
    """The maps to do one after another, each with its number of items."""
    parts = len(plan.slices)
    return {PARTS: parts, DUPLICATES: plan.groups, KEPT: parts} if corpus.distinct else {PARTS: parts}


def work_sizes(corpus: Corpus, plan: Plan) -> list[int]:
    """Bytes of text in each slice, times its copies and directions."""
    sizes = []
    for item in plan.slices:
        source = corpus.sources[item.source]
        lengths = (plan.files[str(path)][0] for path in source.files(corpus.root))
        size = sum(item.stops) - sum(item.starts) if item.stops else sum(lengths)
        sizes.append(size * (source.repeat or 1) * max(1, len(source.language_pairs())))
    return sizes


def do_item(corpus: Corpus, plan: Plan, step: str, number: int) -> None:
    """Do one item of a step, unless it is done."""
    names = [item.name for item in plan.slices]
    if step == PARTS:
        write_part(corpus, plan, number)
    elif step == DUPLICATES:
        find_duplicates(corpus.folder, names, number, plan.groups)
    else:
        select_rows(corpus.folder, names, number, plan.groups)


def merge(corpus: Corpus, plan: Plan) -> list[Account]:
    """Write the manifest of all parts, remove what earlier plans left, and return an account for each source."""
    folder, counts, parts, files = corpus.folder, Counter[str](), list[PartFacts](), list[str]()
    accounts = [Account(str(source)) for source in corpus.sources]
    names = [item.name for item in plan.slices]
    used = {f"{DUPLICATES}/{_group_name(group)}" for group in range(plan.groups if corpus.distinct else 0)}
    for number, item in enumerate(plan.slices):
        part, kept = f"{PARTS}/{item.name}", f"{KEPT}/{_kept_name(names, number)}" if corpus.distinct else ""
        used |= {part, kept}
        manifest = check_part(folder / part)
        files.append(f"{part}/{MANIFEST}")
        counts.update(cast(dict[str, int], manifest.facts["counts"]))
        accounts[item.source].add(check_dataclass(manifest.facts["account"], Account, folder / part))
        if kept:
            read, manifest = _rows(manifest), check_part(folder / kept)
            counts["duplicate"] += read - _rows(manifest)
            files += [f"{kept}/{MANIFEST}"] if manifest.files else []
            kept = kept if manifest.files else ""
        lengths = check_type(manifest.facts["lengths"], dict[str, LengthFacts], folder)
        parts.append(PartFacts(folder=part, kept=kept, rows=_rows(manifest), lengths=lengths))
    counts["rows"] = sum(part.rows for part in parts)
    for source, account in zip(corpus.sources, accounts, strict=True):
        if not account.kept:
            raise no_examples(source, corpus.root)
    require_rows(counts, corpus.names)
    facts = {"dtypes": type_names(corpus.encoder.dtypes), "counts": dict(counts)}
    facts[PARTS] = [json.loads(part.model_dump_json()) for part in parts if part.rows]
    before = Manifest.read_or_none(folder / MANIFEST)
    names = sorted(dict.fromkeys(files))
    Manifest.describe(folder, names, format=FORMAT, inputs=plan.inputs, facts=facts).write(folder / MANIFEST)
    for name in () if before is None or PARTS in before.facts else before.files:
        (folder / name).unlink(missing_ok=True)  # a store that one process wrote
    for path in folder.glob("*/[!.]*"):
        if path.relative_to(folder).as_posix() not in used:
            remove_folder(path)
    return accounts


def _rows(manifest: Manifest) -> int:
    return int(cast(dict[str, int], manifest.facts["counts"]).get("rows", 0))
