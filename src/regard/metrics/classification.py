"""How well classes and numbers are predicted.

    precision    P = right / found                   of what was said to be of a class, the share that is
    recall       R = right / gold                    of what is of a class, the share that was found
    F1           2 P R / (P + R) = 2 right / (found + gold)              (van Rijsbergen 1979, chapter 7)
    micro        right, found and gold summed over the classes, then P, R and F1
    macro        P, R and F1 of each class, then their means

    Matthews     (n c - sum_k p_k t_k) / sqrt((n^2 - sum_k p_k^2) (n^2 - sum_k t_k^2))
                 n examples, c of them right; p_k were said to be of class k, t_k are. For two classes it is the
                 correlation of Matthews 1975; for more, the R_K of Gorodkin 2004, in counts.
    Pearson      r = sum_i (x_i - mean x) (y_i - mean y) / sqrt(sum_i (x_i - mean x)^2 sum_i (y_i - mean y)^2)
    Spearman     Pearson's r of the ranks; equal values share the mean of the ranks they take up

Macro F1 is the mean of the classes' F1, not the F1 of the mean P and R, which is never lower and goes by the same name
(Opitz and Burst 2019). All values are percentages, correlations too, as the tables of GLUE show them. What divides by
nothing is 0: the precision of a class never found, the recall of one that is not there, the correlation of a constant.
"""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.metrics.score import Score, check_paired

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Counts:
    """What was found of a kind of thing; precision, recall and F1, 0 to 1, follow from the three numbers."""

    right: int = 0
    found: int = 0
    gold: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.right + other.right, self.found + other.found, self.gold + other.gold)

    @property
    def precision(self) -> float:
        """The share of the found ones that are right."""
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """The share of the gold ones that were found."""
        return self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.right / (self.found + self.gold) if self.found + self.gold else 0.0

    def scores(self, signature: str) -> dict[str, Score]:
        """The three as percentages, under the names `precision`, `recall` and `f1`."""
        return _scores(self.precision, self.recall, self.f1, signature)


def accuracy(hypotheses: Sequence[object], references: Sequence[object]) -> Score:
    """The percentage of examples given their own class."""
    check_paired(hypotheses, references)
    right = sum(found == gold for found, gold in zip(hypotheses, references, strict=True))
    return Score("accuracy", 100.0 * right / len(references), f"{len(references):,} examples")


def counts_by_class(hypotheses: Sequence[Hashable], references: Sequence[Hashable]) -> dict[Hashable, Counts]:
    """What was found of each class that either list holds, in the order in which they are met."""
    check_paired(hypotheses, references)
    found, gold = Counter(hypotheses), Counter(references)
    right = Counter(a for a, b in zip(hypotheses, references, strict=True) if a == b)
    return {label: Counts(right[label], found[label], gold[label]) for label in gold | found}


def binary_scores(
    hypotheses: Sequence[Hashable], references: Sequence[Hashable], positive: Hashable = 1
) -> dict[str, Score]:
    """Precision, recall and F1 of one class, the one that is looked for."""
    counts = counts_by_class(hypotheses, references).get(positive, Counts())
    return counts.scores(f"of class {positive}, {len(references):,} examples")


def macro_scores(
    hypotheses: Sequence[Hashable], references: Sequence[Hashable], classes: Collection[Hashable] | None = None
) -> dict[str, Score]:
    """Means over `classes`, or else all that are met, a rare class counting as much as a frequent one."""
    chosen = _chosen(hypotheses, references, classes)
    precision, recall, f1 = (
        math.fsum(getattr(counts, name) for counts in chosen) / len(chosen) for name in ("precision", "recall", "f1")
    )
    return _scores(precision, recall, f1, f"macro over {len(chosen)} classes, {len(references):,} examples")


def micro_scores(
    hypotheses: Sequence[Hashable], references: Sequence[Hashable], classes: Collection[Hashable] | None = None
) -> dict[str, Score]:
    """Every example counts alike. Over all classes the three are the accuracy; `classes` leaves out such as "none"."""
    chosen = _chosen(hypotheses, references, classes)
    counts = sum(chosen, Counts())
    return counts.scores(f"micro over {len(chosen)} classes, {len(references):,} examples")


def matthews(hypotheses: Sequence[Hashable], references: Sequence[Hashable]) -> Score:
    """The correlation of the classes said and the classes there are: 0 for guessing, however frequent a class is."""
    counts = counts_by_class(hypotheses, references).values()
    n = len(references)
    covariance = n * sum(c.right for c in counts) - sum(c.found * c.gold for c in counts)
    variances = (n * n - sum(c.found**2 for c in counts)) * (n * n - sum(c.gold**2 for c in counts))
    value = covariance / math.sqrt(variances) if variances else 0.0
    return Score("Matthews correlation", 100.0 * value, f"{len(counts)} classes, {n:,} examples")


def pearson(hypotheses: Sequence[float], references: Sequence[float]) -> Score:
    """How close the points are to some rising line, -100 to 100."""
    check_paired(hypotheses, references)
    return Score("Pearson correlation", 100.0 * _correlation(hypotheses, references), f"{len(references):,} examples")


def spearman(hypotheses: Sequence[float], references: Sequence[float]) -> Score:
    """How close the points are to some rising curve, -100 to 100: only their order counts."""
    check_paired(hypotheses, references)
    value = _correlation(mean_ranks(hypotheses), mean_ranks(references))
    return Score("Spearman correlation", 100.0 * value, f"ties by mean rank, {len(references):,} examples")


def mean_ranks(values: npt.ArrayLike) -> Array:
    """The place of each value in their order, from 1; m equal values at places a+1 .. a+m all have a + (m + 1) / 2."""
    _, kind, times = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(times) - (times - 1) / 2)[kind]
    return ranks


def _correlation(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if (a == a[0]).all() or (b == b[0]).all():
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    a, b = a / np.abs(a).max(), b / np.abs(b).max()  # or squares overflow, or vanish, long before the values do
    value = float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))
    return max(-1.0, min(1.0, value))


def _chosen(
    hypotheses: Sequence[Hashable], references: Sequence[Hashable], classes: Collection[Hashable] | None
) -> list[Counts]:
    counts = counts_by_class(hypotheses, references)
    if classes is not None and not classes:
        raise ValueError("there is nothing to score: no classes")
    return list(counts.values()) if classes is None else [counts.get(label, Counts()) for label in classes]


def _scores(precision: float, recall: float, f1: float, signature: str) -> dict[str, Score]:
    return {
        "precision": Score("precision", 100.0 * precision, signature),
        "recall": Score("recall", 100.0 * recall, signature),
        "f1": Score("F1", 100.0 * f1, signature),
    }
