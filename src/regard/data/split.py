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

import numpy as np
import numpy.typing as npt

from regard.data.sources import Split

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
