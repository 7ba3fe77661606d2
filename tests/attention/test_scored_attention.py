"""Attention with another score inside its heads: against loops, in every layout, one position at a time."""

import math

import pytest
import torch
from torch import Tensor

from regard.attention.layouts import Packed, Padded, RecordingPattern
from regard.attention.multihead import MultiHeadAttention
from regard.attention.scored_attention import ScoredAttention
from regard.attention.scoring import SCORINGS
from regard.layers.positions import ALiBi, Relative

D, H, K = 8, 2, 3
BETWEEN = {"nothing": None, "relative": Relative(K, 2), "alibi": ALiBi(H)}
CASES = [(score, "nothing") for score in SCORINGS] + [("additive", "alibi"), ("scaled_dot", "relative")]


def build(score: str, position_bias: str = "nothing") -> MultiHeadAttention:
    torch.manual_seed(0)
    scheme = BETWEEN[position_bias]
    scored_attention = ScoredAttention(SCORINGS[score](K, K, 5), None if scheme is None else scheme.position_bias())
    return MultiHeadAttention(D, H, head_dim=K, scored_attention=scored_attention).double()


def score_by_hand(layer: MultiHeadAttention, score: str, q: Tensor, k: Tensor) -> Tensor:
    """Of one pair (K,), (K,)."""
    assert layer.scored_attention is not None
    w: dict[str, Tensor] = dict(layer.scored_attention.scoring.named_parameters())
    match score:
        case "dot":
            return sum((q[c] * k[c] for c in range(K)), q.new_zeros(()))
        case "scaled_dot":
            return sum((q[c] * k[c] for c in range(K)), q.new_zeros(())) / math.sqrt(K)
        case "general":
            return sum(
                (q[a] * w["weight"][a, b] * k[b] for a in range(K) for b in range(K)), q.new_zeros(())
            )  # q^T W k
        case "additive":
            return (w["vector"] * torch.tanh(w["query"] @ q + w["key"] @ k)).sum()
        case "concat":
            return (w["vector"] * torch.tanh(w["weight"] @ torch.cat([q, k]))).sum()
    return w["log_sharpness"].exp() * (q * k).sum() / ((q * q).sum() * (k * k).sum()).sqrt()


@pytest.mark.parametrize("score", list(SCORINGS))
def test_scores_in_heads_are_loops_over_heads_and_pairs(score: str) -> None:
    """Two sentences of 4 and 2 tokens; the values and the gradients of all weights."""
    layer, lengths = build(score), torch.tensor([4, 2])
    x = torch.randn(2, 4, D, dtype=torch.float64).requires_grad_()
    layout = Padded(lengths, 4)
    found = layer(x, x, layout.pattern(layout))
    heads = []
    for b, length in enumerate(lengths.tolist()):
        q, k, v = (part(x[b]).view(4, H, K) for part in (layer.query, layer.key, layer.value))
        for t in range(4):
            for h in range(H):
                e = torch.stack([score_by_hand(layer, score, q[t, h], k[s, h]) for s in range(length)])
                weights = e.exp() / e.exp().sum()
                heads.append(sum((weights[s] * v[s, h] for s in range(length)), v.new_zeros(K)))
    expected = layer.output(torch.stack(heads).view(2, 4, H * K))
    torch.testing.assert_close(found, expected)
    upstream, wanted = torch.randn_like(found), [x, *layer.parameters()]
    for one, other in zip(*(torch.autograd.grad(y, wanted, upstream) for y in (found, expected)), strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


def test_the_scaled_dot_product_handed_in_is_the_one_within() -> None:
    weighed = build("scaled_dot")
    fused = MultiHeadAttention(D, H, head_dim=K).double()
    fused.load_state_dict(weighed.state_dict())
    x, layout = torch.randn(2, 5, D, dtype=torch.float64), Padded(torch.tensor([5, 3]), 5)
    for causal in (False, True):
        pattern = layout.pattern(layout, causal)
        real = layout.not_padding
        torch.testing.assert_close(weighed(x, x, pattern)[real], fused(x, x, pattern)[real])


@pytest.mark.parametrize("window", [0, 2])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("score", "position_bias"), CASES)
def test_every_sight_weighs_alike(score: str, position_bias: str, causal: bool, window: int) -> None:
    layer, lengths = build(score, position_bias), torch.tensor([67, 1, 40])
    x, padded = torch.randn(3, 67, D, dtype=torch.float64), Padded(lengths, 67)
    recording = RecordingPattern(padded, padded, causal, window)
    expected = layer(x, x, recording)[padded.not_padding]
    torch.testing.assert_close(layer(x, x, padded.pattern(padded, causal, window))[padded.not_padding], expected)
    packed = Packed.of(padded.positions.expand(3, 67), lengths).layout
    assert isinstance(packed, Packed)
    stream = x[padded.not_padding]
    torch.testing.assert_close(layer(stream, stream, packed.pattern(packed, causal, window)), expected)
    (weights,) = recording.weights
    torch.testing.assert_close(
        weights.sum(-1).transpose(1, 2)[padded.not_padding], torch.ones(108, H, dtype=torch.float64)
    )
    assert not weights.masked_select(~recording.mask).any()


@pytest.mark.parametrize("window", [0, 2])
@pytest.mark.parametrize(("score", "position_bias"), CASES)
def test_one_position_at_a_time_finds_the_same(score: str, position_bias: str, window: int) -> None:
    """Three hypotheses of two sentences beside each other."""
    layer, x = build(score, position_bias), torch.randn(6, 7, D, dtype=torch.float64)
    layout = Padded(torch.full((6,), 7), 7)
    expected = layer(x, x, layout.pattern(layout, causal=True, window=window)).view(2, 3, 7, D)
    past = layer.start(2, like=x, window=window).reorder(torch.zeros(2, 3, dtype=torch.long))
    for t in range(7):
        found, past = layer.step(x.view(2, 3, 7, D)[:, :, t], past)
        torch.testing.assert_close(found, expected[:, :, t])


@pytest.mark.parametrize(("num_heads", "head_dim"), [(1, 8), (1, 20), (3, 2), (4, 5)])
def test_heads_have_any_width(num_heads: int, head_dim: int) -> None:
    layer = MultiHeadAttention(D, num_heads, head_dim=head_dim)
    assert layer.query.weight.shape == (num_heads * head_dim, D) and layer.output.weight.shape[0] == D
    x, layout = torch.randn(2, 5, D), Padded(torch.tensor([5, 3]), 5)
    assert layer(x, x, layout.pattern(layout)).shape == x.shape
    with pytest.raises(ValueError, match="does not divide into 3 heads"):
        MultiHeadAttention(D, 3)


def test_scores_drop_attention_in_training_alone() -> None:
    layer, x = build("additive"), torch.randn(2, 5, D, dtype=torch.float64)
    layer.dropout = 0.5
    layout = Padded(torch.tensor([5, 3]), 5)
    pattern = layout.pattern(layout)
    assert not torch.allclose(layer(x, x, pattern), layer(x, x, pattern))
    layer.eval()
    torch.testing.assert_close(layer(x, x, pattern), layer(x, x, pattern))
