"""Target-side duplicates and near-duplicates among the rows of a store, found by hashes in bounded memory.

A pair is the set A of its shingles: two words in sequence, of either side, without case and punctuation, digits as 0.
The similarity of two pairs is that of Jaccard, estimated by H hash functions (Broder 1997, "On the resemblance and
containment of documents", section 3):

    J(A, B) = |A ∩ B| / |A ∪ B| = P(min h(A) = min h(B))  ~  the share of equal values in the signatures of A and B

    signature(A) = (min h_1(A), ..., min h_H(A))                     16 bits of each, 64 bytes a pair

Two pairs are near-duplicates if at most d of their H values differ. If the values are divided into d + 1 bands, then at
least one band has no difference. So only pairs with an equal band are compared, and none is missed.

Pairs are judged in the order of their scores, the best first, then in the order of the corpus; a pair is left out if it
is near one that is kept. The result is the same for any number of processes. N rows, H hash functions.
"""

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from regard.data.arrays import Array
from regard.documents.sentences import IDEOGRAPH

HASHES = 32
COMPARED_ROWS = 1 << 16
"""Rows that are compared at once."""
_WORD = re.compile(rf"[{IDEOGRAPH}]|[^\W_{IDEOGRAPH}]+")
_DIGITS = re.compile(r"\d+")
_SEEDS = np.random.default_rng(0).integers(1 << 32, size=HASHES, dtype=np.uint32)
_FACTORS = np.random.default_rng(1).integers(1 << 63, size=HASHES, dtype=np.uint64) | np.uint64(1)


@dataclass(frozen=True)
class Marks:
    """What decides about duplicates of rows, besides the keys of equal pairs; a part is None if it is not needed."""

    scores: Array
    """(N,) float32; -inf for a pair without a score."""
    targets: Array | None = None
    """(N,) uint64: hash of the target and its language."""
    signatures: Array | None = None
    """(N, H) uint16"""
    max_different: int = 0
    """The number d of different values in the signatures of near-duplicates."""

    @classmethod
    def join(cls, parts: Sequence["Marks"]) -> "Marks":
        """The marks of several chunks, one after the other."""
        columns = [[getattr(part, name) for part in parts] for name in ("scores", "targets", "signatures")]
        joined = [None if column[0] is None else np.concatenate(column) for column in columns]
        assert joined[0] is not None
        return cls(joined[0], joined[1], joined[2], parts[0].max_different)


def find_duplicates(marks: Marks, rows: Array) -> dict[str, Array]:
    """Those of the `rows`, in order, that are target-side duplicates and near-duplicates."""
    ranked = rows[np.argsort(-marks.scores[rows], kind="stable")]  # the best first
    found = {}
    if marks.targets is not None:
        first = np.sort(np.unique(marks.targets[ranked], return_index=True)[1])
        found["target_duplicate"] = np.sort(np.delete(ranked, first))
        ranked = ranked[first]
    if marks.signatures is not None:
        near = near_duplicates(marks.signatures[ranked], marks.max_different)
        found["near_duplicate"] = np.sort(ranked[near])
    return found


def near_duplicates(signatures: Array, max_different: int) -> Array:
    """(N,) bool: True for each row that is near an earlier one that is False; signatures (N, H)."""
    dropped = np.ones(len(signatures), bool)
    distinct = np.sort(np.unique(band_keys(signatures), return_index=True)[1])  # equal ones need no comparison
    dropped[distinct] = False
    distant = signatures[distinct]
    pairs = [pair for band in np.array_split(np.arange(HASHES), max_different + 1) if max_different
             for pair in near_pairs(distant, band, max_different)]  # fmt: skip
    later = np.concatenate([pair[1] for pair in pairs]) if pairs else np.zeros(0, np.int64)
    earlier = np.concatenate([pair[0] for pair in pairs]) if pairs else np.zeros(0, np.int64)
    for index in np.lexsort((earlier, later)).tolist():
        if not dropped[distinct[earlier[index]]]:
            dropped[distinct[later[index]]] = True
    return dropped


def near_pairs(signatures: Array, band: Array, max_different: int) -> Iterator[tuple[Array, Array]]:
    """Rows (earlier, later) with an equal band and at most `max_different` different values."""
    keys = band_keys(signatures[:, band])
    order = np.argsort(keys, kind="stable")
    keys, step = keys[order], 1
    places = np.flatnonzero(keys[1:] == keys[:-1])
    while len(places):  # rows with equal keys are neighbours: compare each with the one `step` places after it
        for first in range(0, len(places), COMPARED_ROWS):
            some = places[first : first + COMPARED_ROWS]
            earlier, later = order[some], order[some + step]
            near = (signatures[earlier] != signatures[later]).sum(1) <= max_different
            yield earlier[near], later[near]
        step += 1
        places = places[places + step < len(keys)]
        places = places[keys[places] == keys[places + step]]


def band_keys(values: Array) -> Array:
    """(N,) uint64: hash of the values (N, *) of each row."""
    keys = np.zeros(len(values), np.uint64)
    for factor, column in zip(_FACTORS, values.T, strict=False):
        keys = (keys ^ column) * factor
        keys ^= keys >> np.uint64(29)
    return keys


def sign(pairs: Sequence[tuple[str, str, str]]) -> Array:
    """(N, H) uint16: signatures of (src, tgt, group); pairs of different groups are never near-duplicates."""
    features = [shingles(src, tgt) for src, tgt, _ in pairs]
    offsets = np.cumsum([0, *map(len, features)])[:-1]
    values = np.array([value for row in features for value in row], np.uint32)
    groups = np.array([zlib.crc32(group.encode()) if group else 0 for _, _, group in pairs], np.uint32)
    signatures = np.zeros((len(pairs), HASHES), np.uint16)
    for number, seed in enumerate(_SEEDS if len(pairs) else ()):
        smallest = np.minimum.reduceat(mix(values ^ seed), offsets)
        signatures[:, number] = mix(smallest ^ groups) & np.uint32(0xFFFF)
    return signatures


def shingles(src: str, tgt: str) -> set[int]:
    """32-bit hashes of the word pairs of both sides; each side begins and ends with a word of its own."""
    found: set[int] = set()
    for side, text in (("<", src), (">", tgt)):
        words = [side, *_WORD.findall(_DIGITS.sub("0", text.casefold())), side]
        words = words if len(words) > 2 else [side, text, side]  # punctuation only
        found.update(map(zlib.crc32, [f"{side}{a} {b}".encode() for a, b in pairwise(words)]))
    return found


def mix(values: Array) -> Array:
    """A bijection of 32-bit numbers in which each bit depends on all others (the finalizer of MurmurHash3)."""
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    mixed: Array = values ^ (values >> np.uint32(16))
    return mixed
