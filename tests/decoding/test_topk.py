"""Top-k equals a full sort, and the candidates of a beam are the best of the whole W x V table."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.mock_stepper import SYMBOLS
from torch import Tensor

import regard.decoding.topk as module
from regard.decoding.beam import Candidates
from regard.decoding.constraints import ForcedPrefix, NoRepeat, Rules, StepContext
from regard.decoding.topk import top_k, top_k_log_probs

PROPERTY = settings(max_examples=60)


def randn(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@PROPERTY
@given(seed=st.integers(0, 10_000), size=st.integers(1, 900), count=st.integers(1, 12))
def test_top_k_equals_torch_topk(seed: int, size: int, count: int) -> None:
    scores = randn(2, 3, size, seed=seed)
    values, places = top_k(scores, count)
    expected = scores.topk(min(count, size), dim=-1)
    assert torch.equal(values, expected.values)
    assert torch.equal(places, expected.indices)


@PROPERTY
@given(seed=st.integers(0, 10_000), size=st.integers(64, 900), levels=st.integers(1, 4))
def test_equal_scores_are_not_selected_twice(seed: int, size: int, levels: int) -> None:
    scores = torch.randint(levels, (3, size), generator=torch.Generator().manual_seed(seed)).float()
    values, places = top_k(scores, 5)
    assert torch.equal(values, scores.topk(5).values)
    assert torch.equal(scores.gather(-1, places), values)
    assert all(len(set(row)) == 5 for row in places.tolist())


@pytest.mark.parametrize("size", [20, 700])
def test_infinite_scores_and_nan(size: int) -> None:
    scores = torch.full((2, size), -torch.inf)
    scores[0, 7] = 1.0
    assert top_k(scores, 3)[0].tolist() == [[1.0, -torch.inf, -torch.inf], [-torch.inf] * 3]
    scores[1, 13] = torch.nan
    assert top_k(scores, 3)[0][1, 0].isnan()


@pytest.mark.parametrize("block", [1, 1000, 2**17])
def test_log_probabilities_equal_log_softmax(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    logits = 30 * randn(3, 4, 500, seed=1)
    log_probs, tokens = top_k_log_probs(logits, 6)
    expected = logits.log_softmax(-1).topk(6)
    torch.testing.assert_close(log_probs, expected.values)
    assert torch.equal(tokens, expected.indices)


@PROPERTY
@given(
    seed=st.integers(0, 10_000),
    width=st.integers(1, 5),
    vocabulary=st.sampled_from([4, 9, 70, 640, 700]),
    rule=st.sampled_from(["none", "no repeat", "prefix"]),
)
def test_candidates_are_the_best_of_all_continuations(seed: int, width: int, vocabulary: int, rule: str) -> None:
    rules = Rules(SYMBOLS, constraints=(NoRepeat(1),) if rule == "no repeat" else ())
    history = torch.randint(3, vocabulary, (2, width, 3), generator=torch.Generator().manual_seed(seed))
    prefix = ForcedPrefix.of([[3, 3, 3, 3], []] if rule == "prefix" else None, torch.tensor([9, 9]), SYMBOLS)
    logits, live = 3 * randn(2, width, vocabulary, seed=seed), randn(2, width, seed=seed + 1)

    context = StepContext(rules, logits, history, prefix, step=3)
    actual = Candidates.best(live, *context.top_k(2 * width), 2 * width)

    table = (live[:, :, None] + context.log_probs()).flatten(1)
    best, index = table.topk(min(2 * width, table.size(1)), dim=1)
    alive = best != -torch.inf
    torch.testing.assert_close(actual.log_prob[:, : best.size(1)], best)
    assert torch.equal((actual.parents * vocabulary + actual.tokens)[:, : best.size(1)][alive], index[alive])
    assert bool((actual.log_prob[:, best.size(1) :] == -torch.inf).all())
