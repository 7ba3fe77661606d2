"""Kinds of attention of a recurrent decoder against plain loops, at the edges of windows and sentences."""

import math

import pytest
import torch
from torch import Tensor

from regard.attention.layouts import Padded
from regard.attention.recurrent_attention import Global, LocalM, LocalP, build_source_attention
from regard.attention.scoring import SCORINGS

B, W, S, Q = 3, 4, 6, 5
LENGTHS = torch.tensor([6, 1, 4])
KINDS = ["global", "local-m", "local-p", "hard-gumbel", "hard-reinforce"]


def inputs() -> tuple[Tensor, Tensor, Padded]:
    torch.manual_seed(0)
    scores, query = (torch.randn(B, W, n, dtype=torch.float64, requires_grad=True) for n in (S, Q))
    return scores, query, Padded(LENGTHS, S)


def by_hand(scores: Tensor, centres: Tensor | None, reach: int, sigma: float | None) -> Tensor:
    """Every weight on its own: a softmax over the words within reach, times a Gaussian where there is one."""
    rows = []
    for b in range(scores.size(0)):
        for t in range(scores.size(1)):
            words = list(range(int(LENGTHS[b])))
            if centres is not None:
                words = [s for s in words if abs(s - centres[b, t].item()) <= reach]
            total = torch.stack([scores[b, t, s].exp() for s in words]).sum()
            row = [scores[b, t, s] * 0 for s in range(scores.size(2))]
            for s in words:
                row[s] = scores[b, t, s].exp() / total
                if centres is not None and sigma is not None:
                    row[s] = row[s] * torch.exp(-((s - centres[b, t]) ** 2) / (2 * sigma**2))
            rows.append(torch.stack(row))
    return torch.stack(rows).view(scores.shape)


def assert_same(found: Tensor, expected: Tensor, *inputs: Tensor) -> None:
    torch.testing.assert_close(found, expected)
    gradient = torch.randn(found.shape, dtype=found.dtype)
    torch.testing.assert_close(
        torch.autograd.grad(found, inputs, gradient), torch.autograd.grad(expected, inputs, gradient)
    )


def test_global_is_a_softmax_over_each_sentence() -> None:
    scores, query, keys = inputs()
    weights, samples = Global()(scores, query, keys, 0)
    assert samples is None
    assert_same(weights, by_hand(scores, None, 0, None), scores)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(B, W, dtype=torch.float64))
    assert (weights[~keys.not_padding[:, None].expand_as(weights)] == 0).all()


@pytest.mark.parametrize("reach", [1, 2, 10])
def test_local_m_is_a_softmax_over_a_window_that_waits_at_the_last_word(reach: int) -> None:
    scores, query, keys = inputs()
    weights, _ = LocalM(reach)(scores, query, keys, torch.arange(W))
    centres = torch.tensor([[min(t, int(length) - 1) for t in range(W)] for length in LENGTHS])
    assert_same(weights, by_hand(scores, centres, reach, None), scores)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(B, W, dtype=torch.float64))


def test_the_window_of_local_m_ends_where_it_should() -> None:
    scores, query, keys = inputs()
    seen = LocalM(1)(scores, query, keys, torch.tensor([0, 2, 5, 99]))[0] > 0
    assert seen[0].int().tolist() == [[1, 1, 0, 0, 0, 0], [0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 1, 1]]
    assert seen[1].int().tolist() == [[1, 0, 0, 0, 0, 0]] * W  # one word, whatever the place
    assert seen[2].int().tolist() == [[1, 1, 0, 0, 0, 0], [0, 1, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0]]


def test_one_place_for_all_queries_is_that_place_for_each() -> None:
    scores, query, keys = inputs()
    kind = LocalM(1)
    torch.testing.assert_close(kind(scores, query, keys, 3)[0], kind(scores, query, keys, torch.full((W,), 3))[0])


@pytest.mark.parametrize("reach", [1, 3])
def test_local_p_is_a_gaussian_around_the_predicted_place(reach: int) -> None:
    scores, query, keys = inputs()
    kind = LocalP(Q, 7, reach).double()
    weights, _ = kind(scores, query, keys, 0)
    centres = []
    for b in range(B):
        for t in range(W):
            bent = [torch.tanh((row * query[b, t]).sum()) for row in kind.weight]
            z = torch.stack([v * x for v, x in zip(kind.vector, bent, strict=True)]).sum()
            centres.append(int(LENGTHS[b]) / (1 + torch.exp(-z)))
    expected = by_hand(scores, torch.stack(centres).view(B, W), reach, reach / 2)
    assert_same(weights, expected, scores, query, kind.weight, kind.vector)  # W and v learn through the Gaussian
    assert (weights[~keys.not_padding[:, None].expand_as(weights)] == 0).all()
    assert (weights.sum(dim=-1) <= 1).all() and (weights.sum(dim=-1) > 0).all()


@torch.no_grad()
def test_local_p_sees_a_word_even_at_the_far_ends() -> None:
    kind, keys = LocalP(Q, 7, 1).double(), Padded(LENGTHS, S)
    scores, query = torch.zeros(B, W, S, dtype=torch.float64), torch.ones(B, W, Q, dtype=torch.float64)
    kind.weight.fill_(1.0)
    kind.vector.fill_(-1e3)  # p = 0, the first word; the second is within reach
    first = kind(scores, query, keys, 0)[0][:, 0]
    far = math.exp(-2)
    assert first[0].tolist() == pytest.approx([1 / 2, far / 2, 0, 0, 0, 0])
    assert first[1].tolist() == pytest.approx([1, 0, 0, 0, 0, 0])
    kind.vector.fill_(1e3)  # p = S, one step behind the last
    last = kind(scores, query, keys, 0)[0][:, 0]
    assert last[0].tolist() == pytest.approx([0, 0, 0, 0, 0, far])
    assert last[2].tolist() == pytest.approx([0, 0, 0, far, 0, 0])


@pytest.mark.parametrize("kind", ["local-m", "local-p"])
def test_a_window_must_reach_somewhere(kind: str) -> None:
    with pytest.raises(ValueError, match=f"attention = {kind} needs a window of 1 or more"):
        build_source_attention("general", kind, Q, Q, 4, window=0)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind of attention: sideways"):
        build_source_attention("general", "sideways", Q, Q, 4, window=2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("score", SCORINGS)
def test_many_queries_at_once_look_as_one_at_a_time(score: str, kind: str) -> None:
    torch.manual_seed(0)
    source_attention = build_source_attention(score, kind, Q, Q, 7, window=2).double().eval()
    memory, query = torch.randn(B, S, Q, dtype=torch.float64), torch.randn(B, W, Q, dtype=torch.float64)
    remembered = source_attention.prepare(memory, LENGTHS)
    attention = source_attention(query, remembered, torch.arange(W))
    assert attention.context.shape == (B, W, Q) and attention.weights.shape == (B, W, S) and attention.samples is None
    torch.testing.assert_close(attention.context, torch.einsum("bws,bsm->bwm", attention.weights, memory))
    for t in range(W):
        one = source_attention(query[:, t : t + 1], remembered, t)
        torch.testing.assert_close(one.context, attention.context[:, t : t + 1])
        torch.testing.assert_close(one.weights, attention.weights[:, t : t + 1])


@pytest.mark.parametrize("kind", KINDS)
def test_padding_and_neighbours_change_nothing_and_sentences_can_leave(kind: str) -> None:
    torch.manual_seed(0)
    source_attention = build_source_attention("additive", kind, Q, 8, 7, window=2).double().eval()
    memory, query = torch.randn(B, S, 8, dtype=torch.float64), torch.randn(B, W, Q, dtype=torch.float64)
    remembered = source_attention.prepare(memory, LENGTHS)
    attention, stay = source_attention(query, remembered, 2), torch.tensor([2, 0])
    kept = source_attention(query[stay], remembered.keep(stay), 2)
    torch.testing.assert_close((kept.context, kept.weights), (attention.context[stay], attention.weights[stay]))
    for b, length in enumerate(LENGTHS.tolist()):
        alone = source_attention(
            query[b : b + 1], source_attention.prepare(memory[b : b + 1, :length], LENGTHS[b : b + 1]), 2
        )
        torch.testing.assert_close(alone.context, attention.context[b : b + 1])
        torch.testing.assert_close(alone.weights, attention.weights[b : b + 1, :, :length])
        assert (attention.weights[b, :, length:] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_of_source_attention_has_a_gradient_in_half_precision(kind: str) -> None:
    torch.manual_seed(0)
    source_attention = build_source_attention("additive", kind, Q, 8, 7, window=2)
    memory, query = torch.randn(B, S, 8), torch.randn(B, W, Q)
    with torch.autocast("cpu", torch.bfloat16):
        attention = source_attention(query, source_attention.prepare(memory, LENGTHS), torch.arange(W))
    assert attention.weights.dtype == torch.float32
    objective = attention.context.float().square().sum()
    if attention.samples is not None:
        assert attention.samples.log_p.dtype == attention.samples.baseline.dtype == torch.float32
        objective = objective + attention.samples.log_p.sum() + attention.samples.baseline.sum()
    objective.backward()
    for name, parameter in source_attention.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all() and parameter.grad.any(), name
