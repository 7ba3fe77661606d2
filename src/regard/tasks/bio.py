"""The likeliest tags among those that say something.

    y* = argmax_y  sum_i [ log p_i(y_i) + A(y_{i-1}, y_i) ]        A = 0 where a tag may follow another, else -inf

A tagger decides word by word, and so may go on with an entity that nobody began. In BIO I-x follows B-x or I-x alone,
before the first word stands O, and every other tag may follow every tag. Viterbi's algorithm finds the best of all
legal sequences in one pass (Viterbi 1967; Rabiner 1989, section III B): v_i(k) is the best score of the first i tags
when the last of them is k,

    v_0(k) = 0 if k is O, else -inf
    v_i(k) = log p_i(k) + max_j [ v_{i-1}(j) + A(j, k) ]

and who was that j is remembered, to go back from the best last tag. Where the likeliest tags of all words happen to be
legal, nothing can be better than they are, and they are taken as they stand.

T words, L tags.
"""

from collections.abc import Collection
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from regard.metrics.entities import OUTSIDE

Array = npt.NDArray[np.float64]


def marks_entities(labels: Collection[str]) -> bool:
    """Whether every tag is O, B-x or I-x, so that tags can be read as entities."""
    return all(label == OUTSIDE or (label[:2] in ("B-", "I-") and len(label) > 2) for label in labels)


def is_bio(labels: Collection[str]) -> bool:
    """Whether what may follow what is known: such tags, among them O, and to every I-x the B-x that begins it.

    Where a B-x is missing the tags are probably IOB1, in which an I-x may well begin an entity.
    """
    begun = {f"B-{label[2:]}" for label in labels if label.startswith("I-")}
    return marks_entities(labels) and begun | {OUTSIDE} <= set(labels)


@lru_cache
def legal(labels: tuple[str, ...]) -> Array:
    """A (L, L): 0 where the tag of the column may follow that of the row, else -inf."""
    allowed = [[not k.startswith("I-") or j in (k, f"B-{k[2:]}") for k in labels] for j in labels]
    return np.where(allowed, 0.0, -np.inf)


def best_sequence(log_p: Array, follow: Array, before: int) -> list[int]:
    """log p (T, L), A (L, L) and the tag that stands before the first word -> the numbers of the T best tags."""
    likeliest: list[int] = log_p.argmax(axis=1).tolist()
    if all(follow[j, k] == 0 for j, k in pairwise([before, *likeliest])):
        return likeliest
    best, came_from = np.full(len(follow), -np.inf), []
    best[before] = 0.0
    for word in log_p:
        ways = best[:, None] + follow  # (L, L)
        came_from.append(ways.argmax(axis=0))
        best = word + ways.max(axis=0)
    tags = [int(best.argmax())]
    for came in reversed(came_from):
        tags.append(int(came[tags[-1]]))
    return tags[-2::-1]  # without what stood before
