"""Assignment of texts to train, valid and test by a hash, so that equal texts are always in the same split.

The position of a text in [0, 1) is a hash of its content. Test takes the low end, valid the high end, and train the
interval between them:

    0 ─── test ───┬──────────────── train ────────────────┬─── valid ─── 1
                  └ share of test             1 - share of valid ┘

A position depends on the text and the seed only. So neither the order of the data nor more data moves a text to
another split.
"""

import hashlib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.sources import Split
from regard.errors import UserError

Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

POSITION_BITS = 53  # of the 64 bits of a hash: as many as a float holds exactly, so that a share keeps its value
POSITIONS = 1 << POSITION_BITS
MAX_HELD_OUT = 2000
"""Texts of valid, if nothing says how many: more would make every validation slow."""


def default_size(total: int) -> int:
    """The number of `total` texts that are held out if nothing says how many: a tenth, of many a smaller share."""
    return max(1, min(MAX_HELD_OUT, max(total // 20, min(200, total // 10))))


def hash_text(text: str, seed: int = 0) -> int:
    """64 bits of a text. Among a hundred million texts the odds of one wrong match are one in four thousand."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, salt=seed.to_bytes(8)).digest())


def hash_sentence(sentence: str, seed: int) -> int:
    """64 bits of the normalised sentence; the upper 53 are its position."""
    return hash_text(normalize_sentence(sentence), seed)


def split_of(hashed: int, valid: float, test: float) -> Split:
    """The split of a text with this hash, given the shares of valid and test."""
    position = hashed >> (64 - POSITION_BITS)
    if position < round(test * POSITIONS):
        return "test"
    return "valid" if position >= POSITIONS - round(valid * POSITIONS) else "train"


def normalize_sentence(sentence: str) -> str:
    """The letters, digits and symbols of a sentence, without case, spaces and punctuation.

    "Don’t  stop !" and "don't stop" become equal; a text of punctuation only ("...") is kept.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", sentence).casefold())
    return folded.translate(_KEPT) or folded


class _KeptCharacters(dict[int, int | None]):
    """A table for `str.translate` that drops punctuation, separators and control characters; it is filled on demand."""

    def __missing__(self, code: int) -> int | None:
        self[code] = None if unicodedata.category(chr(code))[0] in "PZC" else code
        return self[code]


_KEPT = _KeptCharacters()


def first_occurrences(values: Hashes, selected: Mask) -> Mask:
    """True where a value occurs for the first time among the selected ones."""
    indices = np.flatnonzero(selected)
    first = np.zeros_like(selected)
    first[indices[np.unique(values[indices], return_index=True)[1]]] = True
    return first


@dataclass(frozen=True)
class SplitPlan:
    """Sizes of valid and test, the side of a pair that is split, and the seed.

    An int counts texts, a float is a share of them, and None is the default size of what test leaves over.
    """

    valid: int | float | None = 0
    test: int | float = 0
    by: Literal["src", "tgt", "both"] = "src"
    seed: int = 1

    def __post_init__(self) -> None:
        for name, size in (("valid", self.valid or 0), ("test", self.test)):
            if size < 0 or (isinstance(size, float) and not size < 1):
                remedy = f"set `{name}` to a number of sentences, e.g. 2000, or a share below 1, e.g. 0.01"
                raise UserError(f"`{name}` cannot be {size}", remedy, code="invalid-setting", where=name)
        if self.seed < 0 or self.seed >= 1 << 64:
            problem, remedy = f"seed cannot be {self.seed}", "set a number from 0 to 2**64 - 1"
            raise UserError(problem, remedy, code="invalid-setting", where="seed")


class Assignment(NamedTuple):
    """The examples of each split, (E,) each: True for those in it."""

    train: Mask
    valid: Mask
    test: Mask
    in_valid: Mask
    """True for every example with a text in the interval of valid."""
    in_test: Mask
    shared: Mask
    """True if the other side of a pair is held out."""
    shares: dict[str, float]
    """The shares of valid and test that give the same splits when the data has grown."""


def assign(
    texts: Hashes,
    usable: Mask,
    plan: SplitPlan,
    units: Hashes | None = None,
    others: Hashes | None = None,
    excluded: Mask | None = None,
) -> Assignment:
    """Assign E examples to splits by the positions of their texts. Test is chosen first and loses nothing.

    texts      hashes (E,): no text is in two splits
    usable     (E,): True for examples that may be in a split
    units      hashes (E,): of equal units, valid and test have only the first example; None: they have all
    others     hashes (E,) of the other side of pairs, of which no text may be in two splits either; None: it may
    excluded   (E,): True for examples that may be in test only
    """
    position = (texts >> np.uint64(64 - POSITION_BITS)).astype(np.int64)
    low = _boundary(plan.test, np.unique(position[usable]), "test")
    in_test = position < low
    test = usable & in_test if units is None else first_occurrences(units, usable & in_test)

    shared = np.zeros_like(usable) if others is None else np.isin(others, others[test])
    free = usable & ~in_test & ~shared if excluded is None else usable & ~in_test & ~shared & ~excluded
    high = _boundary(plan.valid, np.unique(POSITIONS - 1 - position[free]), "valid")
    if low + high > POSITIONS:
        problem, remedy = "valid and test together leave nothing to train on", "make valid or test smaller"
        raise UserError(problem, remedy, code="no-data", where="valid, test")
    in_valid = position >= POSITIONS - high
    valid = free & in_valid if units is None else first_occurrences(units, free & in_valid)
    shared = shared if others is None else shared | np.isin(others, others[valid])
    shares = {"valid": high / POSITIONS, "test": low / POSITIONS}
    return Assignment(free & ~in_valid & ~shared, valid, test, in_valid, in_test, shared, shares)


def _boundary(size: int | float | None, positions: npt.NDArray[np.int64], name: str) -> int:
    """Length of the interval that is the share `size`, or that has `size` of the texts at sorted positions."""
    if isinstance(size, float):
        return round(size * POSITIONS)
    count = min(default_size(len(positions)), len(positions)) if size is None else size
    if count > len(positions):
        problem, remedy = f"{name} needs {count} sentences, but only {len(positions)} are left", f"make {name} smaller"
        raise UserError(problem, remedy, code="no-data", where=name)
    return int(positions[count - 1]) + 1 if count else 0


def check_not_empty(sizes: Mapping[str, object], read: str, settings: Mapping[str, str] | None = None) -> None:
    """Raise UserError if a split has no examples; `settings` names what sets the size of each."""
    for split, size in sizes.items():
        if not size:
            problem = f"{split} would be empty: {read}"
            remedy = f"hold out {'fewer' if split == 'train' else 'more'} examples, or add data"
            raise UserError(problem, remedy, code="no-data", where=(settings or {}).get(split, split))
