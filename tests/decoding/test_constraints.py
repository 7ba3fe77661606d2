"""No-repeat n-grams, forced prefixes and the loop guard, against their definitions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.mock_stepper import SYMBOLS, MockState, MockStepper
from torch import Tensor

from regard.decoding.beam import beam_search
from regard.decoding.constraints import LoopGuard, NoRepeat, Rules
from regard.decoding.rollout import greedy_search
from regard.decoding.sampling import Sampler, sample
from regard.decoding.stepper import Symbols

PROPERTY = settings(max_examples=40)


def ngrams(tokens: list[int], size: int) -> list[tuple[int, ...]]:
    return [tuple(tokens[index : index + size]) for index in range(len(tokens) - size + 1)]


@PROPERTY
@given(
    history=st.lists(st.lists(st.integers(3, 6), min_size=7, max_size=7), min_size=1, max_size=4),
    size=st.integers(1, 4),
)
def test_no_repeat_forbids_exactly_the_repeated_ngrams(history: list[list[int]], size: int) -> None:
    log_probs = NoRepeat(size)(torch.zeros(1, len(history), 8), torch.tensor([history]))
    for row, text in enumerate(history):
        for token in range(8):
            repeats = ngrams([*text, token], size)[-1] in ngrams(text, size)
            assert (log_probs[0, row, token].item() == -torch.inf) == repeats


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_search_repeats_an_ngram(size: int) -> None:
    model, max_new_tokens = MockStepper(7, eos_bonus=-4.0), torch.tensor([25, 9])
    rules = Rules(SYMBOLS, constraints=(NoRepeat(size),))
    for actual in (
        greedy_search(model, [0, 1], max_new_tokens, rules),
        beam_search(model, [0, 1], max_new_tokens, rules, width=4, nbest=4),
        sample(model, [0, 1], max_new_tokens, rules, sampler=Sampler(), samples=4),
    ):
        for hypothesis in (hypothesis for hypotheses in actual for hypothesis in hypotheses):
            assert len(set(ngrams(hypothesis.tokens, size))) == len(ngrams(hypothesis.tokens, size))


def test_constraints_do_not_change_log_probabilities() -> None:
    model = MockStepper(7, eos_bonus=-4.0)
    actual = greedy_search(model, [0], torch.tensor([9]), Rules(SYMBOLS, constraints=(NoRepeat(1),)))[0][0]
    text = (*actual.tokens, SYMBOLS.eos) if actual.finished else tuple(actual.tokens)
    assert actual.log_prob == pytest.approx(model.log_prob(0, text), abs=1e-4)


def looping(tokens: list[int]) -> bool:
    return bool(LoopGuard()(torch.tensor([[tokens]])).item())


@pytest.mark.parametrize("unit", range(1, 9))
def test_a_repeated_unit_is_a_loop(unit: int) -> None:
    loop = [10 + index for index in range(unit)] * 40
    opening = [3, 4, 5, 6, 7]
    needed = max(24, 6 * unit, -(-24 // unit) * unit)
    assert looping(opening + loop[:needed])
    assert not looping(opening + loop[: needed - 1])
    assert not looping([*loop[: needed - 1], 99])


def test_short_repetitions_are_not_loops() -> None:
    assert not looping([5, 6, 7] + [8] * 12)  # a row of dots
    assert not looping([5, 6] + [8, 9, 10] * 5)  # laughter, letter by letter
    assert not looping(list(range(9)) * 20)  # a refrain longer than a unit
    assert not looping([5] * 3)


@pytest.mark.parametrize("guard", [LoopGuard(4, 2, 9), LoopGuard(3, 3, 7), LoopGuard(8, 6, 24)])
def test_the_longest_unit_is_a_loop_only_at_its_full_length(guard: LoopGuard) -> None:
    unit = list(range(guard.max_unit))
    span = guard.max_unit * max(guard.min_repeats, -(-guard.min_tokens // guard.max_unit))
    loop = (unit * span)[:span]
    assert guard(torch.tensor([[loop]])).item() and guard(torch.tensor([[[99, *loop]]])).item()
    assert not guard(torch.tensor([[loop[1:]]])).item() and not guard(torch.tensor([[[99, *loop[1:]]]])).item()


@PROPERTY
@given(
    st.lists(st.integers(0, 1), min_size=0, max_size=60),
    st.sampled_from([LoopGuard(3, 3, 7), LoopGuard(4, 2, 9), LoopGuard(2, 2, 3), LoopGuard(3, 4, 1)]),
)
def test_the_loop_guard_equals_its_definition(tokens: list[int], guard: LoopGuard) -> None:
    expected = False
    for unit in range(1, guard.max_unit + 1):
        span = unit * max(guard.min_repeats, -(-guard.min_tokens // unit))
        tail = tokens[-span:]
        expected |= len(tokens) >= span and tail == tail[:unit] * (span // unit)
    assert guard(torch.tensor([[tokens]], dtype=torch.long)).item() == expected


class Cycle:
    """A stepper that writes 4, 5, 4, 5, ... with great confidence; any other token is unlikely."""

    def start(self, source: list[int]) -> MockState:
        return MockStepper(8).start(source)

    def step(self, tokens: Tensor, state: MockState) -> tuple[Tensor, MockState]:
        following = torch.where(tokens == 4, 5, 4)
        return 20.0 * torch.nn.functional.one_hot(following, 8).float(), state


def test_a_loop_is_truncated_and_marked() -> None:
    max_new_tokens = torch.tensor([60, 20])
    for actual in (
        greedy_search(Cycle(), [0, 1], max_new_tokens, Rules(SYMBOLS)),
        sample(Cycle(), [0, 1], max_new_tokens, Rules(SYMBOLS), sampler=Sampler()),
        beam_search(Cycle(), [0, 1], max_new_tokens, Rules(SYMBOLS), width=1),
    ):
        (looped,), (cut,) = actual
        assert looped.looped
        assert not looped.finished
        assert looped.tokens == [4, 5] * 12
        assert (cut.looped, cut.finished, len(cut.tokens)) == (False, False, 20)
    (free,) = greedy_search(Cycle(), [0], max_new_tokens[:1], Rules(SYMBOLS, loop_guard=None))[0]
    assert (len(free.tokens), free.looped) == (60, False)


def test_a_finished_hypothesis_wins_over_a_loop() -> None:
    (best,) = beam_search(Cycle(), [0], torch.tensor([60]), Rules(SYMBOLS), width=6)[0]
    assert best.finished
    assert not best.looped


def test_a_forced_prefix_may_repeat_itself() -> None:
    (forced,) = greedy_search(MockStepper(9), [0], torch.tensor([3]), Rules(SYMBOLS), prefixes=[[7] * 30])[0]
    assert forced.tokens[:30] == [7] * 30


def test_an_end_symbol_that_is_also_padding_can_be_generated() -> None:
    assert Symbols(bos=1, eos=1, pad=1).never_produced == []
    assert Symbols(bos=0, eos=1, pad=1).never_produced == [0]
    assert Symbols(bos=0, eos=1, pad=2).never_produced == [0, 2]
