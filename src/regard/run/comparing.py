"""Is one model better than another at the same examples, or was it luck? Paired bootstrap resampling (Koehn 2004).

    delta = 100 mean_i (b_i - a_i)      a_i, b_i in 0 to 1: how right each of the two is about example i

The mean is taken again over as many examples drawn from them, with replacement, many times: how far it moves by itself
says what a difference is worth. Both are judged on what was drawn, so that hard examples count against both.
"""

from collections.abc import Callable

from regard.data.examples import Example
from regard.metrics.answers import answer_exact, answer_f1
from regard.metrics.significance import Comparison, compare_means
from regard.run.predictor import ExampleEvaluation

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
    comparisons = []
    for name, judged in COMPARED[task].items():
        first, second = (
            [judged(*pair) for pair in zip(evaluation.examples, evaluation.said, strict=True)]
            for evaluation in (base, other)
        )
        comparisons.append(compare_means(name, first, second))
    return comparisons
