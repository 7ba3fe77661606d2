"""The splits of labelled data: duplicates, hold-out, overlap and the limit, decided by hashes in bounded memory.

The data files are read once. Every example is written to a file of JSON lines, `examples.jsonl`, and of each example a
few hashes stay in memory, 40 bytes. They decide which examples train, validate and test; a split is then a list of
numbers of lines. The file and the numbers are kept, and used again as long as the data and the settings are the same.

The position of an example in [0, 1) is a hash of its first input, as in `data/split.py`: test takes the low end, valid
the high end. So examples of equal texts are in the same split.

Two examples are equal if a model reads the same in them, spaces aside; or, with `same_ending`, if one ends with the
whole text of the other. A text is compared from its end, so it is the prefix of another.
"""

import json
import shutil
import tempfile
import weakref
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt

from regard.data import split as splitting
from regard.data.arrays import map_array
from regard.data.digests import Digests
from regard.data.examples import Example
from regard.data.fields import Fields
from regard.data.formats import identify, read_examples
from regard.data.settings import SIZE_SETTINGS, LabelledDataSettings
from regard.data.split import Hashes, SplitPlan, hash_sentence, hash_text, normalize_sentence
from regard.errors import UserError
from regard.files import Manifest, checksum, replacing
from regard.messages import Message, join_messages
from regard.reading import check_dataclass
from regard.recipe_files import earlier_names
from regard.run_files import MANIFEST, SPLITS

EXAMPLES, OFFSETS, DIGESTS = "examples.jsonl", "offsets.npy", "digests.json"
FORMAT = 1  # of the files; increase it when they change
MIN_ENDING = 40  # letters and digits; a shorter text may well be the end of an unrelated one
SEED = 1  # of the hold-out

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SelectionReport:
    """How many examples were read, left out and used."""

    read: dict[str, int]
    duplicates: int
    conflicts: int
    """Duplicates with another target."""
    shared: int
    """Training examples that are also in valid or test."""
    kept_apart: bool
    held_out: dict[str, int]
    beyond_limit: int
    examples: dict[str, int]

    def __str__(self) -> str:
        """One line per split, for people."""
        notes: dict[str, list[str]] = {split: [] for split in self.examples}
        for split, count in self.read.items():
            notes[split] += [Message("{count:,} read", count=count)] if count else []
        if self.duplicates:
            with_conflicts = Message("{duplicates:,} duplicates ({conflicts:,} with another label)", **vars(self))
            plain = Message("{duplicates:,} duplicates", duplicates=self.duplicates)
            notes["train"].append(with_conflicts if self.conflicts else plain)
        if self.shared:
            kept = Message("kept: data.exclude_overlap = true leaves them out")
            use = Message("left out") if self.kept_apart else kept
            notes["train"].append(Message("{count:,} also in valid or test, {use}", count=self.shared, use=use))
        for split, count in self.held_out.items():
            notes["train"].append(Message("{count:,} held out for {split}", count=count, split=split))
            notes[split].append(Message("held out of train"))
        if self.beyond_limit:
            notes["train"].append(Message("{count:,} beyond data.limit", count=self.beyond_limit))
        counts = {split: f"{split:5}  {count:>9,}" for split, count in self.examples.items()}
        lines = {count: join_messages("; ", notes[split]) for split, count in counts.items()}
        return join_messages("\n", (join_messages("  ", filter(None, line)) for line in lines.items()))


class ExampleFile(Sequence[Example]):
    """Some of the examples of a file of JSON lines, read from the disk when they are used."""

    def __init__(self, folder: Path, indices: Indices | None = None) -> None:
        """Map the file; `indices` selects lines, None all of them."""
        path = folder / EXAMPLES
        self._bytes = map_array(path, np.uint8)
        self._offsets: Indices = np.load(folder / OFFSETS, mmap_mode="r")
        self._indices: Sequence[int] | Indices = range(len(self._offsets) - 1) if indices is None else indices

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        """The example at a position, or a list of those of a slice."""
        if isinstance(index, slice):
            return [self._read(int(line)) for line in self._indices[index]]
        return self._read(int(self._indices[index]))

    def __iter__(self) -> Iterator[Example]:
        return (self._read(int(line)) for line in self._indices)

    def _read(self, line: int) -> Example:
        example: Example = json.loads(self._bytes[self._offsets[line] : self._offsets[line + 1]].tobytes())
        return example


@dataclass(frozen=True)
class LabelledSplits:
    """The examples of each split in the order of the files."""

    train: Sequence[Example]
    valid: Sequence[Example]
    test: Sequence[Example]
    report: SelectionReport
    identity: str
    """Changes when the examples do: the content of the files, and the settings that select from them."""


def open_splits(folder: Path, data: LabelledDataSettings, fields: Fields) -> LabelledSplits:
    """The splits that are kept in `folder`; they are made again if the data or the settings have changed."""
    digests = Digests(folder / DIGESTS)
    manifest = Manifest.read_or_none(folder / MANIFEST)
    report, files = None, {f"{split}.npy" for split in SPLITS}
    if manifest and manifest.is_current(_inputs(data, fields, digests), FORMAT) and manifest.files.keys() >= files:
        with suppress(UserError):
            report = check_dataclass(manifest.facts.get("report"), SelectionReport, folder / MANIFEST)
    if manifest is None or report is None or manifest.damaged(folder, digest=digests.of):
        with replacing(folder, folder=True) as path:
            report = _build(path, data, fields, digests)
            names, inputs = sorted(file.name for file in path.iterdir()), _inputs(data, fields, digests)
            manifest = Manifest.describe(path, names, format=FORMAT, inputs=inputs, facts={"report": asdict(report)})
            manifest.write(path / MANIFEST)
    digests.save()
    train, valid, test = (ExampleFile(folder, np.load(folder / f"{split}.npy", mmap_mode="r")) for split in SPLITS)
    return LabelledSplits(train, valid, test, report, checksum(manifest.inputs))


def load_splits(data: LabelledDataSettings, fields: Fields) -> LabelledSplits:
    """The splits in a temporary folder, which is removed with them."""
    folder = tempfile.mkdtemp(prefix="regard-")
    try:
        splits = open_splits(Path(folder) / "examples", data, fields)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(splits, shutil.rmtree, folder, ignore_errors=True)
    return splits


def _inputs(data: LabelledDataSettings, fields: Fields, digests: Digests) -> object:
    """Settings and file contents that the splits depend on."""
    names = ("hold_out", "hold_out_test", "drop_duplicates", "same_ending", "exclude_overlap", "limit", "limit_seed")
    selection = earlier_names({"data": {name: getattr(data, name) for name in names}})["data"]
    sources = {split: identify(getattr(data, split), data.folder, fields, digests) for split in SPLITS}
    return {"sources": sources, "selection": selection, "fields": [fields.read.__name__, fields.inputs, fields.target]}


def _build(folder: Path, data: LabelledDataSettings, fields: Fields, digests: Digests) -> SelectionReport:
    """Read all sources once, write every example, and the numbers of the examples of each split."""
    keys, read, offsets = ExampleHashes(data, fields), {}, array("q", [0])
    spellings: dict[str, str] = {}
    with (folder / EXAMPLES).open("wb") as file:
        for split in SPLITS:
            before = len(keys)
            sources = getattr(data, split)
            for example in read_examples(sources, data.folder, fields, opener=digests.open, spellings=spellings):
                offsets.append(offsets[-1] + file.write(json.dumps(example, ensure_ascii=False).encode() + b"\n"))
                keys.add(example)
            read[split] = len(keys) - before
    np.save(folder / OFFSETS, np.frombuffer(offsets, np.int64))
    indices, report = select(keys, keys.identities(ExampleFile(folder)), read, data)
    for split in SPLITS:
        np.save(folder / f"{split}.npy", indices[split])
    return report


class ExampleHashes:
    """Hashes of labelled examples, in the order of reading.

    group    equal for examples that are held out together
    target   equal for equal targets
    limit    the order in which `data.limit` takes examples
    """

    def __init__(self, data: LabelledDataSettings, fields: Fields) -> None:
        self._data, self._fields = data, fields
        self._dedup, self.group, self.target, self.limit = array("Q"), array("Q"), array("Q"), array("Q")
        self._ending, self._length = array("Q"), array("q")

    def __len__(self) -> int:
        return len(self._dedup)

    def add(self, example: Example) -> None:
        """Append the hashes of one example."""
        fields, ending = self._fields, self._data.same_ending
        text, group = fields.dedup_text(example), fields.group_text(example)
        self.group.append(hash_sentence(normalize_sentence(group)[-MIN_ENDING:] if ending else group, SEED))
        self.target.append(hash_text(json.dumps(example[fields.target], sort_keys=True)))
        if self._data.limit:
            self.limit.append(hash_sentence(text, self._data.limit_seed))
        if ending:
            text = normalize_sentence(text)[::-1]
            self._ending.append(hash_text(text[:MIN_ENDING]) if len(text) >= MIN_ENDING else 0)
            self._length.append(len(text))
        self._dedup.append(hash_text(text))

    def identities(self, examples: Sequence[Example]) -> Hashes:
        """Equal for equal examples. With `same_ending`: the hash of the shortest example that the text ends with."""
        identities = np.frombuffer(self._dedup, np.uint64).copy()
        endings, lengths = np.frombuffer(self._ending, np.uint64), np.frombuffer(self._length, np.int64)
        order = np.argsort(endings, kind="stable")
        for group in np.split(order, np.flatnonzero(np.diff(endings[order])) + 1) if len(order) else ():
            roots = sorted({(int(lengths[i]), int(identities[i])) for i in group})
            if len(roots) < 2 or not endings[group[0]]:
                continue
            for i in group:
                text = normalize_sentence(self._fields.dedup_text(examples[int(i)]))[::-1]
                prefixes = (root for length, root in roots if length < len(text) and hash_text(text[:length]) == root)
                identities[i] = next(prefixes, identities[i])
        return identities


def select(
    keys: ExampleHashes, identities: Hashes, read: dict[str, int], data: LabelledDataSettings
) -> tuple[dict[str, Indices], SelectionReport]:
    """The numbers of the examples of each split, and a report."""
    count = read["train"]
    groups, targets, order = (np.frombuffer(column, np.uint64) for column in (keys.group, keys.target, keys.limit))
    train, others = identities[:count], identities[count:]
    kept, conflicts = np.ones(count, np.bool_), 0
    if data.drop_duplicates:
        _, first, group = np.unique(train, return_index=True, return_inverse=True)
        kept = splitting.first_occurrences(train, kept)
        conflicts = int((targets[:count] != targets[:count][first[group]]).sum())
    shared = np.isin(train, others)
    used = kept & ~shared if data.exclude_overlap else kept

    valid_size = data.hold_out or (None if "valid" in data.held_out else 0)
    assigned = splitting.assign(groups[:count], used, SplitPlan(valid_size, data.hold_out_test))
    indices = {"train": np.flatnonzero(assigned.train)}
    available = len(indices["train"])
    if data.limit:
        sample = np.argsort(order[indices["train"]], kind="stable")[: data.limit]
        indices["train"] = np.sort(indices["train"][sample])

    held_out = {}
    starts = {"valid": count, "test": count + read["valid"]}
    for split, mask in (("valid", assigned.valid), ("test", assigned.test)):
        indices[split] = np.arange(read[split]) + starts[split]
        if split in data.held_out:
            indices[split] = np.flatnonzero(mask)
            held_out[split] = len(indices[split])
    report = SelectionReport(
        read=read,
        duplicates=count - int(kept.sum()),
        conflicts=conflicts,
        shared=int((kept & shared).sum()),
        kept_apart=data.exclude_overlap,
        held_out=held_out,
        beyond_limit=available - len(indices["train"]),
        examples={split: len(indices[split]) for split in SPLITS},
    )
    sizes = {split: report.examples[split] for split in (*(["train"] if count else []), *held_out)}
    splitting.check_not_empty(sizes, f"{count:,} training examples were read", SIZE_SETTINGS)
    return indices, report
