"""Sampling: the distribution, top-k, top-p, temperature, and independence of the batch."""

import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.mock_stepper import SYMBOLS, MockStepper

from regard.decoding.constraints import Rules
from regard.decoding.rollout import greedy_search
from regard.decoding.sampling import Sampler, invert_cdf, keep_top_k, keep_top_p, sample, uniform_samples

PROPERTY = settings(max_examples=40)


def test_samples_follow_the_models_distribution() -> None:
    model, draws = MockStepper(6, seed=3), 4000
    actual = sample(model, [0], torch.tensor([1]), Rules(SYMBOLS), sampler=Sampler(seed=5), samples=draws)[0]
    counts = Counter(hypothesis.tokens[0] if hypothesis.tokens else SYMBOLS.eos for hypothesis in actual)
    allowed = [1, 3, 4, 5]
    weights = {token: math.exp(model.logits(0, (SYMBOLS.bos,))[token]) for token in allowed}
    chi_square = 0.0
    for token in allowed:
        expected = draws * weights[token] / sum(weights.values())
        chi_square += (counts[token] - expected) ** 2 / expected
    assert set(counts) <= set(allowed)
    assert chi_square < 16.27  # 3 degrees of freedom: exceeded by chance once in a thousand seeds


@PROPERTY
@given(seed=st.integers(0, 10_000))
def test_samples_are_sorted_with_correct_scores(seed: int) -> None:
    model = MockStepper(7, seed, eos_bonus=1.0)
    for sentence, actual in enumerate(
        sample(model, [0, 1], torch.tensor([9, 5]), Rules(SYMBOLS), sampler=Sampler(temperature=1.5), samples=5)
    ):
        scores = [hypothesis.score for hypothesis in actual]
        assert len(scores) == 5
        assert scores == sorted(scores, reverse=True)
        for hypothesis in actual:
            text = (*hypothesis.tokens, *([SYMBOLS.eos] if hypothesis.finished else []))
            assert hypothesis.log_prob == pytest.approx(model.log_prob(sentence, text), abs=1e-4)
            assert hypothesis.score == pytest.approx(hypothesis.log_prob / ((5 + len(text)) / 6) ** 0.6, abs=1e-4)


def test_temperature_sharpens_towards_greedy() -> None:
    model, max_new_tokens = MockStepper(9), torch.tensor([7, 7])
    cold = sample(model, [0, 1], max_new_tokens, Rules(SYMBOLS), sampler=Sampler(temperature=1e-4), samples=3)
    greedy = greedy_search(model, [0, 1], max_new_tokens, Rules(SYMBOLS))
    for drawn, best in zip(cold, greedy, strict=True):
        assert {tuple(hypothesis.tokens) for hypothesis in drawn} == {tuple(best[0].tokens)}
    assert [
        hypotheses[0].tokens
        for hypotheses in sample(model, [0, 1], max_new_tokens, Rules(SYMBOLS), sampler=Sampler(top_k=1))
    ] == [hypotheses[0].tokens for hypotheses in greedy]


@PROPERTY
@given(seed=st.integers(0, 10_000))
def test_samples_do_not_depend_on_the_batch(seed: int) -> None:
    model, rules, sampler = MockStepper(9, eos_bonus=-1.0), Rules(SYMBOLS), Sampler(top_p=0.95, seed=seed)
    max_new_tokens = torch.tensor([3, 12, 7])
    together = sample(model, [0, 1, 2], max_new_tokens, rules, sampler=sampler, samples=3, sentence_ids=[10, 11, 12])
    for index in (2, 0, 1):
        one = max_new_tokens[index : index + 1]
        alone = sample(model, [index], one, rules, sampler=sampler, samples=3, sentence_ids=[10 + index])
        assert alone[0] == together[index]


def test_random_numbers_depend_on_seed_and_sentence() -> None:
    first = uniform_samples(1, 0, 3, 20)
    assert torch.equal(first, uniform_samples(1, 0, 3, 20))
    assert torch.equal(first, uniform_samples(1, 0, 3, 50)[:, :20])
    assert not torch.equal(first, uniform_samples(2, 0, 3, 20))
    assert not torch.equal(first, uniform_samples(1, 1, 3, 20))
    assert first.shape == (3, 20)
    assert first.min() >= 0
    assert first.max() < 1


def test_a_sentence_is_sampled_with_its_own_random_numbers() -> None:
    model, ids = MockStepper(9, seed=2, eos_bonus=-1e9), [3, 8]
    drawn = sample(
        model, [0, 1], torch.tensor([1, 1]), Rules(SYMBOLS), sampler=Sampler(seed=5), samples=6, sentence_ids=ids
    )
    for sentence, (number, hypotheses) in enumerate(zip(ids, drawn, strict=True)):
        logits = torch.tensor(model.logits(sentence, (SYMBOLS.bos,)))
        logits[SYMBOLS.never_produced] = -math.inf
        uniform = uniform_samples(5, number, 6, 1)[:, 0]
        expected = invert_cdf(logits.log_softmax(-1).expand(6, -1).contiguous(), uniform)
        assert sorted(h.tokens[0] for h in hypotheses) == sorted(expected.tolist())


def test_top_k_and_top_p() -> None:
    log_probs = torch.tensor([0.1, 0.4, 0.2, 0.3]).log()
    assert keep_top_k(log_probs, 2).isfinite().tolist() == [False, True, False, True]
    assert keep_top_k(log_probs, 9).isfinite().all()
    assert keep_top_p(log_probs, 0.39).isfinite().tolist() == [False, True, False, False]
    assert keep_top_p(log_probs, 0.5).isfinite().tolist() == [False, True, False, True]
    assert keep_top_p(log_probs, 0.85).isfinite().tolist() == [False, True, True, True]


@PROPERTY
@given(seed=st.integers(0, 10_000), p=st.floats(0.01, 1.0))
def test_the_nucleus_is_the_smallest_set_with_probability_p(seed: int, p: float) -> None:
    probabilities = torch.randn(12, generator=torch.Generator().manual_seed(seed)).softmax(-1)
    kept = sorted(probabilities[keep_top_p(probabilities.log(), p).isfinite()].tolist())
    assert sum(kept) >= p - 1e-5
    assert sum(kept[1:]) < p + 1e-5
    assert kept == sorted(probabilities.tolist())[-len(kept) :]


def test_samples_are_among_the_top_k_tokens() -> None:
    model = MockStepper(12, eos_bonus=-1e9)
    for actual in sample(model, [0, 1], torch.tensor([6, 6]), Rules(SYMBOLS), sampler=Sampler(top_k=3), samples=20):
        for hypothesis in actual:
            sentence = (
                0 if math.isclose(model.log_prob(0, tuple(hypothesis.tokens)), hypothesis.log_prob, abs_tol=1e-3) else 1
            )
            for index, token in enumerate(hypothesis.tokens):
                logits = model.logits(sentence, (SYMBOLS.bos, *hypothesis.tokens[:index]))
                assert sorted(range(3, 12), key=logits.__getitem__).index(token) >= 6


def test_tokens_with_probability_zero_are_never_sampled() -> None:
    log_probs = torch.tensor([-math.inf, math.log(0.25), -math.inf, math.log(0.75), -math.inf])
    uniform = torch.tensor([0.0, 0.2499, 0.2501, 0.75, 1.0 - 2**-24, 1.0])
    assert invert_cdf(log_probs.expand(6, 5).contiguous(), uniform).tolist() == [1, 1, 3, 3, 3, 3]


def test_sentence_ids_must_match_the_sentences() -> None:
    with pytest.raises(ValueError, match="1 sentence_ids for 2"):
        sample(MockStepper(8), [0, 1], torch.tensor([3, 3]), Rules(SYMBOLS), sampler=Sampler(), sentence_ids=[4])
    empty = torch.zeros(0, dtype=torch.long)
    assert sample(MockStepper(8), [], empty, Rules(SYMBOLS), sampler=Sampler()) == []
    assert greedy_search(MockStepper(8), [], empty, Rules(SYMBOLS)) == []
