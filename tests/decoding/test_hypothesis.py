"""Compaction: done sentences leave a batch in groups, and results do not change."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.mock_stepper import SYMBOLS, MockState, MockStepper
from torch import Tensor

from regard.decoding.hypothesis import should_compact
from regard.decoding.search import decode
from regard.decoding.settings import DecodingSettings


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
