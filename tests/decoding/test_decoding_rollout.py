"""Greedy search is an argmax loop; samples follow the model's distribution and depend on seed and sentence alone."""

import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.mock_stepper import SYMBOLS, MockState, MockStepper

from regard.decoding.beam import beam_search
from regard.decoding.constraints import Rules
from regard.decoding.ensemble import Ensemble
from regard.decoding.rollout import greedy_search
from regard.decoding.sampling import Sampler, invert_cdf, keep_top_k, keep_top_p, sample, uniform_samples

NUMBERS = settings(deadline=None, max_examples=40, derandomize=True, database=None)


@NUMBERS
@given(seed=st.integers(0, 10_000), eos_bonus=st.sampled_from([-2.0, 1.0]))
def test_greedy_is_an_argmax_loop(seed: int, eos_bonus: float) -> None:
    model, max_new_tokens = MockStepper(8, seed, eos_bonus), [6, 2, 9]
    found = greedy_search(model, [0, 1, 2], torch.tensor(max_new_tokens), Rules(SYMBOLS, alpha=0.6))
    for sentence, limit in enumerate(max_new_tokens):
        text: list[int] = []
        while len(text) < limit and SYMBOLS.eos not in text:
            logits = model.logits(sentence, (SYMBOLS.bos, *text))
            allowed = [token for token in range(8) if token not in (SYMBOLS.bos, SYMBOLS.pad)]
            text.append(max(allowed, key=logits.__getitem__))
        (hypothesis,) = found[sentence]
        assert hypothesis.tokens == [token for token in text if token != SYMBOLS.eos]
        assert hypothesis.finished == (SYMBOLS.eos in text)
        assert hypothesis.log_prob == pytest.approx(model.log_prob(sentence, tuple(text)), abs=1e-4)
        assert hypothesis.score == pytest.approx(hypothesis.log_prob / ((5 + len(text)) / 6) ** 0.6, abs=1e-4)


def test_greedy_and_samples_continue_forced_prefixes() -> None:
    model, max_new_tokens, prefixes = MockStepper(9), torch.tensor([4, 4]), [[5, 6, 7], [3]]
    for found in (
        greedy_search(model, [0, 1], max_new_tokens, Rules(SYMBOLS), prefixes=prefixes),
        sample(model, [0, 1], max_new_tokens, Rules(SYMBOLS), sampler=Sampler(), samples=3, prefixes=prefixes),
    ):
        for prefix, hypotheses in zip(prefixes, found, strict=True):
            for hypothesis in hypotheses:
                assert hypothesis.tokens[: len(prefix)] == prefix
                assert len(hypothesis.tokens) <= len(prefix) + 4


def test_samples_follow_the_models_distribution() -> None:
    model, draws = MockStepper(6, seed=3), 4000
    found = sample(model, [0], torch.tensor([1]), Rules(SYMBOLS), sampler=Sampler(seed=5), samples=draws)[0]
    counts = Counter(hypothesis.tokens[0] if hypothesis.tokens else SYMBOLS.eos for hypothesis in found)
    allowed = [1, 3, 4, 5]
    weights = {token: math.exp(model.logits(0, (SYMBOLS.bos,))[token]) for token in allowed}
    chi_square = 0.0
    for token in allowed:
        expected = draws * weights[token] / sum(weights.values())
        chi_square += (counts[token] - expected) ** 2 / expected
    assert set(counts) <= set(allowed)
    assert chi_square < 16.27  # 3 degrees of freedom: exceeded by chance once in a thousand seeds


@NUMBERS
@given(seed=st.integers(0, 10_000))
def test_samples_are_sorted_and_honest_about_their_numbers(seed: int) -> None:
    model = MockStepper(7, seed, eos_bonus=1.0)
    for sentence, found in enumerate(
        sample(model, [0, 1], torch.tensor([9, 5]), Rules(SYMBOLS), sampler=Sampler(temperature=1.5), samples=5)
    ):
        scores = [hypothesis.score for hypothesis in found]
        assert len(scores) == 5
        assert scores == sorted(scores, reverse=True)
        for hypothesis in found:
            text = (*hypothesis.tokens, *([SYMBOLS.eos] if hypothesis.finished else []))
            assert hypothesis.log_prob == pytest.approx(model.log_prob(sentence, text), abs=1e-4)
            assert hypothesis.score == pytest.approx(hypothesis.log_prob / ((5 + len(text)) / 6) ** 0.6, abs=1e-4)


class Halting:
    """Half of the texts end at once, and what comes after an end is endless ends; the others count 4, 5, 6, ..."""

    def start(self, source: list[int]) -> MockState:
        return MockStepper(60).start(source)

    def step(self, tokens: torch.Tensor, state: MockState) -> tuple[torch.Tensor, MockState]:
        following = torch.where(tokens == SYMBOLS.eos, SYMBOLS.eos, tokens + 1).clamp(max=59)
        likely = torch.nn.functional.one_hot(following, 60)
        opening = torch.nn.functional.one_hot(torch.tensor([SYMBOLS.eos, 4]), 60).sum(dim=0)
        return 40.0 * torch.where((tokens == SYMBOLS.bos)[..., None], opening, likely).float(), state


def test_what_stands_after_an_end_does_not_count() -> None:
    (found,) = sample(Halting(), [0], torch.tensor([40]), Rules(SYMBOLS), sampler=Sampler(), samples=12)
    assert {(len(hypothesis.tokens), hypothesis.finished) for hypothesis in found} == {(0, True), (40, False)}
    assert not any(hypothesis.looped for hypothesis in found)


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


@NUMBERS
@given(seed=st.integers(0, 10_000))
def test_a_sentence_gets_the_same_samples_in_any_batch(seed: int) -> None:
    model, rules, sampler = MockStepper(9, eos_bonus=-1.0), Rules(SYMBOLS), Sampler(top_p=0.95, seed=seed)
    max_new_tokens = torch.tensor([3, 12, 7])
    together = sample(model, [0, 1, 2], max_new_tokens, rules, sampler=sampler, samples=3, sentence_ids=[10, 11, 12])
    for place in (2, 0, 1):
        one = max_new_tokens[place : place + 1]
        alone = sample(model, [place], one, rules, sampler=sampler, samples=3, sentence_ids=[10 + place])
        assert alone[0] == together[place]


def test_seed_and_number_decide_the_draws() -> None:
    first = uniform_samples(1, 0, 3, 20)
    assert torch.equal(first, uniform_samples(1, 0, 3, 20))
    assert torch.equal(first, uniform_samples(1, 0, 3, 50)[:, :20])
    assert not torch.equal(first, uniform_samples(2, 0, 3, 20))
    assert not torch.equal(first, uniform_samples(1, 1, 3, 20))
    assert first.shape == (3, 20)
    assert first.min() >= 0
    assert first.max() < 1


def test_top_k_and_top_p_keep_what_they_say() -> None:
    log_probs = torch.tensor([0.1, 0.4, 0.2, 0.3]).log()
    assert keep_top_k(log_probs, 2).isfinite().tolist() == [False, True, False, True]
    assert keep_top_k(log_probs, 9).isfinite().all()
    assert keep_top_p(log_probs, 0.39).isfinite().tolist() == [False, True, False, False]
    assert keep_top_p(log_probs, 0.5).isfinite().tolist() == [False, True, False, True]
    assert keep_top_p(log_probs, 0.85).isfinite().tolist() == [False, True, True, True]


@NUMBERS
@given(seed=st.integers(0, 10_000), p=st.floats(0.01, 1.0))
def test_the_nucleus_is_the_smallest_set_that_holds_the_mass(seed: int, p: float) -> None:
    probabilities = torch.randn(12, generator=torch.Generator().manual_seed(seed)).softmax(-1)
    kept = sorted(probabilities[keep_top_p(probabilities.log(), p).isfinite()].tolist())
    assert sum(kept) >= p - 1e-5
    assert sum(kept[1:]) < p + 1e-5
    assert kept == sorted(probabilities.tolist())[-len(kept) :]


def test_samples_stay_within_the_likeliest_tokens() -> None:
    model = MockStepper(12, eos_bonus=-1e9)
    for found in sample(model, [0, 1], torch.tensor([6, 6]), Rules(SYMBOLS), sampler=Sampler(top_k=3), samples=20):
        for hypothesis in found:
            sentence = (
                0 if math.isclose(model.log_prob(0, tuple(hypothesis.tokens)), hypothesis.log_prob, abs_tol=1e-3) else 1
            )
            for place, token in enumerate(hypothesis.tokens):
                logits = model.logits(sentence, (SYMBOLS.bos, *hypothesis.tokens[:place]))
                assert sorted(range(3, 12), key=logits.__getitem__).index(token) >= 6


def test_inverting_the_distribution_never_picks_the_impossible() -> None:
    log_probs = torch.tensor([-math.inf, math.log(0.25), -math.inf, math.log(0.75), -math.inf])
    uniform = torch.tensor([0.0, 0.2499, 0.2501, 0.75, 1.0 - 2**-24, 1.0])
    assert invert_cdf(log_probs.expand(6, 5).contiguous(), uniform).tolist() == [1, 1, 3, 3, 3, 3]


def test_numbers_must_match_the_sentences() -> None:
    with pytest.raises(ValueError, match="1 sentence_ids for 2"):
        sample(MockStepper(8), [0, 1], torch.tensor([3, 3]), Rules(SYMBOLS), sampler=Sampler(), sentence_ids=[4])
    empty = torch.zeros(0, dtype=torch.long)
    assert sample(MockStepper(8), [], empty, Rules(SYMBOLS), sampler=Sampler()) == []
    assert greedy_search(MockStepper(8), [], empty, Rules(SYMBOLS)) == []


def test_an_ensemble_averages_probabilities() -> None:
    models, weights = [MockStepper(8, seed) for seed in (1, 2, 3)], [1.0, 2.0, 5.0]
    ensemble = Ensemble(models, weights)
    state = ensemble.start([0, 1])
    _, state = ensemble.step(torch.full((2, 1), SYMBOLS.bos), state)
    state = state.reorder(torch.tensor([[0, 0], [0, 0]]))
    logits, state = ensemble.step(torch.tensor([[3, 4], [5, 6]]), state)
    logits, state = ensemble.step(torch.tensor([[7, 7]]), state.keep(torch.tensor([1])).reorder(torch.tensor([[1, 0]])))
    for place, text in enumerate([(SYMBOLS.bos, 6, 7), (SYMBOLS.bos, 5, 7)]):
        members = [torch.tensor(model.logits(1, text)).softmax(-1) for model in models]
        mean = sum(weight / 8 * member for weight, member in zip(weights, members, strict=True))
        assert isinstance(mean, torch.Tensor)
        torch.testing.assert_close(logits[0, place].exp(), mean)


def test_an_ensemble_of_the_same_model_is_that_model() -> None:
    model, max_new_tokens = MockStepper(9), torch.tensor([8, 3])
    alone = beam_search(model, [0, 1], max_new_tokens, Rules(SYMBOLS), width=3, nbest=3)
    twice = beam_search(Ensemble([model, model]), [0, 1], max_new_tokens, Rules(SYMBOLS), width=3, nbest=3)
    for one, other in zip(alone, twice, strict=True):
        assert [hypothesis.tokens for hypothesis in one] == [hypothesis.tokens for hypothesis in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


def test_an_ensemble_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one member"):
        Ensemble([])
    with pytest.raises(ValueError, match="positive weights"):
        Ensemble([MockStepper(8)], [0.5, 0.5])
    with pytest.raises(ValueError, match="positive weights"):
        Ensemble([MockStepper(8), MockStepper(8)], [1.0, -1.0])
    different = Ensemble([MockStepper(8), MockStepper(9)])
    with pytest.raises(ValueError, match="vocabularies"):
        different.step(torch.zeros((1, 1), dtype=torch.long), different.start([0]))
