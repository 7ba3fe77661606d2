"""Positions and residuals against their formulas."""

import math

import torch

from regard.layers.embeddings import TokenEmbedding
from regard.layers.norms import LayerNorm
from regard.layers.positions import Rotary, sinusoid
from regard.layers.residual import PostNorm, PreNorm


def test_sinusoids_are_the_papers() -> None:
    table = sinusoid(torch.arange(50), 16)
    for position in (0, 1, 7, 49):
        for i in range(8):
            angle = position / 10000 ** (2 * i / 16)
            assert math.isclose(table[position, 2 * i], math.sin(angle), abs_tol=1e-5)
            assert math.isclose(table[position, 2 * i + 1], math.cos(angle), abs_tol=1e-5)


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(1, 1, 8, dtype=torch.float64), torch.randn(1, 1, 8, dtype=torch.float64)
    rotate = Rotary().rotate

    def score(m: int, n: int) -> float:
        return float((rotate(q, torch.tensor([m])) * rotate(k, torch.tensor([n]))).sum())

    assert math.isclose(score(3, 1), score(13, 11), rel_tol=1e-4)
    assert not math.isclose(score(3, 1), score(3, 2), rel_tol=1e-3)
    torch.testing.assert_close(rotate(q, torch.tensor([0])), q)
    torch.testing.assert_close(rotate(q, torch.tensor([9])).norm(), q.norm())


def test_residuals_are_the_two_orders() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(3, 8), torch.randn(3, 8)
    norm = torch.nn.functional.layer_norm
    post, pre = PostNorm(LayerNorm(8), 0.0), PreNorm(LayerNorm(8), 0.0)
    torch.testing.assert_close(post.post(x, y), norm(x + y, (8,)))
    torch.testing.assert_close(post.pre(x), x)
    torch.testing.assert_close(pre.pre(x), norm(x, (8,)))
    torch.testing.assert_close(pre.post(x, y), x + y)


def test_embedding_reads_scaled_and_scores_unscaled() -> None:
    torch.manual_seed(0)
    embedding = TokenEmbedding(11, 16)
    torch.testing.assert_close(embedding(torch.tensor([4])), embedding.weight[4:5] * 4)
    x = torch.randn(2, 16)
    torch.testing.assert_close(embedding.scores(x), x @ embedding.weight.T)
    assert abs(float(embedding.weight.detach().std()) - 0.25) < 0.05
