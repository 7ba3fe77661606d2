"""Beam search against brute force, and with other batches, widths and orders."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.mock_stepper import SYMBOLS, MockState, MockStepper, all_sequences
from torch import Tensor

from regard.decoding.beam import beam_search
from regard.decoding.constraints import Rules
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.rollout import greedy_search
from regard.decoding.search import decode
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Stepper
from regard.errors import UserError

PROPERTY = settings(max_examples=30)


def penalty(length: int, alpha: float) -> float:
    return float(((5 + length) / 6) ** alpha)


def exhaustive(model: MockStepper, sentence: int, limit: int, alpha: float) -> list[tuple[float, list[int]]]:
    """Every text with its score, best first."""
    scored = []
    for text in all_sequences(model.vocabulary, limit):
        scored.append((model.log_prob(sentence, text) / penalty(len(text), alpha), list(text[:-1])))
    return sorted(scored, reverse=True)


def reference_beam(
    model: MockStepper, sentence: int, limit: int, alpha: float, width: int
) -> list[tuple[float, list[int]]]:
    """Beam search in plain Python that never stops early: lists, loops and no tensors. All that ended, best first."""
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    ended: list[tuple[float, list[int]]] = []
    for _ in range(limit):
        candidates = []
        for log_prob, text in live:
            logits = model.logits(sentence, (SYMBOLS.bos, *text))
            norm = math.log(sum(math.exp(logit) for logit in logits))
            words = (token for token in range(model.vocabulary) if token not in (SYMBOLS.bos, SYMBOLS.pad))
            candidates += [(log_prob + logits[token] - norm, (*text, token)) for token in words]
        candidates.sort(reverse=True)
        for log_prob, text in candidates[:width]:
            if text[-1] == SYMBOLS.eos:
                ended.append((log_prob / penalty(len(text), alpha), list(text[:-1])))
        live = [candidate for candidate in candidates if candidate[1][-1] != SYMBOLS.eos][:width]
    cut = [(log_prob / penalty(limit, alpha), list(text)) for log_prob, text in live]
    return sorted(ended or cut, reverse=True)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_a_beam_with_all_hypotheses_is_exhaustive_search(alpha: float) -> None:
    model = MockStepper(vocabulary=6)
    actual = beam_search(model, [0, 1, 2], torch.tensor([4, 3, 2]), Rules(SYMBOLS, alpha), width=150, nbest=10)
    for sentence, (limit, hypotheses) in enumerate(zip([4, 3, 2], actual, strict=True)):
        expected = exhaustive(model, sentence, limit, alpha)[:10]
        assert [hypothesis.tokens for hypothesis in hypotheses] == [tokens for _, tokens in expected]
        assert [h.score for h in hypotheses] == pytest.approx([score for score, _ in expected], abs=1e-4)
        assert all(hypothesis.finished for hypothesis in hypotheses)


@PROPERTY
@given(
    seed=st.integers(0, 10_000),
    width=st.integers(1, 5),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    eos_bonus=st.sampled_from([-3.0, 0.0, 2.0]),
)
def test_early_stopping_does_not_change_the_result(seed: int, width: int, alpha: float, eos_bonus: float) -> None:
    model = MockStepper(vocabulary=7, seed=seed, eos_bonus=eos_bonus)
    max_new_tokens = [6, 1, 4]
    for nbest in {1, width}:
        actual = beam_search(
            model, [0, 1, 2], torch.tensor(max_new_tokens), Rules(SYMBOLS, alpha), width=width, nbest=nbest
        )
        for sentence, limit in enumerate(max_new_tokens):
            expected = reference_beam(model, sentence, limit, alpha, width)[:nbest]
            assert [hypothesis.tokens for hypothesis in actual[sentence]] == [tokens for _, tokens in expected]
            assert [h.score for h in actual[sentence]] == pytest.approx([score for score, _ in expected], abs=1e-4)


@PROPERTY
@given(seed=st.integers(0, 10_000))
def test_a_beam_of_one_without_length_penalty_is_greedy(seed: int) -> None:
    model, rules, max_new_tokens = MockStepper(8, seed), Rules(SYMBOLS, alpha=0.0), torch.tensor([9, 5, 1])
    assert beam_search(model, [0, 1, 2], max_new_tokens, rules, width=1) == greedy_search(
        model, [0, 1, 2], max_new_tokens, rules
    )


@PROPERTY
@given(seed=st.integers(0, 10_000), order=st.permutations(range(5)))
def test_results_do_not_depend_on_the_batch(seed: int, order: list[int]) -> None:
    model, rules = MockStepper(9, seed), Rules(SYMBOLS)
    max_new_tokens = torch.tensor([3, 12, 7, 1, 5])
    together = beam_search(model, order, max_new_tokens[order], rules, width=3, nbest=3)
    for index, sentence in enumerate(order):
        alone = beam_search(model, [sentence], max_new_tokens[sentence : sentence + 1], rules, width=3, nbest=3)[0]
        assert together[index] == alone


@PROPERTY
@given(seed=st.integers(0, 10_000), alpha=st.sampled_from([0.0, 0.6, 1.5]))
def test_nbest_is_sorted_and_distinct_with_correct_scores(seed: int, alpha: float) -> None:
    model = MockStepper(8, seed)
    for sentence, actual in enumerate(
        beam_search(model, [0, 1], torch.tensor([6, 9]), Rules(SYMBOLS, alpha), width=6, nbest=6)
    ):
        scores = [hypothesis.score for hypothesis in actual]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(hypothesis.tokens) for hypothesis in actual}) == len(actual)
        for hypothesis in actual:
            text = (*hypothesis.tokens, *([SYMBOLS.eos] if hypothesis.finished else []))
            assert not {SYMBOLS.bos, SYMBOLS.pad, SYMBOLS.eos} & set(hypothesis.tokens)
            assert hypothesis.log_prob == pytest.approx(model.log_prob(sentence, text), abs=1e-4)
            assert hypothesis.score == pytest.approx(hypothesis.log_prob / penalty(len(text), alpha), abs=1e-4)


def test_a_shorter_nbest_is_a_prefix_of_a_longer_one() -> None:
    model, max_new_tokens = MockStepper(9), torch.tensor([10, 10])
    many = beam_search(model, [0, 1], max_new_tokens, Rules(SYMBOLS), width=5, nbest=5)
    for nbest in (1, 2, 4):
        fewer = beam_search(model, [0, 1], max_new_tokens, Rules(SYMBOLS), width=5, nbest=nbest)
        assert fewer == [actual[:nbest] for actual in many]


def test_a_beam_wider_than_the_vocabulary() -> None:
    actual = beam_search(MockStepper(4), [0], torch.tensor([6]), Rules(SYMBOLS), width=12, nbest=12)[0]
    # One word: a text is a number of them.
    assert sorted(len(hypothesis.tokens) for hypothesis in actual) == [0, 1, 2, 3, 4, 5]


def test_a_hypothesis_at_its_maximum_length_is_truncated() -> None:
    model = MockStepper(8, eos_bonus=-1e9)
    for hypotheses, limit in zip(
        beam_search(model, [0, 1], torch.tensor([3, 7]), Rules(SYMBOLS), width=3, nbest=2), [3, 7], strict=True
    ):
        assert [(len(h.tokens), h.finished, h.looped) for h in hypotheses] == [(limit, False, False)] * 2


def test_forced_prefixes_of_different_lengths() -> None:
    model, max_new_tokens = MockStepper(9), torch.tensor([5, 5, 5])
    prefixes = [[4, 7, 3], [], [8]]
    actual = beam_search(model, [0, 1, 2], max_new_tokens, Rules(SYMBOLS), width=3, nbest=3, prefixes=prefixes)
    for sentence, (prefix, hypotheses) in enumerate(zip(prefixes, actual, strict=True)):
        for hypothesis in hypotheses:
            assert hypothesis.tokens[: len(prefix)] == prefix
            assert len(hypothesis.tokens) <= len(prefix) + 5
            text = (*hypothesis.tokens, *([SYMBOLS.eos] if hypothesis.finished else []))
            assert hypothesis.log_prob == pytest.approx(model.log_prob(sentence, text), abs=1e-4)
    assert actual[1] == beam_search(model, [1], max_new_tokens[:1], Rules(SYMBOLS), width=3, nbest=3)[0]


def test_search_after_a_prefix_equals_exhaustive_search() -> None:
    model, prefix = MockStepper(6), (4, 3)
    best = max(
        (model.log_prob(0, (*prefix, *text)) / penalty(len(prefix) + len(text), 0.6), [*prefix, *text[:-1]])
        for text in all_sequences(6, 3)
    )
    actual = beam_search(model, [0], torch.tensor([3]), Rules(SYMBOLS), width=40, prefixes=[prefix])[0][0]
    assert actual.tokens == best[1]
    assert actual.score == pytest.approx(best[0], abs=1e-4)


def test_a_prefix_may_contain_special_symbols() -> None:
    actual = beam_search(MockStepper(9), [0], torch.tensor([2]), Rules(SYMBOLS), prefixes=[[SYMBOLS.bos, SYMBOLS.pad]])
    assert actual[0][0].tokens[:2] == [SYMBOLS.bos, SYMBOLS.pad]


class Counting:
    """A stepper that counts the rows it is asked for."""

    def __init__(self, inner: MockStepper) -> None:
        self.inner = inner
        self.rows: list[tuple[int, ...]] = []

    def start(self, source: list[int]) -> MockState:
        return self.inner.start(source)

    def step(self, tokens: Tensor, state: MockState) -> tuple[Tensor, MockState]:
        self.rows.append(tuple(tokens.shape))
        return self.inner.step(tokens, state)


def test_done_sentences_leave_the_batch_and_the_first_step_has_one_hypothesis() -> None:
    counting = Counting(MockStepper(8, eos_bonus=-1e9))
    beam_search(counting, [0, 1, 2], torch.tensor([1, 4, 2]), Rules(SYMBOLS), width=3)
    assert counting.rows == [(3, 1), (2, 3), (1, 3), (1, 3)]


def test_a_certain_end_stops_the_search_after_one_step() -> None:
    counting = Counting(MockStepper(8, eos_bonus=50.0))
    actual = beam_search(counting, [0, 1], torch.tensor([40, 40]), Rules(SYMBOLS), width=4)
    assert [hypotheses[0].tokens for hypotheses in actual] == [[], []]
    assert counting.rows == [(2, 1)]


class Chain:
    """Ends at once with probability 0.6; else counts 4, 5, 6, ... up to the last word of its vocabulary, and ends."""

    vocabulary = 14

    def start(self, source: list[int]) -> MockState:
        return MockStepper(self.vocabulary).start(source)

    def step(self, tokens: Tensor, state: MockState) -> tuple[Tensor, MockState]:
        following = torch.where(tokens == self.vocabulary - 1, SYMBOLS.eos, tokens + 1)
        certain = torch.nn.functional.one_hot(following, self.vocabulary).float()
        opening = torch.zeros(self.vocabulary)
        opening[SYMBOLS.eos], opening[4] = 0.6, 0.4
        return torch.where((tokens == SYMBOLS.bos)[..., None], opening, certain).log(), state


@pytest.mark.parametrize("width", [1, 4])
def test_the_search_continues_while_a_longer_hypothesis_can_win(width: int) -> None:
    # Ending at once scores log 0.6; the ten words and their end score log 0.4 / lp(11), which is more.
    longer, shorter = math.log(0.4) / penalty(11, 1.0), math.log(0.6)
    assert longer > shorter
    for alpha, tokens in ((1.0, list(range(4, 14))), (0.0, [])):
        best = beam_search(Chain(), [0], torch.tensor([11]), Rules(SYMBOLS, alpha), width=width)[0][0]
        assert best.tokens == tokens
    assert best.score == pytest.approx(shorter)


def test_empty_input_and_invalid_arguments() -> None:
    assert beam_search(MockStepper(8), [], torch.zeros(0, dtype=torch.long), Rules(SYMBOLS)) == []
    with pytest.raises(ValueError, match="max_new_tokens"):
        beam_search(MockStepper(8), [0], torch.tensor([0]), Rules(SYMBOLS))
    with pytest.raises(ValueError, match="2 prefixes for 1"):
        beam_search(MockStepper(8), [0], torch.tensor([3]), Rules(SYMBOLS), prefixes=[[], []])
    with pytest.raises(ValueError, match="end symbol"):
        beam_search(MockStepper(8), [0], torch.tensor([3]), Rules(SYMBOLS), prefixes=[[3, SYMBOLS.eos]])


class Constant:
    """A stepper that says the same at every step."""

    def __init__(self, logits: list[float]) -> None:
        self.logits = torch.tensor(logits)

    def start(self, source: list[int]) -> MockState:
        return MockStepper(len(self.logits)).start(source)

    def step(self, tokens: Tensor, state: MockState) -> tuple[Tensor, MockState]:
        return self.logits.expand(*tokens.shape, -1), state


@pytest.mark.parametrize("vocabulary", [6, 1000])
@pytest.mark.parametrize("bad", ["all", "one"])
@pytest.mark.parametrize("search", ["beam", "greedy", "sample"])
def test_nan_logits_raise_an_error(search: Any, bad: str, vocabulary: int) -> None:
    scores = [math.nan if bad == "all" or token == 4 else 0.1 * (token % 7) for token in range(vocabulary)]
    broken: Stepper[list[int], MockState] = Constant(scores)
    with pytest.raises(UserError) as error:
        decode(broken, [0, 1], torch.tensor([3, 5]), SYMBOLS, DecodingSettings(search=search))
    assert error.value.code == "not-finite"


def test_a_model_without_allowed_tokens_gives_an_empty_hypothesis() -> None:
    only_padding: Stepper[list[int], MockState] = Constant([-math.inf, -math.inf, 0.0, -math.inf])
    actual = beam_search(only_padding, [0], torch.tensor([4]), Rules(SYMBOLS), width=2)
    assert actual == [[Hypothesis([], -math.inf, -math.inf, finished=False)]]


def test_a_prefix_with_probability_zero_is_kept() -> None:
    model = Constant([-math.inf, 0.0, -math.inf, -math.inf, 1.0])
    for search in (beam_search, greedy_search):
        (actual,) = search(model, [0], torch.tensor([2]), Rules(SYMBOLS), prefixes=[[3]])[0]
        assert actual.tokens[0] == 3
        assert actual.log_prob < -1e3


def test_half_precision_logits_are_scored_in_float32() -> None:
    logits = [0.0, 1.0, 0.0, 2.0, 2.5]
    half = Constant(logits)
    half.logits = half.logits.bfloat16()
    for one, other in zip(
        beam_search(half, [0], torch.tensor([3]), Rules(SYMBOLS))[0],
        beam_search(Constant(logits), [0], torch.tensor([3]), Rules(SYMBOLS))[0],
        strict=True,
    ):
        assert one == other
