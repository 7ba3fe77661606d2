"""Viterbi decoding of BIO tags: the most probable legal sequence.

    y* = argmax_y  sum_i [ log p_i(y_i) + A(y_{i-1}, y_i) ]        A = 0 where a tag may follow another, else -inf

A tagger decides word by word, so it may continue an entity that did not begin. In BIO, I-x follows only B-x or I-x; the
tag before the first word is O; every other tag may follow every tag. Viterbi's algorithm finds the best of all legal
sequences in one pass (Viterbi 1967; Rabiner 1989, section III B): v_i(k) is the best score of the first i tags if the
last of them is k,

    v_0(k) = 0 if k is O, else -inf
    v_i(k) = log p_i(k) + max_j [ v_{i-1}(j) + A(j, k) ]

The best j of every step is stored, to go back from the best last tag. If the most probable tags of all words are legal
already, no sequence is better, and they are the result.

T words, L tags.
"""

from collections.abc import Collection
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from regard.metrics.spans import OUTSIDE

Array = npt.NDArray[np.float64]


def marks_entities(labels: Collection[str]) -> bool:
    """True if every tag is O, B-x or I-x, so that tags mark entities."""
    return all(label == OUTSIDE or (label[:2] in ("B-", "I-") and len(label) > 2) for label in labels)


def is_bio(labels: Collection[str]) -> bool:
    """True if the tags are BIO: entity tags with O, and for every I-x its B-x. If a B-x is missing, the tags are
    probably IOB1, where I-x may begin an entity."""
    begun = {f"B-{label[2:]}" for label in labels if label.startswith("I-")}
    return marks_entities(labels) and begun | {OUTSIDE} <= set(labels)


@lru_cache
def transitions(labels: tuple[str, ...]) -> Array:
    """A (L, L): 0 if the tag of the column may follow the tag of the row, else -inf."""
    allowed = [[not k.startswith("I-") or j in (k, f"B-{k[2:]}") for k in labels] for j in labels]
    return np.where(allowed, 0.0, -np.inf)


def best_sequence(log_p: Array, follow: Array, before: int) -> list[int]:
    """log p (T, L), A (L, L) and the tag before the first word -> the numbers of the T best tags."""
    independent: list[int] = log_p.argmax(axis=1).tolist()
    if all(follow[j, k] == 0 for j, k in pairwise([before, *independent])):
        return independent
    best, came_from = np.full(len(follow), -np.inf), []
    best[before] = 0.0
    for word in log_p:
        ways = best[:, None] + follow  # (L, L)
        came_from.append(ways.argmax(axis=0))
        best = word + ways.max(axis=0)
    tags = [int(best.argmax())]
    for came in reversed(came_from):
        tags.append(int(came[tags[-1]]))
    return tags[-2::-1]  # without the tag before the first word
