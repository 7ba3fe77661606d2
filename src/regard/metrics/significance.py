"""Statistical significance: paired bootstrap resampling (Koehn 2004).

Draw test sets of the same size from the test set, with replacement, and score both systems on each. A corpus score like
BLEU is a function of sums of sentence statistics (n-gram matches, lengths), so a resample is a vector of weights, and
all resamples are one matrix product. For a mean over examples the resampled scores are

    delta = 100 mean_i (b_i - a_i)      a_i, b_i in [0, 1]: score of example i by each of the two systems
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from regard.metrics.score import check_paired
from regard.metrics.translation import bleu_metric, chrf_metric

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

Array = npt.NDArray[np.float64]
CONFIDENCE, SIGNIFICANCE_LEVEL = 0.95, 0.05


@dataclass(frozen=True)
class Comparison:
    """Difference between `other` and `base` on the same test set; delta > 0 means that `other` scores higher."""

    metric: str
    base: float
    other: float
    delta: float
    p_value: float
    ci_low: float
    ci_high: float
    signature: str

    def __str__(self) -> str:
        return (
            f"{self.metric}: {self.base:.2f} -> {self.other:.2f} ({self.delta:+.2f}, "
            f"{CONFIDENCE:.0%} interval {self.ci_low:+.2f} to {self.ci_high:+.2f}, p = {self.p_value:.3f})"
        )


def compare(
    base: Sequence[str],
    other: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = "13a",
    resamples: int = 1000,
    seed: int = 12345,
) -> dict[str, Comparison]:
    """Compare two systems' translations of the same sentences by BLEU and chrF; keys are `bleu` and `chrf`."""
    check_paired(base, references)
    check_paired(other, references)
    if resamples < 1:
        raise ValueError(f"{resamples} resamples")
    weights = resampling_weights(len(references), resamples, seed)
    metrics = {"bleu": ("BLEU", bleu_metric(tokenize)), "chrf": ("chrF", chrf_metric())}
    return {key: _compare(name, metric, (base, other), references, weights) for key, (name, metric) in metrics.items()}


def compare_means(
    name: str, base: Sequence[float] | Array, other: Sequence[float] | Array, resamples: int = 1000, seed: int = 12345
) -> Comparison:
    """Compare two systems by the mean of their scores, in [0, 1], of the same examples."""
    a, b = np.asarray(base, dtype=np.float64), np.asarray(other, dtype=np.float64)
    generator, difference = np.random.default_rng(seed), b - a
    deltas = 100 * np.array([difference[generator.integers(len(a), size=len(a))].mean() for _ in range(resamples)])
    means = float(100 * a.mean()), float(100 * b.mean())
    return _comparison(name, means, float(100 * difference.mean()), deltas, f"{len(a):,} examples|bs:{resamples}")


def resampling_weights(sentences: int, resamples: int, seed: int) -> Array:
    """(resamples, sentences): how often each sentence was sampled; a row sums to the number of sentences."""
    samples = np.random.default_rng(seed).choice(sentences, size=(resamples, sentences), replace=True)
    return np.stack([np.bincount(row, minlength=sentences) for row in samples]).astype(np.float64)


def _compare(
    name: str, metric: "Metric", systems: tuple[Sequence[str], Sequence[str]], references: Sequence[str], weights: Array
) -> Comparison:
    scores, resampled = [], []
    for hypotheses in systems:
        sums = metric._extract_corpus_statistics(list(hypotheses), [list(references)])
        statistics = np.asarray(sums, dtype=np.float64)
        scores.append(_scores(metric, statistics.sum(axis=0, keepdims=True))[0])
        resampled.append(_scores(metric, weights @ statistics))
    values, deltas = (float(scores[0]), float(scores[1])), resampled[1] - resampled[0]
    signature = f"{metric.get_signature()}|bs:{len(weights)}"
    return _comparison(name, values, float(scores[1] - scores[0]), deltas, signature)


def _comparison(name: str, scores: tuple[float, float], delta: float, deltas: Array, signature: str) -> Comparison:
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(deltas, [tail, 100 - tail])
    return Comparison(name, *scores, delta, p_value(deltas, delta), float(low), float(high), signature)


def _scores(metric: "Metric", sums: Array) -> Array:
    return np.array([metric._compute_score_from_stats(row.tolist()).score for row in sums])


def p_value(deltas: Array, delta: float) -> float:
    """Two-sided p-value: how often a difference as large as `delta` occurs by chance.

    Under the null hypothesis the resampled differences have mean zero, so their mean is subtracted (Riezler and Maxwell
    2005). The observed set counts as one resample, so that p is never 0. The test of sacreBLEU is one-sided and calls a
    difference of zero significant.
    """
    chance = np.abs(deltas - deltas.mean())
    as_large = int(np.sum(chance >= abs(delta) - 1e-9))
    return (as_large + 1) / (len(deltas) + 1)
