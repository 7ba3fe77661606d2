"""Statistical significance: paired bootstrap resampling (Koehn 2004).

Draw test sets of the same size from the test set, with replacement, and score both systems on each. A resample is a
vector of weights: how often each example was drawn. Most scores (BLEU, F1, accuracy, attachment) are functions of sums
over examples (n-gram matches, lengths, correct labels), so a resample is scored from the weighted sums of these
tallies, without counting anything again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from regard.metrics.score import Score, check_paired

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

Array = npt.NDArray[np.float64]
Weights = npt.NDArray[np.int64]
"""How often each example was drawn (N,)."""
Scores = Mapping[str, Score]
Scorer = Callable[[Weights], Scores]
"""The scores of one system on a resample, by key."""
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


def paired_bootstrap(
    base: Scorer, other: Scorer, examples: int, resamples: int = 1000, seed: int = 12345
) -> dict[str, Comparison]:
    """Compare two systems by every score that both have, on the same resamples of `examples` examples."""
    if resamples < 1:
        raise ValueError(f"{resamples} resamples")
    whole = [system(np.ones(examples, dtype=np.int64)) for system in (base, other)]
    keys = [key for key in whole[0] if key in whole[1]]
    pairs = ((base(weights), other(weights)) for weights in resampling_weights(examples, resamples, seed))
    deltas = np.array([[second[key].value - first[key].value for key in keys] for first, second in pairs])
    return {key: _comparison(whole[0][key], whole[1][key], deltas[:, column]) for column, key in enumerate(keys)}


def resampling_weights(examples: int, resamples: int, seed: int) -> Iterator[Weights]:
    """Yield for each resample how often each example was drawn (N,); the sum is the number of examples."""
    generator = np.random.default_rng(seed)
    for _ in range(resamples):
        yield np.bincount(generator.choice(examples, size=examples, replace=True), minlength=examples)


def tally_scorer(tallies: Sequence[Mapping[str, float]], scores: Callable[[dict[str, float]], Scores]) -> Scorer:
    """The scorer of a system whose scores are a function of the sums of the examples' tallies."""
    keys = list(dict.fromkeys(key for tally in tallies for key in tally))
    table = np.array([[tally.get(key, 0.0) for key in keys] for tally in tallies])
    return lambda weights: scores(dict(zip(keys, (weights @ table).tolist(), strict=True)))


def mean_scorer(right: Sequence[Mapping[str, float]], counts: Sequence[int] | None = None) -> Scorer:
    """The scorer of a system by shares in percent: how much of each example is right, of 1 or of its `counts`."""
    of = [1] * len(right) if counts is None else counts
    tallies = [{**item, "": count} for item, count in zip(right, of, strict=True)]

    def scores(sums: dict[str, float]) -> Scores:
        total = max(1.0, sums.pop(""))
        return {name: Score(name, 100 * value / total) for name, value in sums.items()}

    return tally_scorer(tallies, scores)


def translation_scorer(
    hypotheses: Sequence[str], references: Sequence[str], metrics: "Mapping[str, tuple[str, Metric]]"
) -> Scorer:
    """The scorer of translations by metrics of sacreBLEU, each with its name."""
    check_paired(hypotheses, references)
    tables = {
        key: np.asarray(metric._extract_corpus_statistics(list(hypotheses), [list(references)]), dtype=np.float64)
        for key, (_, metric) in metrics.items()
    }

    def score(key: str, weights: Weights) -> Score:
        name, metric = metrics[key]
        value = metric._compute_score_from_stats((weights @ tables[key]).tolist()).score
        return Score(name, float(value), str(metric.get_signature()))

    return lambda weights: {key: score(key, weights) for key in metrics}


def _comparison(base: Score, other: Score, deltas: Array) -> Comparison:
    tail, delta = 100 * (1 - CONFIDENCE) / 2, other.value - base.value
    low, high = (float(value) for value in np.percentile(deltas, [tail, 100 - tail]))
    signature = "|".join(filter(None, (other.signature, f"bs:{len(deltas)}")))
    return Comparison(other.name, base.value, other.value, delta, p_value(deltas, delta), low, high, signature)


def p_value(deltas: Array, delta: float) -> float:
    """Two-sided p-value: how often a difference as large as `delta` occurs by chance.

    Under the null hypothesis the resampled differences have mean zero, so their mean is subtracted (Riezler and Maxwell
    2005). The observed set counts as one resample, so that p is never 0. The test of sacreBLEU is one-sided and calls a
    difference of zero significant.
    """
    chance = np.abs(deltas - deltas.mean())
    as_large = int(np.sum(chance >= abs(delta) - 1e-9))
    return (as_large + 1) / (len(deltas) + 1)
