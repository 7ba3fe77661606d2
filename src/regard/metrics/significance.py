"""Is one system better than another, or was it luck? Paired bootstrap resampling (Koehn 2004).

Draw test sets of the same size from the test set, with replacement, and score both systems on each. As a corpus score
is a function of sums of sentence statistics (n-gram matches, lengths), drawing means weighting sentences by how often
they were drawn: all resamples are one matrix product.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.metrics.score import check_paired
from regard.metrics.translation import bleu_metric, chrf_metric

Array = npt.NDArray[np.float64]
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Comparison:
    """How `other` differs from `base` on the same test set: a positive delta means that `other` scores higher."""

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
    """Compare two systems' translations of the same sentences by BLEU and chrF, under the names `bleu` and `chrf`."""
    check_paired(base, references)
    check_paired(other, references)
    if resamples < 1:
        raise ValueError(f"{resamples} resamples")
    weights = resampling_weights(len(references), resamples, seed)
    metrics = {"bleu": ("BLEU", bleu_metric(tokenize)), "chrf": ("chrF", chrf_metric())}
    return {key: _compare(name, metric, (base, other), references, weights) for key, (name, metric) in metrics.items()}


def resampling_weights(sentences: int, resamples: int, seed: int) -> Array:
    """(resamples, sentences): how often each sentence was drawn; a row sums to the number of sentences."""
    drawn = np.random.default_rng(seed).choice(sentences, size=(resamples, sentences), replace=True)
    return np.stack([np.bincount(row, minlength=sentences) for row in drawn]).astype(np.float64)


def _compare(
    name: str, metric: Any, systems: tuple[Sequence[str], Sequence[str]], references: Sequence[str], weights: Array
) -> Comparison:
    scores, resampled = [], []
    for hypotheses in systems:
        statistics = np.asarray(
            metric._extract_corpus_statistics(list(hypotheses), [list(references)]), dtype=np.float64
        )
        scores.append(_scores(metric, statistics.sum(axis=0, keepdims=True))[0])
        resampled.append(_scores(metric, weights @ statistics))
    deltas = resampled[1] - resampled[0]
    delta = float(scores[1] - scores[0])
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(deltas, [tail, 100 - tail])
    return Comparison(
        metric=name,
        base=float(scores[0]),
        other=float(scores[1]),
        delta=delta,
        p_value=p_value(deltas, delta),
        ci_low=float(low),
        ci_high=float(high),
        signature=f"{metric.get_signature()}|bs:{len(weights)}",
    )


def _scores(metric: Any, sums: Array) -> Array:
    return np.array([metric._compute_score_from_stats(row.tolist()).score for row in sums])


def p_value(deltas: Array, delta: float) -> float:
    """How often chance alone would show a difference as large as `delta`, in either direction.

    The resampled differences, moved to have mean zero, are what chance does when the systems are equal (Riezler and
    Maxwell 2005). The observed set counts as one of them, so that no finite number of draws proves p = 0. sacreBLEU's
    own test looks in one direction only, and calls a difference of zero significant.
    """
    chance = np.abs(deltas - deltas.mean())
    as_large = int(np.sum(chance >= abs(delta) - 1e-9))
    return (as_large + 1) / (len(deltas) + 1)
