"""`decode` runs the search that the settings name, on any device."""

import pytest
import torch
from hypothesis import settings
from tests.decoding.mock_stepper import SYMBOLS, MockState, MockStepper
from torch import Tensor

from regard.config import build
from regard.decoding.beam import beam_search
from regard.decoding.constraints import LoopGuard, NoRepeat, Rules
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.rollout import greedy_search
from regard.decoding.sampling import Sampler, sample
from regard.decoding.search import build_rules, decode
from regard.decoding.settings import DecodingSettings
from regard.errors import UserError

PROPERTY = settings(max_examples=40)


def test_settings_choose_the_search() -> None:
    model, source, max_new_tokens = MockStepper(9), [0, 1, 2], torch.tensor([6, 3, 9])

    def actual(**values: object) -> list[list[Hypothesis]]:
        return decode(model, source, max_new_tokens, SYMBOLS, build(DecodingSettings, values, "recipe"))

    rules = build_rules(DecodingSettings(), SYMBOLS)
    assert actual() == beam_search(model, source, max_new_tokens, rules, width=4)
    assert actual(beam=6, nbest=3) == beam_search(model, source, max_new_tokens, rules, width=6, nbest=3)
    assert actual(search="greedy") == greedy_search(model, source, max_new_tokens, rules)
    sampler = Sampler(temperature=0.7, top_k=5, top_p=0.9, seed=8)
    assert actual(search="sample", nbest=2, temperature=0.7, top_k=5, top_p=0.9, seed=8) == sample(
        model, source, max_new_tokens, rules, sampler=sampler, samples=2
    )


def test_settings_become_rules() -> None:
    rules = build_rules(DecodingSettings(alpha=1, no_repeat_ngram=3, loop_guard=False), SYMBOLS)
    assert rules == Rules(SYMBOLS, 1.0, (NoRepeat(3),), None)
    assert build_rules(DecodingSettings(), SYMBOLS) == Rules(SYMBOLS, 0.6, (), LoopGuard())


def test_autoregressive_models_refuse_mask_predict() -> None:
    with pytest.raises(UserError) as error:
        decode(MockStepper(5), [0], torch.tensor([4]), SYMBOLS, DecodingSettings(search="mask_predict"))
    assert (error.value.code, error.value.where) == ("unsupported", "decoding.search")


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
def test_results_do_not_depend_on_the_device(settings: DecodingSettings) -> None:
    max_new_tokens, prefixes = torch.tensor([30, 5, 12]), [[4, 5], [], [7]]
    here = decode(Elsewhere(), [0, 1, 2], max_new_tokens, SYMBOLS, settings, prefixes=prefixes)
    there = decode(Elsewhere(), [0, 1, 2], max_new_tokens.cuda(), SYMBOLS, settings, prefixes=prefixes)
    for one, other in zip(here, there, strict=True):
        assert [hypothesis.tokens for hypothesis in one] == [hypothesis.tokens for hypothesis in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)
