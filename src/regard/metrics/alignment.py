"""Metrics of attention weights, and of the word alignment read off them.

    entropy        E_t = - sum_s a_ts ln a_ts              of the attention of target word t, in nats
    coverage       C_s = sum_t a_ts                        total attention to source word s
                                                           (Tu et al. 2016, section 3.1.1, with fertility 1)
    agreement      sum_s min(a_ts, b_ts)                   overlap of the attention of two heads
    precision      |A n P| / |A|
    recall         |A n S| / |S|
    AER            1 - (|A n S| + |A n P|) / (|A| + |S|)   (Och and Ney 2003, section 5)

A are the predicted links, S the sure and P the possible links of the gold alignment, S a subset of P. A link is
(source, target), both counted from 0, like "0-0 1-2" in the Pharaoh format.

Shapes: T target words, S source words, H heads or layers; weights are (..., T, S).
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Links = frozenset[tuple[int, int]]


def entropy(weights: npt.ArrayLike) -> Array:
    """(..., T, S) -> (..., T), in nats: 0 for one word, ln S for uniform attention.

    Rows are normalised to sum to one, since those of local attention may not; an empty row has entropy 0.
    """
    a = np.asarray(weights, dtype=np.float64)
    total = a.sum(axis=-1, keepdims=True)
    a = np.divide(a, total, out=np.zeros_like(a), where=total > 0)
    logs = np.log(a, out=np.zeros_like(a), where=a > 0)
    return np.maximum(0.0, -(a * logs).sum(axis=-1))


def relative_entropy(weights: npt.ArrayLike) -> Array:
    """Entropy divided by its maximum ln S: comparable between sentences of different lengths."""
    keys = np.shape(weights)[-1]
    return entropy(weights) / np.log(keys) if keys > 1 else np.zeros(np.shape(weights)[:-1])


def coverage(weights: npt.ArrayLike) -> Array:
    """(..., T, S) -> (..., S): 0 for a word without attention, 1 for a word translated once."""
    return np.asarray(weights, dtype=np.float64).sum(axis=-2)


def covered(weights: npt.ArrayLike, least: float = 0.5) -> Array:
    """(..., T, S) -> (...): share of source words with a coverage of at least `least`."""
    return np.mean(coverage(weights) >= least, axis=-1, dtype=np.float64)


def coverage_error(weights: npt.ArrayLike) -> Array:
    """(..., T, S) -> (...): mean |1 - C_s|, over- and undertranslation; it can be 0 only if T = S."""
    return np.abs(1.0 - coverage(weights)).mean(axis=-1)


def agreement(weights: npt.ArrayLike) -> float:
    """(H, T, S) -> mean overlap, 0 to 1, over all pairs of heads (or layers) and all rows.

    sum_s min(a, b) = 1 - 1/2 sum_s |a - b|, one minus the total variation distance. One head alone gives 1.
    """
    a = np.asarray(weights, dtype=np.float64)
    first, second = np.triu_indices(len(a), k=1)
    if not len(first):
        return 1.0
    return float(np.minimum(a[first], a[second]).sum(axis=-1).mean())


def pool_words(weights: npt.ArrayLike, rows: Sequence[Sequence[int]], columns: Sequence[Sequence[int]]) -> Array:
    """Pool weights between tokens to weights between words, (..., len(rows), len(columns)).

    Attention to a word is the sum over its tokens; attention of a word is the mean over its tokens. Tokens of no word
    (the end of the sentence) are left out, so a row may sum to less than one.
    """
    a = np.asarray(weights, dtype=np.float64)
    by_column = np.stack([a[..., list(group)].sum(axis=-1) for group in columns], axis=-1)
    return np.stack([by_column[..., list(group), :].mean(axis=-2) for group in rows], axis=-2)


def argmax_links(weights: npt.ArrayLike, least: float = 0.0) -> Links:
    """(T, S) -> a link from every target word to its source word of maximum weight, if that is above `least`."""
    a = np.asarray(weights, dtype=np.float64)
    return frozenset((int(row.argmax()), t) for t, row in enumerate(a) if row.size and row.max() > least)


@dataclass(frozen=True)
class AlignmentScore:
    """Link counts over a corpus, from which the metrics are computed."""

    predicted: int
    sure: int
    predicted_sure: int
    predicted_possible: int

    @property
    def precision(self) -> float:
        """Share of predicted links that are possible; 1 if nothing is predicted."""
        return self.predicted_possible / self.predicted if self.predicted else 1.0

    @property
    def recall(self) -> float:
        """Share of sure links that are predicted; 1 if no link is sure."""
        return self.predicted_sure / self.sure if self.sure else 1.0

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    @property
    def aer(self) -> float:
        """Alignment error rate: 0 if all sure links and only possible links are predicted."""
        links = self.predicted + self.sure
        return 1.0 - (self.predicted_sure + self.predicted_possible) / links if links else 0.0


def score_links(
    predicted: Sequence[Collection[tuple[int, int]]],
    sure: Sequence[Collection[tuple[int, int]]],
    possible: Sequence[Collection[tuple[int, int]]],
) -> AlignmentScore:
    """Compare the predicted links of every sentence with its gold alignment; sure links are also possible."""
    totals = np.zeros(4, dtype=np.int64)
    for a, s, p in zip(map(set, predicted), map(set, sure), map(set, possible), strict=True):
        totals += (len(a), len(s), len(a & s), len(a & (p | s)))
    return AlignmentScore(*totals.tolist())


def pharaoh(links: Iterable[tuple[int, int]]) -> str:
    """Format links as "0-0 1-2", source first (Pharaoh format)."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))
