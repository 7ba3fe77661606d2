"""Hypotheses as tensors: order, dead entries, compaction that does not change results."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.mock_stepper import SYMBOLS, MockState, MockStepper
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis, HypothesisBatch, length_penalty, should_compact
from regard.decoding.search import decode
from regard.decoding.settings import DecodingSettings
from regard.errors import UserError


def test_compaction_waits_for_an_eighth_of_the_batch() -> None:
    def leaves(done: int, of: int) -> bool:
        return should_compact(torch.arange(of) < done)

    assert not leaves(0, 3)
    assert leaves(1, 8)
    assert not leaves(1, 9)
    assert leaves(2, 9)
    assert leaves(40, 40)


@pytest.mark.parametrize("search", ["greedy", "beam", "sample"])
@settings(max_examples=6)
@given(seed=st.integers(0, 10_000))
def test_compaction_does_not_change_results(search: str, seed: int) -> None:
    model, sentences = MockStepper(9, seed, eos_bonus=0.5), list(range(30))
    max_new_tokens = torch.tensor([1 + (7 * sentence) % 13 for sentence in sentences])
    decoding_settings = DecodingSettings.model_validate({"search": search, "nbest": 1 if search == "greedy" else 3})
    together = decode(model, sentences, max_new_tokens, SYMBOLS, decoding_settings, sentence_ids=sentences)
    for sentence in sentences:
        one = max_new_tokens[sentence : sentence + 1]
        assert (
            decode(model, [sentence], one, SYMBOLS, decoding_settings, sentence_ids=[sentence])[0] == together[sentence]
        )


class Counting:
    """A stepper that counts the sentences it is asked for."""

    def __init__(self, inner: MockStepper) -> None:
        self.inner = inner
        self.sentences: list[int] = []

    def start(self, source: list[int]) -> MockState:
        return self.inner.start(source)

    def step(self, tokens: Tensor, state: MockState) -> tuple[Tensor, MockState]:
        self.sentences.append(len(tokens))
        return self.inner.step(tokens, state)


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_a_large_batch_is_compacted_rarely(search: str) -> None:
    counting, max_new_tokens = Counting(MockStepper(8, eos_bonus=-1e9)), torch.arange(1, 33)
    decode(counting, list(range(32)), max_new_tokens, SYMBOLS, DecodingSettings.model_validate({"search": search}))
    assert counting.sentences[:9] == [32, 32, 32, 32, 28, 28, 28, 28, 24]
    assert counting.sentences[-1] == 1


def batch(scores: list[float], finished: list[bool]) -> HypothesisBatch:
    """One sentence; hypothesis n is the token n, and the end symbol 9 if it is finished."""
    tokens = torch.tensor([[[n, 9] for n in range(len(scores))]])
    score, ended = torch.tensor([scores]), torch.tensor([finished])
    return HypothesisBatch(tokens, 1 + ended.long(), 2 * score, score, ended, torch.zeros_like(ended))


def test_dead_entries_are_left_out_and_the_others_sorted() -> None:
    (found,) = batch([-2.0, -math.inf, -1.0], [False, False, False]).hypotheses()
    assert [(h.tokens, h.score, h.log_prob) for h in found] == [([2], -1.0, -2.0), ([0], -2.0, -4.0)]
    (found,) = batch([-2.0, -1.0], [True, False]).hypotheses()
    assert [(h.tokens, h.finished) for h in found] == [([1], False), ([0], True)]
    (found,) = batch([-math.inf, -math.inf], [False, True]).hypotheses()
    assert found == [Hypothesis([], -math.inf, -math.inf, finished=False)]


def test_merging_prefers_finished_ones_then_scores() -> None:
    merged = batch([-2.0, -9.0], [True, False]).merge(batch([-1.0, -5.0], [False, True]))
    assert merged.score.tolist() == [[-2.0, -5.0]] and merged.finished.tolist() == [[True, True]]
    assert merged.tokens[0, :, 0].tolist() == [0, 1]
    assert merged.worst_finished().tolist() == [-5.0]
    assert batch([-2.0, -9.0], [True, False]).worst_finished().tolist() == [-math.inf]
    assert batch([-1.0], [True]).keep(torch.tensor([0, 0])).score.tolist() == [[-1.0], [-1.0]]


def test_the_length_penalty_by_hand() -> None:
    assert length_penalty(torch.tensor([1, 7]), 1.0).tolist() == pytest.approx([1.0, 2.0])
    assert length_penalty(torch.tensor([7]), 0.5).tolist() == pytest.approx([math.sqrt(2)])


def test_probabilities_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(UserError) as error:
        batch([-1.0, math.nan], [True, True]).hypotheses()
    assert error.value.code == "not-finite"
