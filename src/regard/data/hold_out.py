"""Splits of parallel and plain text: held out of the training data, or written to files by `regard split`.

    pairs        sentences are held out with all their translations, by the hash of data/split.py; valid and test keep
                 the first translation of each
    lines        blocks of lines that follow each other, chosen by a hash of the number of the block
    documents    whole documents, chosen in the same way; of fewer than four documents the last sentences

One sentence often has several translations: in a random split of the pairs, most sentences of the test set would be in
the training set too. So sentences are assigned, not pairs, and a corpus that grows moves nothing between splits that
are given as shares.

The data is read twice, to decide and to use it. Between the two, one byte for each example is kept, for `regard split`
25, and no text. Labelled data has its own way (data/labelled.py), with the same sizes.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data import split as splitting
from regard.data.accounts import Account
from regard.data.examples import Example
from regard.data.fields import PAIRS, Fields
from regard.data.formats import read_examples
from regard.data.records import csv_rows, file_ending, read_lines
from regard.data.settings import SIZE_SETTINGS, DataSettings
from regard.data.sources import Source
from regard.data.split import Hashes, Mask, SplitPlan, first_occurrences, hash_sentence, hash_text
from regard.data.store import ProgressCallback
from regard.data.tables import beginning, guess_delimiter
from regard.errors import UserError
from regard.files import COMPRESSED, compress, replacing, require_writable, split_archive, write_json
from regard.messages import Message, join_messages
from regard.run_files import SPLITS

Assignments = npt.NDArray[np.uint8]
"""(E,): the split of each example, an index into SPLITS, or into SPLITS + LEFT_OUT."""

TRAIN, VALID, TEST = range(3)
LEFT_OUT = ("empty", "duplicate", "excluded", "shared", "further")
"""Why a pair is in no split: an empty side; an equal pair before it; a sentence of an excluded file; its other side is
held out (`by` both); a held-out sentence that is already there with another translation."""
EMPTY, DUPLICATE, FURTHER = (len(SPLITS) + LEFT_OUT.index(name) for name in ("empty", "duplicate", "further"))
SEED = 1
MAX_BLOCK_LINES, MIN_BLOCKS = 100, 40
MIN_DOCUMENTS = 4
REPORT = "report.json"


@dataclass(frozen=True)
class HeldOut:
    """The training data of a recipe, divided into splits."""

    data: DataSettings
    fields: Fields
    assignments: Assignments

    def read(self, split: str) -> Iterator[Example]:
        """The examples of a split, in the order of the training data."""
        number, wanted, gap = 0, SPLITS.index(split), True
        for number, example in enumerate(read_examples(self.data.train, self.data.folder, self.fields), 1):
            if number > len(self.assignments):
                break
            if self.assignments[number - 1] == wanted:
                cut = gap and example.get("first") is False  # a document whose beginning is in another split
                yield example | {"first": True} if cut else example
            gap = self.assignments[number - 1] != wanted
        if number != len(self.assignments):
            problem, remedy = "a training file changed while it was read", "start again when no program writes to it"
            raise UserError(problem, remedy, code="changed-file", where="data.train")

    def describe(self) -> list[str]:
        """One line for each split that is held out."""
        total = len(self.assignments)
        lines: list[str] = []
        for split in self.data.held_out:
            count = int((self.assignments == SPLITS.index(split)).sum())
            chosen = not getattr(self.data, SIZE_SETTINGS[split].removeprefix("data."))
            remedy = Message("data.valid names other data, data.hold_out = 0.1 sets the share")
            values = {"split": split, "count": count, "total": total}
            held = Message("{split}: {count:,} of {total:,} training examples are held out", **values)
            if self.fields.held_out != "texts":
                held = Message("{split}: {count:,} of {total:,} training lines are held out", **values)
            lines.append(join_messages("; ", [held, remedy]) if chosen else held)
        counts = {name: int((self.assignments == code).sum()) for code, name in enumerate(LEFT_OUT, len(SPLITS))}
        account = Account("train", total, int((self.assignments < len(SPLITS)).sum()), counts).check()
        return [*lines, *filter(None, [account.describe()])]


_recent: dict[str, HeldOut] = {}
"""The last results, so that preparing, tokenising and validating decide once."""


def hold_out(data: DataSettings, fields: Fields) -> HeldOut:
    """Decide which training examples are held out, as the settings say."""
    paths = [path for source in data.train for path in source.files(data.folder)]
    status = [
        (path, stat.st_size, stat.st_ino, stat.st_mtime_ns) for path in paths if (stat := split_archive(path)[0].stat())
    ]
    key = repr((data, fields.held_out, fields.inputs, fields.target, status))
    if key not in _recent:
        examples = read_examples(data.train, data.folder, fields)
        held = HeldOut(data, fields, RULES[fields.held_out](examples, data, fields))
        sizes = {split: int((held.assignments == SPLITS.index(split)).sum()) for split in ("train", *data.held_out)}
        splitting.check_not_empty(sizes, f"{len(held.assignments):,} training examples were read", SIZE_SETTINGS)
        _recent.clear()
        _recent[key] = held
    return _recent[key]


def read_split(data: DataSettings, fields: Fields, split: str) -> Iterator[Example]:
    """The examples of a split: those of its sources, or those that are held out of the training data."""
    if data.held_out and split in ("train", *data.held_out):
        return hold_out(data, fields).read(split)
    return read_examples(getattr(data, split), data.folder, fields)


def report_held_out(data: DataSettings, fields: Fields, report: Callable[[str], None]) -> None:
    """Report what is held out, if anything is."""
    for line in hold_out(data, fields).describe() if data.held_out else ():
        report(line)


# ---- rules


def assign_texts(examples: Iterable[Example], data: DataSettings, fields: Fields) -> Assignments:
    """By the text of the first input; of pairs, by the same side in every direction, with one translation in each."""
    directions = array("Q")

    def pairs() -> Iterator[Example]:
        for item in examples:
            group = fields.group_text(item)
            directions.append(hash_text(f"{item['from']} {item['to']}") if "to" in item else 0)
            target = item["src"] if item.get("reversed") else item.get(fields.target, "-")
            yield {"src": group, "tgt": str(target)}

    hashes = hash_pairs(pairs(), SEED)
    valid = data.hold_out or splitting.default_size(len(np.unique(hashes.src[~hashes.empty])))
    plan = SplitPlan(valid if "valid" in data.held_out else 0, data.hold_out_test, "src", SEED)
    direction = np.frombuffer(directions, np.uint64)
    usable = first_occurrences(hashes.pair ^ direction, ~hashes.empty)
    split = splitting.assign(hashes.src, usable, plan, units=hashes.src ^ direction)
    in_train = ~split.in_test & ~split.in_valid  # copies and empty pairs too: the filters decide on them
    cases = {TRAIN: in_train, VALID: split.valid, TEST: split.test, EMPTY: hashes.empty, DUPLICATE: ~usable}
    return np.select(list(cases.values()), list(cases), default=FURTHER).astype(np.uint8)


def assign_lines(examples: Iterable[Example], data: DataSettings, fields: Fields) -> Assignments:
    """By blocks of lines."""
    total = sum(1 for _ in examples)
    size = max(1, min(MAX_BLOCK_LINES, total // MIN_BLOCKS))
    return assign_units([min(size, total - first) for first in range(0, total, size)], data)


def assign_documents(examples: Iterable[Example], data: DataSettings, fields: Fields) -> Assignments:
    """By documents; of a few documents the last sentences."""
    sizes: list[int] = []
    for example in examples:
        if example["first"] or not sizes:
            sizes.append(0)
        sizes[-1] += 1
    if len(sizes) >= MIN_DOCUMENTS:
        return assign_units(sizes, data, fewest=2)
    assignments = np.zeros(sum(sizes), np.uint8)
    valid, test = sizes_of(data, len(assignments))
    assignments[len(assignments) - valid - test :] = TEST
    assignments[len(assignments) - valid - test : len(assignments) - test] = VALID
    return assignments


RULES = {"texts": assign_texts, "lines": assign_lines, "documents": assign_documents}


def sizes_of(data: DataSettings, total: int) -> tuple[int, int]:
    """The number of examples of valid and test that are held out of `total`."""
    valid = max(1, round(data.hold_out * total)) if data.hold_out else splitting.default_size(total)
    test = max(1, round(data.hold_out_test * total)) if data.hold_out_test else 0
    return valid if "valid" in data.held_out else 0, test


def assign_units(sizes: Sequence[int], data: DataSettings, fewest: int = 1) -> Assignments:
    """Hold out whole units of text: those with the highest hashes for valid, with the lowest for test."""
    splits = np.zeros(len(sizes), np.uint8)
    order = sorted(range(len(sizes)), key=lambda unit: hash_text(f"unit {unit}", SEED))
    for code, wanted in zip((VALID, TEST), sizes_of(data, sum(sizes)), strict=True):
        if wanted:
            order.reverse()  # the highest first, then the lowest
            free = [unit for unit in order if splits[unit] == TRAIN]
            splits[choose_units(free, sizes, wanted, fewest)] = code
    return np.repeat(splits, sizes)


def choose_units(units: Sequence[int], sizes: Sequence[int], wanted: int, fewest: int) -> list[int]:
    """Some of the units, in their order, with about `wanted` examples; if they are all large, the smallest ones."""
    fitting = [unit for unit in units if sizes[unit] <= wanted]
    totals = list(accumulate((sizes[unit] for unit in fitting), initial=0))[:-1]
    chosen = [unit for unit, before in zip(fitting, totals, strict=True) if before < wanted]
    others = sorted((unit for unit in units if unit not in chosen), key=lambda unit: sizes[unit])
    return chosen + others[: max(0, fewest - len(chosen))]


# ---- `regard split`


@dataclass(frozen=True)
class SplitCounts:
    """The size of a split; sentences that differ only in case, spaces or punctuation count once."""

    pairs: int
    sources: int
    targets: int


@dataclass(frozen=True)
class SplitReport:
    """The corpora, the sizes of the splits, and the shares that give the same splits when the corpora have grown."""

    corpora: list[str]
    exclude: list[str]
    by: str
    seed: int
    shares: dict[str, float]
    read: int
    splits: dict[str, SplitCounts]
    left_out: dict[str, int]


def split_corpora(
    corpora: Sequence[Source],
    root: Path,
    folder: Path,
    plan: SplitPlan,
    exclude: Sequence[Path] = (),
    endings: tuple[str, str] = ("src", "tgt"),
    progress: ProgressCallback | None = None,
) -> SplitReport:
    """Write the splits as line-aligned files, `train.src` and `train.tgt` and so on, and a report, into a new folder.

    Endings that end in .gz, .xz or .bz2 compress. The folder is written completely or not at all; none is overwritten.
    """
    require_writable(folder)
    if any(not ending or ending != Path(ending).name for ending in endings):
        problem, remedy = f"`endings` cannot be {','.join(endings)}", "set file extensions, e.g. en,de"
        raise UserError(problem, remedy, code="invalid-setting", where="endings")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        problem, remedy = f"{folder} is not empty", "choose a new folder, or empty this one"
        raise UserError(problem, remedy, code="folder-exists", where=folder)
    excluded = np.unique(
        np.fromiter((hash_sentence(line, plan.seed) for path in exclude for line in sentences(path)), dtype=np.uint64)
    )
    hashes = hash_pairs(read_examples(corpora, root, PAIRS), plan.seed, progress)
    assignments, shares = assign_pairs(hashes, excluded, plan)
    report = SplitReport(
        corpora=list(map(str, corpora)),
        exclude=list(map(str, exclude)),
        by=plan.by,
        seed=plan.seed,
        shares=shares,
        read=len(assignments),
        splits={
            name: _count(hashes, assignments == code) for code, name in enumerate(SPLITS) if (assignments == code).any()
        },
        left_out={name: int((assignments == code).sum()) for code, name in enumerate(LEFT_OUT, len(SPLITS))},
    )
    kept = sum(part.pairs for part in report.splits.values())
    Account(", ".join(report.corpora), report.read, kept, report.left_out).check()
    sizes = {name: report.splits.get(name) for name in SPLITS if name == "train" or getattr(plan, name)}
    reasons = ", ".join(f"{count} {reason}" for reason, count in report.left_out.items() if count)
    splitting.check_not_empty(sizes, f"{report.read} pairs were read ({reasons or 'none left out'})")
    with replacing(folder, folder=True) as path:
        write_splits(read_examples(corpora, root, PAIRS), assignments, path, endings, progress)
        write_json(path / REPORT, asdict(report))
    return report


def sentences(path: Path) -> Iterator[str]:
    """The sentences of a file to exclude: its lines, every cell of a .tsv or .csv, or pairs; blank ones are skipped."""
    ending = file_ending(path.name)
    if PAIRS.endings.get(ending, "tsv") not in ("tsv", "csv"):
        pairs = read_examples([Source(file=str(path))], Path(), PAIRS, require_target=False)
        return (text for pair in pairs for text in (pair["src"], pair.get("tgt", "")) if text.strip())
    lines = read_lines(path)
    rows: Iterable[list[str]] = (line.split("\t") if ending == ".tsv" else [line] for line in lines)
    if ending == ".csv":
        head, complete = beginning(lines)
        rows = (row.cells for row in csv_rows(chain(head, lines), path, guess_delimiter(head, complete=complete)))
    return (sentence for row in rows for sentence in row if sentence.strip())


class PairHashes(NamedTuple):
    """Hashes of the sides of pairs, hashes of the exact pairs, and True if a side is empty: (E,) each."""

    src: Hashes
    tgt: Hashes
    pair: Hashes
    empty: Mask


def hash_pairs(pairs: Iterable[Example], seed: int, progress: ProgressCallback | None = None) -> PairHashes:
    """The first reading."""
    sources, targets, whole, empty = array("Q"), array("Q"), array("Q"), bytearray()
    for number, pair in enumerate(pairs, 1):
        src_text, tgt_text = pair["src"], pair["tgt"]
        sources.append(hash_sentence(src_text, seed))
        targets.append(hash_sentence(tgt_text, seed))
        whole.append(hash_text(f"{len(src_text)} {src_text}{tgt_text}", seed))
        empty.append(not src_text.strip() or not tgt_text.strip())
        if progress is not None:
            progress(number, None)
    src, tgt, both = (np.frombuffer(column, np.uint64) for column in (sources, targets, whole))
    return PairHashes(src, tgt, both, np.frombuffer(empty, np.bool_))


def assign_pairs(hashes: PairHashes, excluded: Hashes, plan: SplitPlan) -> tuple[Assignments, dict[str, float]]:
    """The assignment of each pair, and the shares of valid and test."""
    texts, others = (hashes.tgt, hashes.src) if plan.by == "tgt" else (hashes.src, hashes.tgt)
    usable = first_occurrences(hashes.pair, ~hashes.empty)
    barred = np.isin(hashes.src, excluded) | np.isin(hashes.tgt, excluded)
    split = splitting.assign(texts, usable, plan, texts, others if plan.by == "both" else None, barred)
    elsewhere = [hashes.empty, ~usable, barred & ~split.in_test, split.shared & ~split.in_test & ~split.valid]
    cases = [split.train, split.valid, split.test, *elsewhere]
    return np.select(cases, list(range(len(cases))), default=len(cases)).astype(np.uint8), split.shares


def write_splits(
    pairs: Iterable[Example],
    assignments: Assignments,
    folder: Path,
    endings: tuple[str, str],
    progress: ProgressCallback | None = None,
) -> None:
    """The second reading: write each pair to the two files of its split. A line break in a sentence becomes a space."""
    with ExitStack() as stack:
        files: dict[int, list[BinaryIO]] = {code: [] for code in range(len(SPLITS)) if (assignments == code).any()}
        for path, code in ((folder / f"{SPLITS[code]}.{ending}", code) for code in files for ending in endings):
            raw = stack.enter_context(path.open("wb"))
            packed = path.suffix in COMPRESSED
            files[code].append(stack.enter_context(compress(raw, path.suffix)) if packed else raw)
        count = 0
        for count, pair in enumerate(pairs, 1):
            code = int(assignments[count - 1]) if count <= len(assignments) else len(SPLITS)
            for file, side in zip(files.get(code, ()), ("src", "tgt"), strict=False):
                file.write(" ".join(pair[side].replace("\r", "\n").split("\n")).encode() + b"\n")
            if progress is not None:
                progress(count, len(assignments))
        if count != len(assignments):
            problem, remedy = "an input file changed during the split", "split again when no program writes to it"
            raise UserError(problem, remedy, code="changed-file", where=folder)


def _count(hashes: PairHashes, selected: Mask) -> SplitCounts:
    sources, targets = (len(np.unique(side[selected])) for side in (hashes.src, hashes.tgt))
    return SplitCounts(int(selected.sum()), sources, targets)
