"""The recorded beam: the same hypotheses with and without it, and every node adds up."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.mock_stepper import SYMBOLS, MockStepper

from regard.decoding.beam import BeamStep, beam_search
from regard.decoding.beam_tree import BeamRecorder, BeamTree
from regard.decoding.constraints import Rules
from regard.decoding.hypothesis import Hypothesis

LIMITS = [6, 1, 4]


def search(
    seed: int, width: int, alpha: float, eos_bonus: float, sentence: int = 0
) -> tuple[list[list[Hypothesis]], BeamRecorder]:
    recorder = BeamRecorder(alpha, sentence)
    model = MockStepper(vocabulary=7, seed=seed, eos_bonus=eos_bonus)
    rules = Rules(SYMBOLS, alpha)
    observed = beam_search(model, [0, 1, 2], torch.tensor(LIMITS), rules, width=width, nbest=width, observe=recorder)
    assert observed == beam_search(model, [0, 1, 2], torch.tensor(LIMITS), rules, width=width, nbest=width)
    return observed, recorder


def tree_of(hypotheses: list[Hypothesis], recorder: BeamRecorder) -> BeamTree:
    return recorder.tree([(item.tokens, item.finished) for item in hypotheses], SYMBOLS.eos)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    width=st.integers(1, 4),
    alpha=st.sampled_from([0.0, 0.6, 1.0]),
    eos_bonus=st.sampled_from([-3.0, 0.0, 2.0]),
    sentence=st.integers(0, 2),
)
def test_the_tree_holds_every_hypothesis(seed: int, width: int, alpha: float, eos_bonus: float, sentence: int) -> None:
    results, recorder = search(seed, width, alpha, eos_bonus, sentence)
    model = MockStepper(vocabulary=7, seed=seed, eos_bonus=eos_bonus)
    hypotheses, tree = results[sentence], tree_of(results[sentence], recorder)
    for item, leaf in zip(hypotheses, tree.leaves, strict=True):
        assert leaf is not None
        nodes = [tree.nodes[number] for number in tree.path(leaf)]
        assert [node.token for node in nodes] == [*item.tokens, *[SYMBOLS.eos] * item.finished]
        assert nodes[-1].total == item.log_prob and nodes[-1].score == pytest.approx(item.score, abs=1e-6)
        assert nodes[-1].outcome == ("finished" if item.finished else "truncated")
        assert sum(node.log_prob for node in nodes) == pytest.approx(item.log_prob, abs=1e-5)
        assert all(node.outcome == "continued" for node in nodes[:-1])
    for number, node in enumerate(tree.nodes):
        path = [tree.nodes[place] for place in tree.path(number)]
        assert [part.step for part in path] == list(range(node.step + 1))
        logits = model.logits(sentence, (SYMBOLS.bos, *(part.token for part in path[:-1])))
        norm = math.log(sum(math.exp(logit) for logit in logits))
        assert node.log_prob == pytest.approx(logits[node.token] - norm, abs=1e-4)
    for first, second in pairwise(tree.nodes):
        assert first.step < second.step or first.total >= second.total, "best first"
    for step in range(LIMITS[sentence]):
        in_beam = ("continued", "truncated", "stopped")
        kept = [node for node in tree.nodes if node.step == step and node.outcome in in_beam]
        assert len(kept) <= width


def test_a_node_is_pruned_only_if_the_beam_is_full() -> None:
    _, recorder = search(3, 3, 0.6, 0.0)
    for step in {node.step for node in recorder.nodes}:
        nodes = [node for node in recorder.nodes if node.step == step]
        kept = [node.total for node in nodes if node.outcome not in ("pruned", "finished")]
        lost = [node.total for node in nodes if node.outcome == "pruned" and node.token != SYMBOLS.eos]
        assert not lost or (len(kept) == 3 and min(kept) >= max(lost))


def test_the_observer_sees_a_sentence_until_it_is_done() -> None:
    seen: list[list[int]] = []

    def observe(step: BeamStep) -> None:
        seen.append(step.sentences.tolist())

    model = MockStepper(vocabulary=7)
    beam_search(model, [0, 1, 2], torch.tensor(LIMITS), Rules(SYMBOLS), width=2, observe=observe)
    assert seen[0] == [0, 1, 2] and all(1 not in sentences for sentences in seen[1:])
