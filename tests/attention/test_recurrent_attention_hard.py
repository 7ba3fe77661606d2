"""Hard attention: what is drawn, how likely it was, what gradient it passes on, and that it learns to point."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.layouts import Padded
from regard.attention.recurrent_attention import (
    HardGumbel,
    HardReinforce,
    SampledAlignments,
    build_source_attention,
    sample,
    straight_through,
)

LENGTHS = torch.tensor([4, 1, 3])
KEYS = Padded(LENGTHS, 4)
B, W, S, Q = 3, 2, 4, 5


@pytest.mark.parametrize("kind", [HardGumbel(), HardReinforce(Q, soft=0.0)])
def test_places_are_drawn_as_often_as_the_softmax_says(kind: nn.Module) -> None:
    torch.manual_seed(0)
    scores, many = torch.randn(B, 1, S), 20_000
    drawn, _ = kind(scores.expand(B, many, S), torch.zeros(B, many, Q), KEYS, 0)
    assert ((drawn == 0) | (drawn == 1)).all() and (drawn.sum(dim=-1) == 1).all()
    expected = scores.masked_fill(~KEYS.not_padding[:, None], -torch.inf).softmax(dim=-1)[:, 0]
    torch.testing.assert_close(drawn.mean(dim=1), expected, atol=4 * 0.5 / math.sqrt(many), rtol=0)
    assert (drawn.transpose(1, 2)[~KEYS.not_padding] == 0).all()


@pytest.mark.parametrize("kind", [HardGumbel(), HardReinforce(Q)])
def test_afterwards_the_likeliest_place_is_taken_and_nothing_is_drawn(kind: nn.Module) -> None:
    torch.manual_seed(0)
    scores, query = torch.randn(B, W, S), torch.randn(B, W, Q)
    before = torch.get_rng_state()
    weights, samples = kind.eval()(scores, query, KEYS, 0)
    assert samples is None and torch.equal(torch.get_rng_state(), before)
    for b, length in enumerate(LENGTHS.tolist()):
        for t in range(W):
            best = max(range(length), key=lambda s, b=b, t=t: float(scores[b, t, s]))  # type: ignore[misc]
            assert weights[b, t].tolist() == [float(s == best) for s in range(S)]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_the_gradient_passes_a_draw_as_if_it_were_the_softmax_beside_it(
    temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    noise, taken = torch.randn(S, dtype=torch.float64), torch.randn(S, dtype=torch.float64)
    monkeypatch.setattr("regard.attention.recurrent_attention.gumbel", lambda like: noise)
    scores = torch.randn(S, dtype=torch.float64, requires_grad=True)
    drawn = straight_through(scores, temperature)
    noisy = (scores.detach() + noise).tolist()
    assert drawn.tolist() == [float(s == noisy.index(max(noisy))) for s in range(S)]
    exps = [math.exp(x / temperature) for x in noisy]
    y = [x / sum(exps) for x in exps]
    expected = [
        sum(float(taken[i]) * y[i] * ((i == j) - y[j]) / temperature for i in range(S))  # dy_i / de_j
        for j in range(S)
    ]
    (found,) = torch.autograd.grad(drawn, scores, taken)
    assert found.tolist() == pytest.approx(expected)


def test_a_draw_reports_its_likelihood_and_how_open_it_was() -> None:
    torch.manual_seed(0)
    scores = torch.randn(B, W, S, dtype=torch.float64, requires_grad=True)
    drawn, log_p, entropy = sample(scores, KEYS.not_padding[:, None])
    for b, length in enumerate(LENGTHS.tolist()):
        for t in range(W):
            exps = [math.exp(x) for x in scores[b, t, :length].tolist()]
            p = [x / sum(exps) for x in exps]
            assert log_p[b, t].item() == pytest.approx(math.log(p[int(drawn[b, t].argmax())]), abs=1e-12)
            assert entropy[b, t].item() == pytest.approx(-sum(x * math.log(x) for x in p), abs=1e-12)

    def again(scores: Tensor) -> tuple[Tensor, Tensor]:
        torch.manual_seed(1)
        return sample(scores, KEYS.not_padding[:, None])[1:]

    assert torch.autograd.gradcheck(again, (scores,))


def test_some_queries_get_the_softmax_and_nothing_is_sampled_for_them() -> None:
    torch.manual_seed(0)
    many = 2000
    scores = torch.randn(B, many, S, dtype=torch.float64, requires_grad=True)
    weights, samples = HardReinforce(Q, soft=0.25)(scores, torch.zeros(B, many, Q), KEYS, 0)
    assert samples is not None
    softmax = scores.masked_fill(~KEYS.not_padding[:, None], -torch.inf).softmax(dim=-1)
    one_hot = (weights == 1).any(dim=-1)
    is_soft = (samples.log_p == 0) & (LENGTHS > 1)[:, None]  # a sentence of one word has nothing to sample
    assert abs(is_soft[LENGTHS > 1].double().mean().item() - 0.25) < 0.03
    torch.testing.assert_close(weights[is_soft], softmax[is_soft].to(weights.dtype))
    assert one_hot[~is_soft].all()
    (gradient,) = torch.autograd.grad((weights * torch.randn(S)).sum(), scores)
    assert (gradient[is_soft].abs().sum(dim=-1) > 0).all()
    assert (gradient[~is_soft] == 0).all()


def test_the_baseline_judges_the_query_and_leaves_it_as_it_is() -> None:
    torch.manual_seed(0)
    kind, scores = HardReinforce(Q).double(), torch.randn(B, W, S, dtype=torch.float64)
    query = torch.randn(B, W, Q, dtype=torch.float64, requires_grad=True)
    _, samples = kind(scores, query, KEYS, 0)
    assert samples is not None
    torch.testing.assert_close(samples.baseline, query @ kind.baseline.weight[0] + kind.baseline.bias)
    samples.baseline.sum().backward()
    assert query.grad is None and kind.baseline.weight.grad is not None


def test_choices_of_one_position_after_another_are_joined() -> None:
    parts = [SampledAlignments(*(torch.full((2, 1), 10.0 * part + t) for part in range(3))) for t in range(4)]
    joined = SampledAlignments.concatenate(parts)
    assert joined.log_p.tolist() == [[0.0, 1.0, 2.0, 3.0]] * 2
    assert joined.baseline.tolist() == [[20.0, 21.0, 22.0, 23.0]] * 2


def test_straight_through_learns_to_point() -> None:
    """The word at place t of the answer is the t-th from the end: each position must find its place in the source."""
    torch.manual_seed(0)
    words, places, queries = nn.Embedding(9, 16), nn.Embedding(5, 16), nn.Embedding(5, 16)
    source_attention, output = build_source_attention("general", "hard-gumbel", 16, 16, 16, window=1), nn.Linear(16, 9)
    parts = nn.ModuleList([words, places, queries, source_attention, output])
    optimizer = torch.optim.Adam(parts.parameters(), lr=0.01)
    at = torch.arange(5)

    def answer(src: Tensor) -> Tensor:
        memory = source_attention.prepare(words(src) + places(at), torch.full((len(src),), 5))
        return output(source_attention(queries(at).expand(len(src), -1, -1), memory, at).context)

    for _ in range(100):
        src = torch.randint(1, 9, (32, 5))
        optimizer.zero_grad()
        F.cross_entropy(answer(src).flatten(0, 1), src.flip(1).flatten()).backward()
        optimizer.step()
    parts.eval()
    src = torch.randint(1, 9, (200, 5))
    assert (answer(src).argmax(dim=-1) == src.flip(1)).float().mean() > 0.98
