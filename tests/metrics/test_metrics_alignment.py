"""Measures of attention against loops, bounds and cases worked out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.metrics.alignment import (
    AlignmentScore,
    agreement,
    argmax_links,
    coverage,
    coverage_error,
    covered,
    entropy,
    pharaoh,
    pool_words,
    relative_entropy,
    score_links,
)

MODEST = settings(max_examples=40)
SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6))
Links = frozenset[tuple[int, int]]
LINKS = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12)


def distribution(*shape: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).gamma(0.4, size=shape) + 1e-12
    return rows / rows.sum(axis=-1, keepdims=True)


@MODEST
@given(SHAPES, st.integers(0, 99))
def test_entropy_and_coverage_equal_their_loops(shape: tuple[int, int, int], seed: int) -> None:
    weights = distribution(*shape, seed=seed)
    H, T, S = shape
    for h in range(H):
        for t in range(T):
            by_hand = -sum(weights[h, t, s] * math.log(weights[h, t, s]) for s in range(S))
            assert entropy(weights)[h, t] == pytest.approx(by_hand, abs=1e-12)
        totals = [sum(weights[h, t, s] for t in range(T)) for s in range(S)]
        assert coverage(weights)[h] == pytest.approx(totals)
        assert covered(weights)[h] == pytest.approx(sum(c >= 0.5 for c in totals) / S)
        assert coverage_error(weights)[h] == pytest.approx(sum(abs(1 - c) for c in totals) / S)


@MODEST
@given(SHAPES, st.integers(0, 99))
def test_entropy_lies_between_one_word_and_all_alike(shape: tuple[int, int, int], seed: int) -> None:
    weights = distribution(*shape, seed=seed)
    assert (entropy(weights) >= 0).all() and (relative_entropy(weights) <= 1 + 1e-12).all()
    assert entropy(np.eye(4)) == pytest.approx(np.zeros(4))
    assert entropy(np.full((3, 8), 1 / 8)) == pytest.approx(np.full(3, math.log(8)))
    assert relative_entropy(np.full((3, 8), 1 / 8)) == pytest.approx(np.ones(3))
    assert relative_entropy(np.ones((3, 1))) == pytest.approx(np.zeros(3))


def test_rows_that_do_not_sum_to_one_have_the_entropy_of_their_shape() -> None:
    assert entropy([[0.2, 0.2], [0.0, 0.0]]) == pytest.approx([math.log(2), 0.0])


@MODEST
@given(SHAPES, st.integers(0, 99))
def test_agreement_equals_its_loop_and_is_a_share(shape: tuple[int, int, int], seed: int) -> None:
    weights = distribution(*shape, seed=seed)
    H, T, S = shape
    shared = [
        sum(min(weights[g, t, s], weights[h, t, s]) for s in range(S))
        for g in range(H)
        for h in range(g + 1, H)
        for t in range(T)
    ]
    assert agreement(weights) == pytest.approx(sum(shared) / len(shared) if shared else 1.0)
    assert agreement(np.stack([weights[0]] * 3)) == pytest.approx(1.0)


def test_heads_that_never_meet_do_not_agree() -> None:
    assert agreement([[[1.0, 0.0]], [[0.0, 1.0]]]) == 0.0


def test_pooling_adds_columns_and_averages_rows() -> None:
    weights = distribution(2, 4, 5, seed=3)
    words = pool_words(weights, [[0], [1, 2]], [[0, 1], [2], [3]])
    assert words.shape == (2, 2, 3)
    assert words[1, 1, 0] == pytest.approx((weights[1, 1, :2].sum() + weights[1, 2, :2].sum()) / 2)
    assert words[0, 0, 2] == pytest.approx(weights[0, 0, 3])
    everything = pool_words(weights, [[0], [1], [2], [3]], [[0, 1, 2, 3, 4]])
    assert everything == pytest.approx(np.ones((2, 4, 1)))


def test_links_by_hand() -> None:
    weights = [[0.7, 0.2, 0.1], [0.1, 0.4, 0.5], [0.0, 0.0, 0.0]]
    assert argmax_links(weights) == {(0, 0), (2, 1)}
    assert argmax_links(weights, least=0.6) == {(0, 0)}
    assert pharaoh({(2, 1), (0, 0), (1, 1)}) == "0-0 1-1 2-1"
    assert pharaoh([]) == ""


def test_scores_by_hand() -> None:
    # Two sentences: 4 links found, 3 of them possible, 2 of the 3 sure ones among them.
    score = score_links(
        [{(0, 0), (1, 2), (3, 3)}, {(0, 1)}],
        [{(0, 0), (1, 1)}, {(0, 1)}],
        [{(0, 0), (1, 1), (1, 2)}, {(0, 1)}],
    )
    assert score == AlignmentScore(predicted=4, sure=3, predicted_sure=2, predicted_possible=3)
    assert score.precision == pytest.approx(3 / 4) and score.recall == pytest.approx(2 / 3)
    assert score.f1 == pytest.approx(2 * (3 / 4) * (2 / 3) / (3 / 4 + 2 / 3))
    assert score.aer == pytest.approx(1 - (2 + 3) / (4 + 3))


@MODEST
@given(st.lists(st.tuples(LINKS, LINKS, LINKS), min_size=1, max_size=4))
def test_scores_equal_counting_link_by_link(
    sentences: list[tuple[Links, Links, Links]],
) -> None:
    found, sure, possible = zip(*sentences, strict=True)
    score = score_links(found, sure, possible)
    every = [(i, j) for i in range(5) for j in range(5)]
    a_s = sum(link in a and link in s for a, s, _ in sentences for link in every)
    a_p = sum(link in a and (link in p or link in s) for a, s, p in sentences for link in every)
    a, s = sum(len(each) for each in found), sum(len(each) for each in sure)
    assert (score.predicted_sure, score.predicted_possible, score.predicted, score.sure) == (a_s, a_p, a, s)
    assert 0 <= score.aer <= 1 and 0 <= score.f1 <= 1
    assert score.aer == pytest.approx(1 - (a_s + a_p) / (a + s) if a + s else 0.0)


@MODEST
@given(LINKS, LINKS)
def test_any_alignment_between_sure_and_possible_is_without_error(sure: Links, more: Links) -> None:
    possible = sure | more
    assert score_links([sure], [sure], [possible]).aer == score_links([possible], [sure], [possible]).aer == 0.0


def test_without_possible_links_the_error_rate_is_one_minus_f1() -> None:
    gold = {(0, 0), (1, 1), (2, 2)}
    score = score_links([{(0, 0), (1, 2)}], [gold], [gold])
    assert score.aer == pytest.approx(1 - score.f1)
