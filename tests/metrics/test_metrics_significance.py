"""The bootstrap gives sacreBLEU's scores on the same draws, and a p value that is right when nothing differs."""

import random

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from regard.metrics.significance import Comparison, p_value, paired_bootstrap, resampling_weights, translation_scorer
from regard.metrics.translation import bleu, bleu_metric, chrf, chrf_metric

WORDS = ["the", "a", "cat", "dog", "house", "tree", "walks", "sits", "on", "near", "of", "big", "red", "and", "never"]


def corpus(sentences: int, noise: float, seed: int) -> list[str]:
    """Equal sentences for every noise, with that share of their words replaced."""
    words, errors = random.Random(7), random.Random(seed)
    lines = []
    for _ in range(sentences):
        line = [words.choice(WORDS) for _ in range(words.randint(4, 15))]
        lines.append(" ".join(errors.choice(WORDS) if errors.random() < noise else word for word in line))
    return lines


def compare(base: list[str], other: list[str], references: list[str], **options: int) -> dict[str, Comparison]:
    metrics = {"bleu": ("BLEU", bleu_metric()), "chrf": ("chrF", chrf_metric())}
    first, second = (translation_scorer(hypotheses, references, metrics) for hypotheses in (base, other))
    return paired_bootstrap(first, second, len(references), **options)


REFERENCES = corpus(200, 0.0, 0)
BASE = corpus(200, 0.4, 1)
BETTER = corpus(200, 0.25, 2)
EQUAL = corpus(200, 0.4, 10)


def test_scores_are_those_of_the_metrics() -> None:
    comparison = compare(BASE, BETTER, REFERENCES, resamples=10)
    assert comparison["bleu"].base == pytest.approx(bleu(BASE, REFERENCES).value)
    assert comparison["bleu"].other == pytest.approx(bleu(BETTER, REFERENCES).value)
    assert comparison["chrf"].base == pytest.approx(chrf(BASE, REFERENCES).value)
    assert comparison["chrf"].delta == pytest.approx(chrf(BETTER, REFERENCES).value - chrf(BASE, REFERENCES).value)
    assert "tok:13a" in comparison["bleu"].signature
    assert comparison["bleu"].signature.endswith("bs:10")


def test_resamples_equal_scoring_each_drawn_corpus_whole() -> None:
    drawn = np.random.default_rng(5).choice(200, size=(12, 200), replace=True)
    deltas = []
    for rows in drawn:
        base, other, references = ([lines[row] for row in rows] for lines in (BASE, BETTER, REFERENCES))
        scores = [sacrebleu.corpus_bleu(system, [references]).score for system in (base, other)]
        deltas.append(scores[1] - scores[0])
    found = compare(BASE, BETTER, REFERENCES, resamples=12, seed=5)["bleu"]
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(np.percentile(deltas, [2.5, 97.5])))
    centred = np.abs(np.array(deltas) - np.mean(deltas))
    assert found.p_value == (1 + sum(centred >= abs(found.delta))) / 13


def test_verdicts_agree_with_sacrebleus_paired_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "12345")
    for other, different in ((BETTER, True), (EQUAL, False)):
        metrics = {"bleu": BLEU(), "chrf": CHRF()}
        test = PairedTest([("base", BASE), ("other", other)], metrics, [REFERENCES], "bs", n_samples=300)
        _, theirs = test()
        ours = compare(BASE, other, REFERENCES, resamples=300)
        for key, name in (("bleu", "BLEU"), ("chrf", "chrF2")):
            result = next(column for title, column in theirs.items() if title in (key, name))[1]
            assert ours[key].other == pytest.approx(result.score)
            assert (ours[key].p_value < 0.05) == (result.p_value < 0.05) == different
            assert (ours[key].ci_low > 0) == different


def test_identical_systems_do_not_differ() -> None:
    for comparison in compare(BASE, BASE, REFERENCES, resamples=50).values():
        assert comparison.delta == comparison.ci_low == comparison.ci_high == 0.0
        assert comparison.p_value == 1.0


def test_swapping_the_systems_turns_the_sign_alone() -> None:
    forward, back = compare(BASE, BETTER, REFERENCES, resamples=50), compare(BETTER, BASE, REFERENCES, resamples=50)
    for key in forward:
        assert forward[key].delta == -back[key].delta
        assert forward[key].p_value == back[key].p_value
        assert forward[key].ci_low == pytest.approx(-back[key].ci_high)


def test_the_seed_decides_the_draws() -> None:
    first = compare(BASE, EQUAL, REFERENCES, resamples=50, seed=1)
    assert first == compare(BASE, EQUAL, REFERENCES, resamples=50, seed=1)
    assert first != compare(BASE, EQUAL, REFERENCES, resamples=50, seed=2)


def test_a_resample_is_as_large_as_the_test_set() -> None:
    weights = np.stack(list(resampling_weights(30, 20, 0)))
    assert weights.shape == (20, 30)
    assert (weights.sum(axis=1) == 30).all()


def test_p_value_by_hand() -> None:
    # Centred: -3, -1, 1, 3; two are as large as 2, in either direction.
    assert p_value(np.array([-1.0, 1.0, 3.0, 5.0]), 2.0) == 3 / 5
    assert p_value(np.array([-1.0, 1.0, 3.0, 5.0]), -3.5) == 1 / 5


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="hypotheses for"):
        compare(BASE, BETTER[:-1], REFERENCES)
    with pytest.raises(ValueError, match="0 resamples"):
        compare(BASE, BETTER, REFERENCES, resamples=0)
