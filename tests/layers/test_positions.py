"""Relative positions and ALiBi against loops and published numbers; positions beside the words instead of on them."""

import math

import pytest
import torch
from torch import Tensor

from regard.attention.layouts import Padded
from regard.attention.multihead import MultiHeadAttention
from regard.attention.scored_attention import PositionBias, ScoredAttention
from regard.attention.scoring import ScaledDot
from regard.layers.positions import (
    NEAR,
    ALiBi,
    Concatenated,
    Learned,
    LinearBias,
    NoPositions,
    Relative,
    RelativeVectors,
    Rotary,
    Sinusoidal,
    angles,
    sinusoid,
    slopes,
)

T, H, K = 6, 2, 4


def qkv() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(H, T, K, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(3))
    return q, k, v


def distances(size: int = T) -> Tensor:
    places = torch.arange(size)
    return places - places[:, None]


def function(
    position_bias: PositionBias, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    return ScoredAttention(ScaledDot(K, K, K), position_bias)(q, k, v, distances(), mask, 0.0)


def shaw_by_hand(vectors: RelativeVectors, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Equations 3 and 4 of Shaw et al. 2018, one number after the other."""
    farthest, out = vectors.max_distance, []
    for h in range(H):
        for i in range(T):
            visible = [j for j in range(T) if mask[i, j]]
            rows = [max(-farthest, min(farthest, j - i)) + farthest for j in visible]
            e = torch.zeros(len(visible), dtype=torch.float64)
            for place, (j, row) in enumerate(zip(visible, rows, strict=True)):
                for c in range(K):
                    e[place] += q[h, i, c] * (k[h, j, c] + vectors.key[row, c]) / math.sqrt(K)
            weights = e.exp() / e.exp().sum()
            z = torch.zeros(K, dtype=torch.float64)
            for weight, j, row in zip(weights, visible, rows, strict=True):
                z = z + weight * (v[h, j] + vectors.value[row])
            out.append(z)
    return torch.stack(out).view(H, T, K)


@pytest.mark.parametrize("causal", [False, True])
def test_relative_positions_are_shaws_equations_with_their_gradients(causal: bool) -> None:
    torch.manual_seed(0)
    vectors = RelativeVectors(K, max_distance=2).double()
    mask = torch.ones(T, T, dtype=torch.bool)
    mask = mask.tril() if causal else mask
    q, k, v = qkv()
    found, expected = function(vectors, q, k, v, mask)[0], shaw_by_hand(vectors, q, k, v, mask)
    torch.testing.assert_close(found, expected)
    upstream = torch.randn_like(found)
    wanted = [q, k, v, vectors.key, vectors.value]
    for one, other in zip(*(torch.autograd.grad(x, wanted, upstream) for x in (found, expected)), strict=True):
        torch.testing.assert_close(one, other)


def test_relative_vectors_are_shared_by_heads_and_by_all_that_is_far() -> None:
    torch.manual_seed(0)
    vectors = RelativeVectors(K, max_distance=2).double()
    assert vectors.key.shape == vectors.value.shape == (5, K)
    assert vectors.clipped(torch.tensor([-9, -2, -1, 0, 1, 2, 7])).tolist() == [0, 0, 1, 2, 3, 4, 4]
    q = torch.randn(1, 1, K, dtype=torch.float64).expand(H, T, K)
    scores = vectors.scores(q, distances())
    torch.testing.assert_close(scores[0], scores[1])
    torch.testing.assert_close(scores[0, 0, 2:], scores[0, 0, 2].expand(T - 2))


@pytest.mark.parametrize(
    ("num_heads", "published"),
    [
        (1, [2**-8]),
        (8, [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]),
        (
            12,
            [
                0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625,
                0.7071067811865476, 0.35355339059327384, 0.17677669529663692, 0.08838834764831849,
            ],
        ),
    ],
)  # fmt: skip
def test_slopes_are_the_papers(num_heads: int, published: list[float]) -> None:
    assert slopes(num_heads) == pytest.approx(published)
    assert len(set(slopes(num_heads))) == num_heads


def test_alibi_lowers_scores_by_the_distance_in_either_direction() -> None:
    q, k, v = (x.detach() for x in qkv())
    bias = LinearBias(H)
    assert not list(bias.parameters()) and not bias.state_dict()
    out, weights = function(bias, q, k, v)
    for h, slope in enumerate(slopes(H)):
        for i in range(T):
            e = [float(q[h, i] @ k[h, j]) / math.sqrt(K) - slope * abs(i - j) for j in range(T)]
            total = sum(math.exp(score) for score in e)
            expected = [math.exp(score) / total for score in e]
            torch.testing.assert_close(weights[h, i], torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(out, weights @ v)


@pytest.mark.parametrize("scheme", [NoPositions(), Rotary(), Relative(K, 3), ALiBi(H)], ids=lambda x: type(x).__name__)
def test_schemes_between_tokens_leave_the_words_alone(scheme: NoPositions) -> None:
    x = torch.randn(2, T, 8)
    assert torch.equal(x + scheme(torch.arange(T)), x)


@pytest.mark.parametrize("scheme", [Relative(K, 2), ALiBi(H), Rotary()], ids=lambda x: type(x).__name__)
def test_only_distances_count(scheme: Relative | ALiBi | Rotary) -> None:
    """Equal words with equal neighbours get equal results later in a text."""
    torch.manual_seed(0)
    position_bias = scheme.position_bias()
    scored_attention = None if position_bias is None else ScoredAttention(ScaledDot(K, K, K), position_bias)
    layer = MultiHeadAttention(H * K, H, rotate=scheme.rotate, scored_attention=scored_attention).double()
    x = torch.randn(1, 1, H * K, dtype=torch.float64).expand(1, 30, -1).clone()
    x[:, 9:12], x[:, 19:22] = (torch.randn(1, 3, H * K, dtype=torch.float64),) * 2
    layout = Padded(torch.tensor([30]), 30)
    out = layer(x, x, layout.pattern(layout, window=4))
    torch.testing.assert_close(out[:, 6:14], out[:, 16:24], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(out[:, 9], out[:, 11])


def test_each_layer_has_relative_vectors_of_its_own() -> None:
    scheme = Relative(K, 3)
    assert not list(scheme.parameters())
    one, other = scheme.position_bias(), scheme.position_bias()
    assert one.key is not other.key and not torch.equal(one.key, other.key)


def test_concatenation_is_one_matrix_over_word_and_position() -> None:
    torch.manual_seed(0)
    combine = Concatenated(8)
    x, p = torch.randn(3, 5, 8), sinusoid(torch.arange(5), 8)
    matrix = torch.cat([combine.word.weight, combine.position.weight], dim=1).T  # (2 D, D)
    torch.testing.assert_close(combine(x, p), torch.cat([x, p.expand_as(x)], dim=-1) @ matrix)
    for linear in (combine.word, combine.position):
        linear.weight.data.copy_(torch.eye(8))
    torch.testing.assert_close(combine(x, p), x + p)


def test_only_learned_positions_end() -> None:
    far = torch.arange(3000, 3004)
    for scheme in (Sinusoidal(8), NoPositions(), Rotary(), Relative(K, 2), ALiBi(H)):
        assert torch.isfinite(scheme(far)).all()
    with pytest.raises(ValueError, match="beyond the 16 learned"):
        Learned(8, 16)(far)


@pytest.mark.parametrize(("first", "last", "bound"), [(0, 4_095, 1.5e-4), (4_096, 20_000, 1e-6), (10**6, 10**7, 1e-6)])
def test_sinusoids_are_the_formula_up_to_rounding_of_the_angle(first: int, last: int, bound: float) -> None:
    positions, d_model = torch.linspace(first, last, 300, dtype=torch.float64).long(), 64
    turned = positions.double()[:, None] / 10_000 ** (torch.arange(0, d_model, 2).double() / d_model)
    expected = torch.stack([turned.sin(), turned.cos()], dim=-1).flatten(-2)
    assert float((sinusoid(positions, d_model).double() - expected).abs().max()) < bound
    assert torch.equal(sinusoid(torch.tensor([last]), d_model)[0], sinusoid(positions, d_model)[-1])


def test_near_positions_keep_the_bits_of_products_in_float32() -> None:
    """Models were trained with these values."""
    positions = torch.arange(NEAR)
    rates = torch.exp(torch.arange(0, 64, 2) * (-math.log(10_000.0) / 64))
    products = positions[:, None] * rates
    assert torch.equal(angles(positions, 64), products)
    assert torch.equal(sinusoid(positions, 64), torch.stack([products.sin(), products.cos()], dim=-1).flatten(-2))


def test_rotary_positions_are_exact_far_away() -> None:
    """The product of two rotated vectors depends on their distance alone, also beyond position 4,096."""
    x, y = torch.randn(2, 1, 1, 16, generator=torch.Generator().manual_seed(1))
    near, far = (
        Rotary().rotate(x, torch.tensor([start])) @ Rotary().rotate(y, torch.tensor([start + 3])).mT
        for start in (10, 500_000)
    )
    torch.testing.assert_close(near, far, atol=1e-5, rtol=0)
