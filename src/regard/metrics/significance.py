"""Statistical significance: paired bootstrap resampling (Koehn 2004).

Draw test sets of the same size from the test set, with replacement, and score both systems on each. A resample is a
vector of weights: how often each example was drawn. Most scores (BLEU, F1, accuracy, attachment) are functions of sums
over examples (n-gram matches, lengths, correct labels), so a resample is scored from the weighted sums of these
tallies, without counting anything again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from regard.messages import Message
from regard.metrics.score import Score, check_paired
from regard.metrics.translation import bleu_metric, chrf_metric

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

Array = npt.NDArray[np.float64]
Weights = npt.NDArray[np.int64]
"""How often each example was drawn (N,)."""
Scorer = Callable[[Weights], Mapping[str, Score]]
"""The scores of one system on a resample, by key."""
K = TypeVar("K")
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
    metrics = {"bleu": ("BLEU", bleu_metric(tokenize)), "chrf": ("chrF", chrf_metric())}
    first, second = (translation_scorer(hypotheses, references, metrics) for hypotheses in (base, other))
    return paired_bootstrap(first, second, len(references), resamples, seed)


def paired_bootstrap(
    base: Scorer, other: Scorer, examples: int, resamples: int = 1000, seed: int = 12345
) -> dict[str, Comparison]:
    """Compare two systems by every score that both have, on the same resamples of `examples` examples."""
    if resamples < 1:
        raise ValueError(f"{resamples} resamples")
    whole = [system(np.ones(examples, dtype=np.int64)) for system in (base, other)]
    keys = [key for key in whole[0] if key in whole[1]]
    deltas = np.array(
        [
            [second[key].value - first[key].value for key in keys]
            for weights in resampling_weights(examples, resamples, seed)
            for first, second in [(base(weights), other(weights))]
        ]
    )
    return {
        key: _comparison(whole[0][key], whole[1][key], deltas[:, column], resamples) for column, key in enumerate(keys)
    }


def resampling_weights(examples: int, resamples: int, seed: int) -> Iterator[Weights]:
    """Yield for each resample how often each example was drawn (N,); the sum is the number of examples."""
    generator = np.random.default_rng(seed)
    for _ in range(resamples):
        yield np.bincount(generator.choice(examples, size=examples, replace=True), minlength=examples)


def tally_scorer(
    tallies: Sequence[Mapping[K, float]], scores: Callable[[dict[K, float]], Mapping[str, Score]]
) -> Scorer:
    """The scorer of a system whose scores are a function of the sums of the examples' tallies."""
    columns = {key: column for column, key in enumerate(dict.fromkeys(key for tally in tallies for key in tally))}
    table = np.zeros((len(tallies), len(columns)))
    for row, tally in enumerate(tallies):
        for key, value in tally.items():
            table[row, columns[key]] = value
    return lambda weights: scores(dict(zip(columns, (weights @ table).tolist(), strict=True)))


def mean_scorer(shares: Sequence[Mapping[str, float]]) -> Scorer:
    """The scorer of a system by the means over the examples, in percent."""
    count = len(shares)
    signature = Message("{count:,} examples", count=count)
    return tally_scorer(
        shares, lambda sums: {name: Score(name, 100 * total / count, signature) for name, total in sums.items()}
    )


def translation_scorer(
    hypotheses: Sequence[str], references: Sequence[str], metrics: "Mapping[str, tuple[str, Metric]]"
) -> Scorer:
    """The scorer of translations by metrics of sacreBLEU, each with its name."""
    tables = {
        key: np.asarray(metric._extract_corpus_statistics(list(hypotheses), [list(references)]), dtype=np.float64)
        for key, (_, metric) in metrics.items()
    }

    def scores(weights: Weights) -> dict[str, Score]:
        return {
            key: Score(
                name,
                float(metric._compute_score_from_stats((weights @ tables[key]).tolist()).score),
                str(metric.get_signature()),
            )
            for key, (name, metric) in metrics.items()
        }

    return scores


def _comparison(base: Score, other: Score, deltas: Array, resamples: int) -> Comparison:
    tail, delta = 100 * (1 - CONFIDENCE) / 2, other.value - base.value
    low, high = (float(value) for value in np.percentile(deltas, [tail, 100 - tail]))
    signature = f"{other.signature}|bs:{resamples}"
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
