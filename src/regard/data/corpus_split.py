"""`regard split`: parallel text divided into train, valid and test so that no sentence is in two of them.

One sentence often has several translations: in a random split of the pairs, most sentences of the test set would be in
the training set too. So sentences are assigned, not pairs, by the hash of `data/split.py`, and all pairs of a sentence
go to its split. A corpus that grows moves nothing between splits that are given as shares.

The files are read twice, to decide and to write. Between the two, 25 bytes per pair are kept in memory, and no text.
"""

import gzip
import lzma
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from regard.data.examples import Example
from regard.data.fields import PAIRS
from regard.data.formats import read_examples
from regard.data.records import csv_rows, file_ending, read_lines
from regard.data.sources import Source
from regard.data.split import (
    Hashes,
    Mask,
    SplitPlan,
    assign,
    check_not_empty,
    first_occurrences,
    hash_sentence,
    hash_text,
)
from regard.data.store import ProgressCallback
from regard.data.tables import beginning, guess_delimiter
from regard.errors import UserError
from regard.files import replacing, require_writable, write_json
from regard.run_files import SPLITS

LEFT_OUT = ("empty", "duplicate", "excluded", "shared", "further")
"""Why a pair is in no split: an empty side; an equal pair before it; a sentence of an excluded file; its other side is
held out (`by` both); a held-out sentence that is already there with another translation."""

REPORT = "report.json"


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

    Endings that end in .gz or .xz compress. The folder is written completely or not at all; none is overwritten.
    """
    require_writable(folder)
    if any(not ending or ending != Path(ending).name for ending in endings):
        raise UserError(
            f"the endings are {','.join(endings)}",
            "write two file extensions, like en,de",
            code="invalid-setting",
            where="endings",
        )
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(
            f"{folder} exists and is not empty", "choose a new folder, or empty it", code="folder-exists", where=folder
        )
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
    sizes = {name: report.splits.get(name) for name in SPLITS if name == "train" or getattr(plan, name)}
    reasons = ", ".join(f"{count} {reason}" for reason, count in report.left_out.items() if count)
    check_not_empty(sizes, f"{report.read} pairs were read ({reasons or 'none left out'})")
    with replacing(folder, folder=True) as path:
        write_splits(read_examples(corpora, root, PAIRS), assignments, path, endings, progress)
        write_json(path / REPORT, asdict(report))
    return report


def sentences(path: Path) -> Iterator[str]:
    """The sentences of a file to exclude: its lines, or every cell of a .tsv or .csv; blank ones are skipped."""
    lines, ending = read_lines(path), file_ending(path.name)
    rows: Iterable[list[str]] = (line.split("\t") if ending == ".tsv" else [line] for line in lines)
    if ending == ".csv":
        head, complete = beginning(lines)
        rows = (row for _, row in csv_rows(chain(head, lines), path, guess_delimiter(head, complete=complete)))
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


def assign_pairs(
    hashes: PairHashes, excluded: Hashes, plan: SplitPlan
) -> tuple[npt.NDArray[np.uint8], dict[str, float]]:
    """The assignment of each pair, an index into SPLITS + LEFT_OUT, and the shares of valid and test."""
    texts, others = (hashes.tgt, hashes.src) if plan.by == "tgt" else (hashes.src, hashes.tgt)
    usable = first_occurrences(hashes.pair, ~hashes.empty)
    barred = np.isin(hashes.src, excluded) | np.isin(hashes.tgt, excluded)
    split = assign(texts, usable, plan, texts, others if plan.by == "both" else None, barred)
    elsewhere = [hashes.empty, ~usable, barred & ~split.in_test, split.shared & ~split.in_test & ~split.valid]
    cases = [split.train, split.valid, split.test, *elsewhere]
    return np.select(cases, list(range(len(cases))), default=len(cases)).astype(np.uint8), split.shares


def write_splits(
    pairs: Iterable[Example],
    assignments: npt.NDArray[np.uint8],
    folder: Path,
    endings: tuple[str, str],
    progress: ProgressCallback | None = None,
) -> None:
    """The second reading: write each pair to the two files of its split. A line break in a sentence becomes a space."""
    with ExitStack() as stack:
        files = {
            code: [stack.enter_context(_create(folder / f"{name}.{ending}")) for ending in endings]
            for code, name in enumerate(SPLITS)
            if (assignments == code).any()
        }
        count = 0
        for count, pair in enumerate(pairs, 1):
            code = int(assignments[count - 1]) if count <= len(assignments) else len(SPLITS)
            for file, side in zip(files.get(code, ()), ("src", "tgt"), strict=False):
                file.write(" ".join(pair[side].replace("\r", "\n").split("\n")).encode() + b"\n")
            if progress is not None:
                progress(count, len(assignments))
        if count != len(assignments):
            raise UserError(
                "a corpus changed while it was read",
                "split it again when nothing writes to it",
                code="changed-file",
                where=folder,
            )


def _create(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "wb"))
    return cast(BinaryIO, lzma.open(path, "wb")) if path.suffix == ".xz" else path.open("wb")


def _count(hashes: PairHashes, selected: Mask) -> SplitCounts:
    sources, targets = (len(np.unique(side[selected])) for side in (hashes.src, hashes.tgt))
    return SplitCounts(int(selected.sum()), sources, targets)
