"""Classes and numbers, against counting by the definitions, example by example."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.metrics.classification import (
    Counts,
    accuracy,
    binary_scores,
    counts_by_class,
    macro_scores,
    matthews,
    mean_ranks,
    pearson,
    spearman,
)

MODEST = settings(max_examples=60)
PAIRS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), min_size=1, max_size=20)
NUMBERS = st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=2, max_size=15)
NAMES = ("precision", "recall", "f1")


def by_definition(pairs: list[tuple[str, str]], label: str) -> tuple[float, float, float]:
    right = sum(1 for a, b in pairs if a == label and b == label)
    false_alarms = sum(1 for a, b in pairs if a == label and b != label)
    missed = sum(1 for a, b in pairs if a != label and b == label)
    p = right / (right + false_alarms) if right + false_alarms else 0.0
    r = right / (right + missed) if right + missed else 0.0
    return p, r, (2 * p * r / (p + r) if p + r else 0.0)


@MODEST
@given(PAIRS)
def test_precision_recall_and_f1_equal_their_definitions(pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = [a for a, _ in pairs], [b for _, b in pairs]
    classes = sorted(set(hypotheses) | set(references))
    assert accuracy(hypotheses, references).value == pytest.approx(100 * np.mean([a == b for a, b in pairs]))
    for label in "abcd":
        found = binary_scores(hypotheses, references, positive=label)
        assert [found[name].value / 100 for name in NAMES] == pytest.approx(by_definition(pairs, label))
    macro = macro_scores(hypotheses, references)
    means = np.mean([by_definition(pairs, label) for label in classes], axis=0)
    assert [macro[name].value / 100 for name in NAMES] == pytest.approx(means.tolist())


@MODEST
@given(PAIRS)
def test_chosen_classes_alone_count(pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = [a for a, _ in pairs], [b for _, b in pairs]
    macro = macro_scores(hypotheses, references, classes="bcd")
    assert macro["f1"].value == pytest.approx(100 * np.mean([by_definition(pairs, label)[2] for label in "bcd"]))


def test_by_hand() -> None:
    # Of 3 said to be 1, 2 are; of 4 that are, 2 were found.
    found = binary_scores([1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 1, 0])
    assert found["precision"].value == pytest.approx(100 * 2 / 3) and found["recall"].value == pytest.approx(50)
    assert found["f1"].value == pytest.approx(100 * 4 / 7)
    assert str(found["f1"]) == "F1|of class 1, 6 examples = 57.14"
    # tp = 2, fp = 1, fn = 2, tn = 1
    assert matthews([1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 1, 0]).value == pytest.approx(0.0)
    assert counts_by_class("ab", "bb") == {"b": Counts(1, 1, 2), "a": Counts(0, 1, 0)}


@MODEST
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=20))
def test_matthews_of_two_classes_is_its_first_equation_and_pearson(pairs: list[tuple[bool, bool]]) -> None:
    tp, fp, fn, tn = (pairs.count(cell) for cell in ((True, True), (True, False), (False, True), (False, False)))
    below = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    hypotheses, references = [a for a, _ in pairs], [b for _, b in pairs]
    value = matthews(hypotheses, references).value
    assert value == pytest.approx(100 * (tp * tn - fp * fn) / below if below else 0.0, abs=1e-9)
    assert value == pytest.approx(pearson(hypotheses, references).value, abs=1e-9)


@MODEST
@given(PAIRS)
def test_matthews_of_more_classes_is_the_correlation_of_indicators(pairs: list[tuple[str, str]]) -> None:
    X = np.array([[a == label for label in "abcd"] for a, _ in pairs], dtype=np.float64)
    Y = np.array([[b == label for label in "abcd"] for _, b in pairs], dtype=np.float64)

    def covariance(A: np.ndarray, B: np.ndarray) -> float:
        return float(((A - A.mean(axis=0)) * (B - B.mean(axis=0))).sum())

    below = math.sqrt(covariance(X, X) * covariance(Y, Y))
    expected = covariance(X, Y) / below if below > 1e-9 else 0.0
    value = matthews([a for a, _ in pairs], [b for _, b in pairs]).value
    assert value == pytest.approx(100 * expected, abs=1e-7)


@MODEST
@given(NUMBERS)
def test_correlations_equal_numpy_and_counted_ranks(pairs: list[tuple[int, int]]) -> None:
    x, y = [a for a, _ in pairs], [b for _, b in pairs]

    def ranks(values: list[int]) -> list[float]:
        return [sum(v < value for v in values) + (values.count(value) + 1) / 2 for value in values]

    assert mean_ranks(x).tolist() == ranks(x)
    for value, a, b in ((pearson(x, y).value, x, y), (spearman(x, y).value, ranks(x), ranks(y))):
        constant = len(set(a)) == 1 or len(set(b)) == 1
        assert value == pytest.approx(0.0 if constant else 100 * np.corrcoef(a, b)[0, 1], abs=1e-7)


def test_correlations_know_lines_and_curves_at_any_scale() -> None:
    x = [1.0, 2.0, 3.0, 4.0]
    assert pearson(x, [2 * v + 1 for v in x]).value == pytest.approx(100)
    assert spearman(x, [v**9 for v in x]).value == pytest.approx(100)
    assert pearson(x, [v**9 for v in x]).value < 95
    assert spearman(x, [-math.exp(v) for v in x]).value == pytest.approx(-100)
    for scale, other in product((1e-200, 1e150), repeat=2):
        assert pearson([scale * v for v in x], [other * v for v in x]).value == pytest.approx(100)


def test_macro_f1_is_the_mean_of_f1() -> None:
    hypotheses, references = "aaab", "abbb"
    macro = macro_scores(hypotheses, references)
    assert macro["f1"].value == pytest.approx(100 * (1 / 2 + 1 / 2) / 2)
    assert macro["precision"].value == pytest.approx(100 * (1 / 3 + 1) / 2)


def test_lists_that_do_not_belong_together_are_refused() -> None:
    for metric in (accuracy, binary_scores, macro_scores, matthews, pearson, spearman):
        with pytest.raises(ValueError, match="1 hypotheses for 2 references"):
            metric([1], [1, 0])
        with pytest.raises(ValueError, match="nothing to score"):
            metric([], [])
    with pytest.raises(ValueError, match="no classes"):
        macro_scores([1], [1], classes=[])
