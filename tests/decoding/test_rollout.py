"""Greedy search against a loop of argmax, with forced prefixes and early ends."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.mock_stepper import SYMBOLS, MockState, MockStepper

from regard.decoding.constraints import Rules
from regard.decoding.rollout import greedy_search
from regard.decoding.sampling import Sampler, sample

PROPERTY = settings(max_examples=40)


@PROPERTY
@given(seed=st.integers(0, 10_000), eos_bonus=st.sampled_from([-2.0, 1.0]))
def test_greedy_is_an_argmax_loop(seed: int, eos_bonus: float) -> None:
    model, max_new_tokens = MockStepper(8, seed, eos_bonus), [6, 2, 9]
    actual = greedy_search(model, [0, 1, 2], torch.tensor(max_new_tokens), Rules(SYMBOLS, alpha=0.6))
    for sentence, limit in enumerate(max_new_tokens):
        text: list[int] = []
        while len(text) < limit and SYMBOLS.eos not in text:
            logits = model.logits(sentence, (SYMBOLS.bos, *text))
            allowed = [token for token in range(8) if token not in (SYMBOLS.bos, SYMBOLS.pad)]
            text.append(max(allowed, key=logits.__getitem__))
        (hypothesis,) = actual[sentence]
        assert hypothesis.tokens == [token for token in text if token != SYMBOLS.eos]
        assert hypothesis.finished == (SYMBOLS.eos in text)
        assert hypothesis.log_prob == pytest.approx(model.log_prob(sentence, tuple(text)), abs=1e-4)
        assert hypothesis.score == pytest.approx(hypothesis.log_prob / ((5 + len(text)) / 6) ** 0.6, abs=1e-4)


def test_greedy_and_samples_continue_forced_prefixes() -> None:
    model, max_new_tokens, prefixes = MockStepper(9), torch.tensor([4, 4]), [[5, 6, 7], [3]]
    for actual in (
        greedy_search(model, [0, 1], max_new_tokens, Rules(SYMBOLS), prefixes=prefixes),
        sample(model, [0, 1], max_new_tokens, Rules(SYMBOLS), sampler=Sampler(), samples=3, prefixes=prefixes),
    ):
        for prefix, hypotheses in zip(prefixes, actual, strict=True):
            for hypothesis in hypotheses:
                assert hypothesis.tokens[: len(prefix)] == prefix
                assert len(hypothesis.tokens) <= len(prefix) + 4


class Halting:
    """Half of the texts end at once, and what comes after an end is endless ends; the others count 4, 5, 6, ..."""

    def start(self, source: list[int]) -> MockState:
        return MockStepper(60).start(source)

    def step(self, tokens: torch.Tensor, state: MockState) -> tuple[torch.Tensor, MockState]:
        following = torch.where(tokens == SYMBOLS.eos, SYMBOLS.eos, tokens + 1).clamp(max=59)
        likely = torch.nn.functional.one_hot(following, 60)
        opening = torch.nn.functional.one_hot(torch.tensor([SYMBOLS.eos, 4]), 60).sum(dim=0)
        return 40.0 * torch.where((tokens == SYMBOLS.bos)[..., None], opening, likely).float(), state


def test_tokens_after_the_end_are_ignored() -> None:
    (actual,) = sample(Halting(), [0], torch.tensor([40]), Rules(SYMBOLS), sampler=Sampler(), samples=12)
    assert {(len(hypothesis.tokens), hypothesis.finished) for hypothesis in actual} == {(0, True), (40, False)}
    assert not any(hypothesis.looped for hypothesis in actual)
