"""Parallel corpora cut into train, valid and test so that no sentence is in two of them.

One sentence often has several translations: shuffle the pairs, cut, and most of the test set was in the training text.
So the sentence is what is drawn, not the pair, and all its pairs go with it. Its place in [0, 1) is a hash of what it
says: test takes the low end, valid the high end, train what lies between. A place depends on the sentence and the seed
alone, so a corpus that grows moves nothing between parts that are given as shares.

    0 ─── test ───┬──────────────── train ────────────────┬─── valid ─── 1
                  └ shares.test             1 - shares.valid ┘

The files are read twice, to decide and to write. Between the two, 25 bytes a pair are kept, and no text.
"""

import gzip
import hashlib
import lzma
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import numpy as np
import numpy.typing as npt

from regard.data.corpora import Corpus, Pair, read_lines, read_pairs
from regard.errors import UserError
from regard.files import replacing, require_writable, write_json

Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
Progress = Callable[[int, int | None], None]

PARTS = ("train", "valid", "test")
LEFT_OUT = ("empty", "duplicate", "excluded", "shared", "further")
"""Why a pair is in no part: a blank side; an equal pair before it; a sentence of an excluded file; its other side is
held out (`by` both); a held-out sentence that is there already, with another translation."""

PLACES = 1 << 53  # so many places fit between 0 and 1 of a float exactly: a share written down is the share it was
REPORT = "report.json"


@dataclass(frozen=True)
class SplitPlan:
    """How much is held out, of what, and from which seed. A whole number counts sentences, a fraction is a share."""

    valid: int | float = 0
    test: int | float = 0
    by: Literal["src", "tgt", "both"] = "src"
    seed: int = 1

    def __post_init__(self) -> None:
        for name, size in (("valid", self.valid), ("test", self.test)):
            if size < 0 or (isinstance(size, float) and not size < 1):
                raise UserError(
                    f"{name} is {size}", "write a number of sentences, like 2000, or a share of them, like 0.01"
                )
        if self.seed < 0 or self.seed >= 1 << 64:
            raise UserError(f"the seed is {self.seed}", "write a number from 0 that fits in 64 bits")


@dataclass(frozen=True)
class Part:
    """What a part holds; sentences that differ in case, spaces or punctuation alone count once."""

    pairs: int
    sources: int
    targets: int


@dataclass(frozen=True)
class SplitReport:
    """What was read, where it went, and the shares that make the same parts again when the corpora have grown."""

    corpora: list[str]
    exclude: list[str]
    by: str
    seed: int
    shares: dict[str, float]
    read: int
    parts: dict[str, Part]
    left_out: dict[str, int]


def split_corpora(
    corpora: Sequence[Corpus],
    root: Path,
    folder: Path,
    plan: SplitPlan,
    exclude: Sequence[Path] = (),
    endings: tuple[str, str] = ("src", "tgt"),
    progress: Progress | None = None,
) -> SplitReport:
    """Write the parts as line-aligned files, `train.src` and `train.tgt` and so on, and a report, into a new folder.

    Endings that end in .gz or .xz compress. The folder appears whole or not at all, and none is overwritten.
    """
    require_writable(folder)
    if any(not ending or ending != Path(ending).name for ending in endings):
        raise UserError(f"the endings are {','.join(endings)}", "write two like en,de: parts of a file's name")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"{folder} is there and not empty", "choose a folder that is not there yet, or empty it")
    excluded = np.unique(
        np.fromiter((key(line, plan.seed) for path in exclude for line in sentences(path)), dtype=np.uint64)
    )
    keys = read_keys(_pairs(corpora, root), plan.seed, progress)
    fates, shares = assign(keys, excluded, plan)
    report = SplitReport(
        corpora=list(map(str, corpora)),
        exclude=list(map(str, exclude)),
        by=plan.by,
        seed=plan.seed,
        shares=shares,
        read=len(fates),
        parts={name: _count(keys, fates == code) for code, name in enumerate(PARTS) if (fates == code).any()},
        left_out={name: int((fates == code).sum()) for code, name in enumerate(LEFT_OUT, len(PARTS))},
    )
    _refuse_empty(report, plan)
    with replacing(folder, folder=True) as place:
        write_parts(_pairs(corpora, root), fates, place, endings, progress)
        write_json(place / REPORT, asdict(report))
    return report


def normalise(sentence: str) -> str:
    """What a sentence says: letters, digits and symbols, without case, spaces and punctuation.

    "Don’t  stop !" and "don't stop" are one sentence; marks alone ("...") stand for themselves.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", sentence).casefold())
    return folded.translate(_SAYING) or folded


class _Saying(dict[int, int | None]):
    """A table for `str.translate` that drops punctuation, separators and control characters, filled as they come."""

    def __missing__(self, code: int) -> int | None:
        self[code] = None if unicodedata.category(chr(code))[0] in "PZC" else code
        return self[code]


_SAYING = _Saying()


def key(sentence: str, seed: int) -> int:
    """64 bits of what a sentence says; the upper 53 are its place."""
    return _hash(normalise(sentence), seed)


def _hash(text: str, seed: int) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, salt=seed.to_bytes(8)).digest())


def sentences(path: Path) -> Iterator[str]:
    """The sentences of a file to exclude: its lines, or every column of its lines in a .tsv; blank ones say nothing."""
    columns = ".tsv" in path.suffixes[-2:]
    for line in read_lines(path):
        for sentence in line.split("\t") if columns else [line]:
            if sentence.strip():
                yield sentence


@dataclass(frozen=True)
class Keys:
    """What is remembered of the pairs: the key of each side, a hash of the very pair, and whether a side is blank."""

    src: Hashes
    tgt: Hashes
    pair: Hashes
    blank: Mask


def read_keys(pairs: Iterable[Pair], seed: int, progress: Progress | None = None) -> Keys:
    """The first reading."""
    sources, targets, whole, blank = array("Q"), array("Q"), array("Q"), bytearray()
    for number, pair in enumerate(pairs, 1):
        sources.append(key(pair.src, seed))
        targets.append(key(pair.tgt, seed))
        whole.append(_hash(f"{len(pair.src)} {pair.src}{pair.tgt}", seed))
        blank.append(not pair.src.strip() or not pair.tgt.strip())
        if progress is not None:
            progress(number, None)
    src, tgt, both = (np.frombuffer(column, np.uint64) for column in (sources, targets, whole))
    return Keys(src, tgt, both, np.frombuffer(blank, np.bool_))


def assign(keys: Keys, excluded: Hashes, plan: SplitPlan) -> tuple[npt.NDArray[np.uint8], dict[str, float]]:
    """The fate of each pair, a number into PARTS + LEFT_OUT, and the shares of valid and test.

    Test is drawn first and loses nothing. A pair of valid or train has no sentence of an excluded file; `by` both, its
    other side is not held out either, so that no side of test is in valid, and no side of the two in train.
    """
    drawn, other = (keys.tgt, keys.src) if plan.by == "tgt" else (keys.src, keys.tgt)
    place = (drawn >> np.uint64(11)).astype(np.int64)
    once = _first(keys.pair, ~keys.blank)
    barred = np.isin(keys.src, excluded) | np.isin(keys.tgt, excluded)

    low = _points(plan.test, np.unique(place[once]), "test")
    in_test = place < low
    test = _first(drawn, once & in_test)

    shared = np.isin(other, other[test]) if plan.by == "both" else np.zeros_like(once)
    open_to_valid = once & ~in_test & ~barred & ~shared
    high = _points(plan.valid, np.unique(PLACES - 1 - place[open_to_valid]), "valid")
    if low + high > PLACES:
        raise UserError("valid and test together leave nothing to train on", "hold out fewer sentences")
    in_valid = place >= PLACES - high
    valid = _first(drawn, open_to_valid & in_valid)

    if plan.by == "both":
        shared |= np.isin(other, other[valid])
    train = once & ~in_test & ~in_valid & ~barred & ~shared
    cases = [train, valid, test, keys.blank, ~once, barred & ~in_test, shared & ~in_test & ~valid]
    fates = np.select(cases, list(range(len(cases))), default=len(cases)).astype(np.uint8)
    return fates, {"valid": high / PLACES, "test": low / PLACES}


def _first(values: Hashes, among: Mask) -> Mask:
    """Where, among those asked about, a value occurs for the first time."""
    asked = np.flatnonzero(among)
    found = np.zeros_like(among)
    found[asked[np.unique(values[asked], return_index=True)[1]]] = True
    return found


def _points(size: int | float, places: npt.NDArray[np.int64], name: str) -> int:
    """How many places, from the first on, hold the share; or hold so many of the sentences at `places`, ascending."""
    if isinstance(size, float):
        return round(size * PLACES)
    if size > len(places):
        raise UserError(f"{name} asks for {size} sentences, and there are {len(places)}", "ask for fewer")
    return int(places[size - 1]) + 1 if size else 0


def write_parts(
    pairs: Iterable[Pair],
    fates: npt.NDArray[np.uint8],
    folder: Path,
    endings: tuple[str, str],
    progress: Progress | None = None,
) -> None:
    """The second reading: each pair to its part's two files. A line break inside a sentence becomes a space."""
    with ExitStack() as stack:
        files = {
            code: [stack.enter_context(_create(folder / f"{name}.{ending}")) for ending in endings]
            for code, name in enumerate(PARTS)
            if (fates == code).any()
        }
        read = 0
        for read, pair in enumerate(pairs, 1):
            for file, text in zip(files.get(_fate(fates, read), ()), pair[:2], strict=False):
                file.write(" ".join(text.replace("\r", "\n").split("\n")).encode() + b"\n")
            if progress is not None:
                progress(read, len(fates))
        if read != len(fates):
            raise UserError("a corpus changed while it was read", "split again when nobody writes to it")


def _fate(fates: npt.NDArray[np.uint8], number: int) -> int:
    """The fate of a pair, counted from 1; one that was not there before has none."""
    return int(fates[number - 1]) if number <= len(fates) else len(PARTS)


def _create(path: Path) -> BinaryIO:
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
    return cast(BinaryIO, openers.get(path.suffix, open)(path, "wb"))


def _pairs(corpora: Sequence[Corpus], root: Path) -> Iterator[Pair]:
    return (pair for corpus in corpora for pair in read_pairs(corpus, root))


def _count(keys: Keys, chosen: Mask) -> Part:
    return Part(int(chosen.sum()), len(np.unique(keys.src[chosen])), len(np.unique(keys.tgt[chosen])))


def _refuse_empty(report: SplitReport, plan: SplitPlan) -> None:
    """A part that was asked for and would hold nothing is no part."""
    for name, size in (("train", 1), ("valid", plan.valid), ("test", plan.test)):
        if size and name not in report.parts:
            reasons = ", ".join(f"{count} {reason}" for reason, count in report.left_out.items() if count)
            raise UserError(
                f"{name} would hold nothing of {report.read} pairs ({reasons or 'none left out'})",
                "hold out less" if name == "train" else f"ask for more: --{name} with a number counts sentences",
            )
