"""Token embeddings, and the projection of hidden states to the vocabulary."""

import torch
import torch.nn.functional as F

from regard.layers.embeddings import OutputProjection, TokenEmbedding


def test_logits_are_the_product_with_and_without_a_bias() -> None:
    torch.manual_seed(0)
    hidden, weight, bias = (torch.randn(*shape, dtype=torch.float64) for shape in ((2, 3, 4), (7, 4), (7,)))
    torch.testing.assert_close(OutputProjection(hidden, weight).logits(), F.linear(hidden, weight))
    torch.testing.assert_close(OutputProjection(hidden, weight, bias).logits(), F.linear(hidden, weight, bias))


def test_a_bias_is_one_more_column_and_rows_stay_aligned() -> None:
    torch.manual_seed(0)
    hidden, weight = OutputProjection(torch.randn(3, 8), torch.randn(5, 8), torch.randn(5)).without_bias()
    assert hidden.shape == (3, 16) and weight.shape == (5, 16)


def test_a_projection_has_the_matrix_and_the_bias_of_its_embedding() -> None:
    embedding = TokenEmbedding(5, 4, bias=True)
    projection = embedding.project(torch.zeros(2, 4))
    assert projection.weight is embedding.weight and projection.bias is embedding.bias and projection.samples is None


def test_the_scale_of_an_embedding_can_be_set() -> None:
    ids = torch.tensor([1, 2])
    for scale, expected in ((None, 2.0), (1.0, 1.0)):
        embedding = TokenEmbedding(5, 4, scale=scale)
        torch.testing.assert_close(embedding(ids), embedding.weight[ids] * expected)
