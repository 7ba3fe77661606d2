"""ROUGE-1, ROUGE-2 and ROUGE-L: an independent implementation, published examples, and properties."""

import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.tiny import write_recipe

from regard.metrics.summaries import common_subsequence, rouge, rouge_scores
from regard.run.model import Model
from regard.run.train import train
from regard.tasks.registry import load_recipe

PUBLISHED = [
    # computed with the package rouge-score 0.1.2; the last one is the example of its README
    ("testing one two", "testing", (0.5, 0.0, 0.5)),
    ("", "testing one two", (0.0, 0.0, 0.0)),
    ("the jumping fox jumps over the lazy dog", "The quick brown dog jumps on the log.", (0.5, 0.0, 0.375)),
    ("The quick brown fox jumps over the lazy dog", "The quick brown dog jumps on the log.",
     (0.7058823529411765, 0.26666666666666666, 0.5882352941176471)),
]  # fmt: skip


@pytest.mark.parametrize(("summary", "reference", "expected"), PUBLISHED)
def test_published_examples(summary: str, reference: str, expected: tuple[float, float, float]) -> None:
    assert tuple(rouge_scores(summary, reference).values()) == pytest.approx(expected)


def by_definition(a: list[str], b: list[str], n: int) -> float:
    """F of n-grams (n > 0) or of the longest common subsequence (n = 0), written as Lin 2004 defines them."""

    @cache
    def longest(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return 0
        return longest(i - 1, j - 1) + 1 if a[i - 1] == b[j - 1] else max(longest(i - 1, j), longest(i, j - 1))

    if n == 0:
        shared, ours, theirs = longest(len(a), len(b)), len(a), len(b)
    else:
        left, right = ([tuple(x[i : i + n]) for i in range(len(x) - n + 1)] for x in (a, b))
        rest, shared = list(right), 0
        for gram in left:
            if gram in rest:
                rest.remove(gram)
                shared += 1
        ours, theirs = len(left), len(right)
    precision, recall = shared / max(ours, 1), shared / max(theirs, 1)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def test_random_texts_score_as_the_definition_says() -> None:
    rng = random.Random(5)
    for _ in range(200):
        a, b = ([rng.choice("abcd") for _ in range(rng.randint(0, 9))] for _ in range(2))
        found = rouge_scores(" ".join(a), " ".join(b))
        assert list(found.values()) == pytest.approx([by_definition(a, b, n) for n in (1, 2, 0)])
        assert found == pytest.approx(rouge_scores(" ".join(b), " ".join(a))), "F is symmetric"
        assert common_subsequence(a, a) == len(a)


def test_words_are_lowercase_runs_of_letters_and_digits_or_single_ideographs() -> None:
    assert rouge_scores("Don't stop_it, 3rd!", "don t stop it 3RD")["rouge_2"] == 1
    assert rouge_scores("café crème", "CAFÉ creme")["rouge_1"] == 0.5
    assert rouge_scores("猫在睡觉", "猫在跑")["rouge_1"] == pytest.approx(2 * 2 / 7)
    assert rouge(["a b", "c"], ["a b", "d"], "rouge_1").value == 50


def test_a_model_is_chosen_evaluated_and_compared_by_rouge(tmp_path: Path) -> None:
    settings = {"training.monitor": "rouge_l", "training.max_steps": 30, "training.validate_every": 15}
    run = train(load_recipe(write_recipe(tmp_path, "translation", settings=settings)), tmp_path / "run").run
    model = Model.load(run.folder)
    evaluation = model.evaluate("test")
    scores = {score.name: score.value for score in evaluation.scores}
    pairs = [(p["translation"], e["tgt"]) for p, e in zip(evaluation.predictions, evaluation.examples, strict=True)]
    for number, name in enumerate(("ROUGE-1", "ROUGE-2", "ROUGE-L")):
        values = [list(rouge_scores(*pair).values())[number] for pair in pairs]
        assert scores[name] == pytest.approx(100 * sum(values) / len(values))
    resampled = run.task.scorer(evaluation.examples, evaluation.predictions)
    weights = np.ones(len(pairs), dtype=np.int64)
    assert resampled(weights)["ROUGE-L"].value == pytest.approx(scores["ROUGE-L"])
