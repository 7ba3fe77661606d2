"""Is one model better than another at the same examples, or was it luck? Paired bootstrap resampling (Koehn 2004).

    delta = 100 mean_i (b_i - a_i)      a_i, b_i in 0 to 1: how right each of the two is about example i

The mean is taken again over as many examples drawn from them, with replacement, many times: how far it moves by itself
says what a difference is worth. Both are judged on what was drawn, so that hard examples count against both.
"""

from collections.abc import Callable, Sequence

import numpy as np

from regard.data.examples import Example
from regard.metrics import Comparison
from regard.metrics.answers import answer_exact, answer_f1
from regard.metrics.significance import CONFIDENCE, Array, p_value
from regard.run.predictor import ExampleEvaluation

RESAMPLES, SEED = 1000, 12345
Judged = Callable[[Example, Example], float]


def _same(example: Example, said: Example) -> float:
    return float(example["label"] == said["label"])


def _golds(example: Example) -> list[str]:
    return [answer["text"] for answer in example["answers"]]


COMPARED: dict[str, dict[str, Judged]] = {
    "classification": {"accuracy": _same},
    "choice": {"accuracy": _same},
    "answering": {
        "exact match": lambda example, said: answer_exact(said["answer"], _golds(example)),
        "F1": lambda example, said: answer_f1(said["answer"], _golds(example)),
    },
}
"""How right a model is about one example, by task and measure; what is no mean over examples is not here."""


def compare_evaluations(task: str, base: ExampleEvaluation, other: ExampleEvaluation) -> list[Comparison]:
    """How two runs of the same task differ on the same examples; a positive delta means that `other` is better."""
    found = []
    for name, judged in COMPARED[task].items():
        values = [
            np.array([judged(*each) for each in zip(found_.examples, found_.said, strict=True)])
            for found_ in (base, other)
        ]
        found.append(compare_means(name, *values))
    return found


def compare_means(name: str, base: Sequence[float] | Array, other: Sequence[float] | Array) -> Comparison:
    """The same for two lists of values, 0 to 1, of the same examples."""
    a, b = np.asarray(base, dtype=np.float64), np.asarray(other, dtype=np.float64)
    rng, difference = np.random.default_rng(SEED), b - a
    deltas = 100 * np.array([difference[rng.integers(len(a), size=len(a))].mean() for _ in range(RESAMPLES)])
    delta, tail = float(100 * difference.mean()), 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(deltas, [tail, 100 - tail])
    return Comparison(
        metric=name,
        base=float(100 * a.mean()),
        other=float(100 * b.mean()),
        delta=delta,
        p_value=p_value(deltas, delta),
        ci_low=float(low),
        ci_high=float(high),
        signature=f"{len(a):,} examples|bs:{RESAMPLES}",
    )
