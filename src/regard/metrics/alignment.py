"""How well attention aligns: measures of its weights, and of the links read off them.

    entropy        E_t = - sum_s a_ts ln a_ts              how undecided the writing of word t was, in nats
    coverage       C_s = sum_t a_ts                        how much word s was looked at in total
                                                           (Tu et al. 2016, section 3.1.1, with fertility 1)
    agreement      sum_s min(a_ts, b_ts)                   how much of a row two heads have in common
    precision      |A n P| / |A|
    recall         |A n S| / |S|
    AER            1 - (|A n S| + |A n P|) / (|A| + |S|)   (Och and Ney 2003, section 5)

A are the links found; S the sure and P the possible links of a person's (or a corpus's own) alignment, S a part of P.
A link is (source, target), both counted from 0, as the lines "0-0 1-2" of alignment tools write it.

Shapes: a row of weights is a target word, a column a source word, (..., T, S); H heads or layers that are compared.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Links = frozenset[tuple[int, int]]


def entropy(weights: npt.ArrayLike) -> Array:
    """(..., T, S) -> (..., T), nats: 0 looks at one word, ln S at all alike.

    A row is first made to sum to one, as the rows of local attention need not; an empty row has no entropy.
    """
    a = np.asarray(weights, dtype=np.float64)
    total = a.sum(axis=-1, keepdims=True)
    a = np.divide(a, total, out=np.zeros_like(a), where=total > 0)
    logs = np.log(a, out=np.zeros_like(a), where=a > 0)
    return np.maximum(0.0, -(a * logs).sum(axis=-1))


def relative_entropy(weights: npt.ArrayLike) -> Array:
    """Entropy as a share of the most there can be, ln S: comparable between sentences of different lengths."""
    keys = np.shape(weights)[-1]
    return entropy(weights) / np.log(keys) if keys > 1 else np.zeros(np.shape(weights)[:-1])


def coverage(weights: npt.ArrayLike) -> Array:
    """(..., T, S) -> (..., S): 0 was never looked at, 1 as often as a word translated once, more as one read again."""
    return np.asarray(weights, dtype=np.float64).sum(axis=-2)


def covered(weights: npt.ArrayLike, least: float = 0.5) -> Array:
    """(..., T, S) -> (...): the share of source words with a coverage of at least `least`."""
    return np.mean(coverage(weights) >= least, axis=-1, dtype=np.float64)


def coverage_error(weights: npt.ArrayLike) -> Array:
    """(..., T, S) -> (...): mean |1 - C_s|, over- and undertranslation alike; it cannot be 0 unless T = S."""
    return np.abs(1.0 - coverage(weights)).mean(axis=-1)


def agreement(weights: npt.ArrayLike) -> float:
    """(H, T, S): the mean over all pairs of heads (or layers) and all rows of what two rows have in common, 0 to 1.

    sum_s min(a, b) = 1 - half of sum_s |a - b|, the total variation. One head agrees with itself.
    """
    a = np.asarray(weights, dtype=np.float64)
    first, second = np.triu_indices(len(a), k=1)
    if not len(first):
        return 1.0
    return float(np.minimum(a[first], a[second]).sum(axis=-1).mean())


def agreement_with_mean(weights: npt.ArrayLike) -> Array:
    """(H, T, S) -> (H,): what each head has in common with the mean of all; a low one does something of its own."""
    a = np.asarray(weights, dtype=np.float64)
    return np.minimum(a, a.mean(axis=0)).sum(axis=-1).mean(axis=-1)


def agreement_of_directions(forward: npt.ArrayLike, backward: npt.ArrayLike) -> float:
    """(T, S) of one model and (S, T) of the model for the other direction: tr(forward backward) / min(T, S), 0 to 1.

    The trace that Cohn et al. 2016 reward in training: it is largest when both choose the same links one to one.
    """
    a, b = np.asarray(forward, dtype=np.float64), np.asarray(backward, dtype=np.float64)
    if a.shape != b.shape[::-1]:
        raise ValueError(f"{a.shape} one way and {b.shape} back are not weights between the same words")
    return float((a * b.T).sum() / min(a.shape))


def pooled(weights: npt.ArrayLike, rows: Sequence[Sequence[int]], columns: Sequence[Sequence[int]]) -> Array:
    """Weights between pieces -> weights between the words they are pieces of, (..., len(rows), len(columns)).

    A word is looked at as much as its pieces together, and looks as its pieces do on average. Pieces that belong to no
    word (the end of the sentence) are left out: then a row sums to less than one.
    """
    a = np.asarray(weights, dtype=np.float64)
    by_column = np.stack([a[..., list(group)].sum(axis=-1) for group in columns], axis=-1)
    return np.stack([by_column[..., list(group), :].mean(axis=-2) for group in rows], axis=-2)


def likeliest_links(weights: npt.ArrayLike, least: float = 0.0) -> Links:
    """(T, S) -> for every target word the source word it looked at most, if that got more than `least`."""
    a = np.asarray(weights, dtype=np.float64)
    return frozenset((int(row.argmax()), t) for t, row in enumerate(a) if row.size and row.max() > least)


def links_above(weights: npt.ArrayLike, threshold: float) -> Links:
    """(T, S) -> every pair with a weight above `threshold`: none, one or several links a target word."""
    targets, sources = np.nonzero(np.asarray(weights, dtype=np.float64) > threshold)
    return frozenset(zip(sources.tolist(), targets.tolist(), strict=True))


@dataclass(frozen=True)
class AlignmentScore:
    """Links counted over a corpus; everything else follows from the four numbers."""

    found: int
    sure: int
    found_sure: int
    found_possible: int

    @property
    def precision(self) -> float:
        """The share of found links that are possible; 1 where nothing was found."""
        return self.found_possible / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """The share of sure links that were found; 1 where nothing is sure."""
        return self.found_sure / self.sure if self.sure else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    @property
    def aer(self) -> float:
        """The alignment error rate: 0 finds all that is sure and nothing that is not possible."""
        links = self.found + self.sure
        return 1.0 - (self.found_sure + self.found_possible) / links if links else 0.0


def score_links(
    found: Sequence[Collection[tuple[int, int]]],
    sure: Sequence[Collection[tuple[int, int]]],
    possible: Sequence[Collection[tuple[int, int]]],
) -> AlignmentScore:
    """The links of every sentence against its gold alignment; what is sure is possible too."""
    totals = np.zeros(4, dtype=np.int64)
    for a, s, p in zip(map(set, found), map(set, sure), map(set, possible), strict=True):
        totals += (len(a), len(s), len(a & s), len(a & (p | s)))
    return AlignmentScore(*totals.tolist())


def pharaoh(links: Iterable[tuple[int, int]]) -> str:
    """Links as one line, "0-0 1-2", source first."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))
