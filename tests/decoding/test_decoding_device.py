"""A search runs where its limits live, and finds there what it finds on the CPU."""

import pytest
import torch
from tests.decoding.mock_stepper import SYMBOLS, MockState, MockStepper
from torch import Tensor

from regard.decoding.search import decode
from regard.decoding.settings import DecodingSettings


class Elsewhere:
    """The mock model, answering on the device it is asked from."""

    def start(self, source: list[int]) -> MockState:
        return MockStepper(12).start(source)

    def step(self, tokens: Tensor, state: MockState) -> tuple[Tensor, MockState]:
        logits, state = MockStepper(12).step(tokens, state)
        return logits.to(tokens.device), state


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    "settings",
    [
        DecodingSettings(nbest=3, no_repeat_ngram=2),
        DecodingSettings(search="greedy"),
        DecodingSettings(search="sample", nbest=3, top_k=6, top_p=0.9),
    ],
)
def test_the_device_does_not_change_the_answer(settings: DecodingSettings) -> None:
    max_new_tokens, prefixes = torch.tensor([30, 5, 12]), [[4, 5], [], [7]]
    here = decode(Elsewhere(), [0, 1, 2], max_new_tokens, SYMBOLS, settings, prefixes=prefixes)
    there = decode(Elsewhere(), [0, 1, 2], max_new_tokens.cuda(), SYMBOLS, settings, prefixes=prefixes)
    for one, other in zip(here, there, strict=True):
        assert [hypothesis.tokens for hypothesis in one] == [hypothesis.tokens for hypothesis in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)
