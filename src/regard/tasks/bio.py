"""Viterbi decoding of entity tags: the most probable legal sequence.

    y* = argmax_y  sum_i [ log p_i(y_i) + A(y_{i-1}, y_i) ]        A = 0 where a tag may follow another, else -inf

A tagger decides word by word, so it may continue an entity that did not begin. In BIO, I-x follows only B-x or I-x, and
every other tag may follow every tag. In schemes that mark the end, as BIOES (`metrics/spans.py`), I-x and E-x follow
only B-x or I-x, and nothing else may follow these. The tag before the first word is O, and so is the one after the
last. Viterbi's algorithm finds the best of all legal sequences in one pass (Viterbi 1967; Rabiner 1989, section III B):
v_i(k) is the best score of the first i tags if the last of them is k,

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

from regard.metrics.spans import OUTSIDE, ROLES, scheme_of

Array = npt.NDArray[np.float64]


def can_constrain(labels: Collection[str]) -> bool:
    """True if every tag can be in a legal sequence: there is O, for every I-x or E-x its B-x, and in schemes that mark
    the end for every B-x its E-x. If a B-x is missing, the tags are probably IOB1, where I-x may begin an entity."""
    if OUTSIDE not in labels or (scheme := scheme_of(labels)) is None:
        return False
    roles = {(ROLES[mark], kind) for mark, _, kind in (label.partition("-") for label in labels) if mark in ROLES}
    needed = {("B", kind) for role, kind in roles if role in ("I", "E")}
    if scheme != "BIO":
        needed |= {("E", kind) for role, kind in roles if role == "B"}
    return needed <= roles


@lru_cache
def transitions(labels: tuple[str, ...]) -> Array:
    """A (L, L): 0 if the tag of the column may follow the tag of the row, else -inf."""
    must_end = scheme_of(labels) != "BIO"

    def may_follow(before: str, tag: str) -> bool:
        (first, _, open_kind), (mark, _, kind) = before.partition("-"), tag.partition("-")
        is_open = ROLES.get(first) in ("B", "I")
        if ROLES.get(mark) in ("I", "E"):
            return is_open and open_kind == kind
        return not (must_end and is_open)

    return np.where([[may_follow(before, tag) for tag in labels] for before in labels], 0.0, -np.inf)


def best_sequence(log_p: Array, follow: Array, outside: int) -> list[int]:
    """log p (T, L), A (L, L) and the number of O, the tag around the sentence -> the numbers of the T best tags."""
    independent: list[int] = log_p.argmax(axis=1).tolist()
    if all(follow[j, k] == 0 for j, k in pairwise([outside, *independent, outside])):
        return independent
    best, came_from = np.full(len(follow), -np.inf), []
    best[outside] = 0.0
    for word in log_p:
        ways = best[:, None] + follow  # (L, L)
        came_from.append(ways.argmax(axis=0))
        best = word + ways.max(axis=0)
    tags = [int((best + follow[:, outside]).argmax())]
    for came in reversed(came_from):
        tags.append(int(came[tags[-1]]))
    return tags[-2::-1]  # without the tag before the first word
