"""Metrics of classification and regression.

    precision    P = correct / predicted             share of the predictions of a class that are correct
    recall       R = correct / gold                  share of the examples of a class that are predicted
    F1           2 P R / (P + R) = 2 correct / (predicted + gold)        (van Rijsbergen 1979, chapter 7)
    macro        P, R and F1 of each class, then their means

    Matthews     (n c - sum_k p_k t_k) / sqrt((n^2 - sum_k p_k^2) (n^2 - sum_k t_k^2))
                 n examples, c of them correct; p_k are predicted as class k, t_k are. For two classes it is the
                 correlation of Matthews 1975; for more, the R_K of Gorodkin 2004.
    Pearson      r = sum_i (x_i - mean x) (y_i - mean y) / sqrt(sum_i (x_i - mean x)^2 sum_i (y_i - mean y)^2)
    Spearman     Pearson's r of the ranks; equal values have the mean of their ranks

Macro F1 is the mean of the F1 of the classes, not the F1 of the mean P and R, which is never lower and has the same
name (Opitz and Burst 2019). All values are percentages, correlations too, as in the tables of GLUE. A division by zero
gives 0: the precision of a class without predictions, the recall of a class without examples, the correlation of a
constant.
"""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.messages import Message
from regard.metrics.score import Score, check_paired

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Counts:
    """Counts of one class; precision, recall and F1, 0 to 1, are computed from them."""

    correct: int = 0
    predicted: int = 0
    gold: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.correct + other.correct, self.predicted + other.predicted, self.gold + other.gold)

    @property
    def precision(self) -> float:
        """Share of the predictions that are correct."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold ones that are predicted."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        return 2 * self.correct / (self.predicted + self.gold) if self.predicted + self.gold else 0.0

    def scores(self, signature: str) -> dict[str, Score]:
        return _scores(self.precision, self.recall, self.f1, signature)


def accuracy(hypotheses: Sequence[object], references: Sequence[object]) -> Score:
    """Percentage of correct predictions."""
    check_paired(hypotheses, references)
    correct = sum(hypothesis == gold for hypothesis, gold in zip(hypotheses, references, strict=True))
    return Score("accuracy", 100.0 * correct / len(references), Message("{count:,} examples", count=len(references)))


def counts_by_class(hypotheses: Sequence[Hashable], references: Sequence[Hashable]) -> dict[Hashable, Counts]:
    """Counts of every class in either list, in the order of their first occurrence."""
    check_paired(hypotheses, references)
    predicted, gold = Counter(hypotheses), Counter(references)
    correct = Counter(a for a, b in zip(hypotheses, references, strict=True) if a == b)
    return {label: Counts(correct[label], predicted[label], gold[label]) for label in gold | predicted}


def binary_scores(
    hypotheses: Sequence[Hashable], references: Sequence[Hashable], positive: Hashable = 1
) -> dict[str, Score]:
    """Precision, recall and F1 of the positive class."""
    counts = counts_by_class(hypotheses, references).get(positive, Counts())
    return counts.scores(Message("of class {name}, {count:,} examples", name=positive, count=len(references)))


def macro_scores(
    hypotheses: Sequence[Hashable], references: Sequence[Hashable], classes: Collection[Hashable] | None = None
) -> dict[str, Score]:
    """Precision, recall and F1 averaged over `classes`, or over all classes that occur."""
    counts = counts_by_class(hypotheses, references)
    if classes is not None and not classes:
        raise ValueError("there is nothing to score: no classes")
    by_class = [counts.get(label, Counts()) for label in (counts if classes is None else classes)]
    precision, recall, f1 = (
        math.fsum(getattr(one, name) for one in by_class) / len(by_class) for name in ("precision", "recall", "f1")
    )
    sizes = {"classes": len(by_class), "count": len(references)}
    return _scores(precision, recall, f1, Message("macro over {classes} classes, {count:,} examples", **sizes))


def matthews(hypotheses: Sequence[Hashable], references: Sequence[Hashable]) -> Score:
    """Matthews correlation of predicted and gold classes: 0 for guessing, also with unbalanced classes."""
    counts = counts_by_class(hypotheses, references).values()
    n = len(references)
    covariance = n * sum(c.correct for c in counts) - sum(c.predicted * c.gold for c in counts)
    variances = (n * n - sum(c.predicted**2 for c in counts)) * (n * n - sum(c.gold**2 for c in counts))
    value = covariance / math.sqrt(variances) if variances else 0.0
    signature = Message("{classes} classes, {count:,} examples", classes=len(counts), count=n)
    return Score("Matthews correlation", 100.0 * value, signature)


def pearson(hypotheses: Sequence[float], references: Sequence[float]) -> Score:
    """Pearson correlation, -100 to 100."""
    check_paired(hypotheses, references)
    signature = Message("{count:,} examples", count=len(references))
    return Score("Pearson correlation", 100.0 * _correlation(hypotheses, references), signature)


def spearman(hypotheses: Sequence[float], references: Sequence[float]) -> Score:
    """Spearman rank correlation, -100 to 100."""
    check_paired(hypotheses, references)
    value = _correlation(mean_ranks(hypotheses), mean_ranks(references))
    signature = Message("ties by mean rank, {count:,} examples", count=len(references))
    return Score("Spearman correlation", 100.0 * value, signature)


def mean_ranks(values: npt.ArrayLike) -> Array:
    """Rank of each value, from 1; m equal values at ranks a+1 .. a+m all get a + (m + 1) / 2."""
    _, kind, times = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(times) - (times - 1) / 2)[kind]
    return ranks


def _correlation(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if (a == a[0]).all() or (b == b[0]).all():
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    a, b = a / np.abs(a).max(), b / np.abs(b).max()  # so that squares do not overflow or underflow
    value = float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))
    return max(-1.0, min(1.0, value))


def _scores(precision: float, recall: float, f1: float, signature: str) -> dict[str, Score]:
    values = {"precision": precision, "recall": recall, "F1": f1}
    return {name.lower(): Score(name, 100.0 * value, signature) for name, value in values.items()}
