"""Edit distances equal an independent recursion; error rates are edits by length."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.recognition import edit_distance, error_rates, error_scorer

TEXT = st.text("ab c", max_size=8)


def slow_distance(a: str, b: str) -> int:
    """The definition: the last characters are equal, or one of three edits comes last."""

    @cache
    def distance(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        if a[i - 1] == b[j - 1]:
            return distance(i - 1, j - 1)
        return 1 + min(distance(i - 1, j - 1), distance(i - 1, j), distance(i, j - 1))

    return distance(len(a), len(b))


@given(TEXT, TEXT)
def test_the_distance_equals_an_independent_one(a: str, b: str) -> None:
    assert edit_distance(a, b) == edit_distance(b, a) == slow_distance(a, b)


def test_error_rates_are_over_all_texts_together() -> None:
    scores = error_rates(["one two", "a b c", ""], ["one", "a x c", "one two"])
    assert scores["wer"].value == pytest.approx(100 * (1 + 1 + 2) / 6)
    assert scores["cer"].value == pytest.approx(100 * (4 + 1 + 7) / (3 + 5 + 7))
    assert error_rates(["one  two "], ["one two"])["cer"].value == 0


def test_the_scorer_weights_texts() -> None:
    scorer = error_scorer(["a", "b b"], ["a", "b"])
    import numpy as np

    assert scorer(np.array([3, 1]))["wer"].value == pytest.approx(25)
