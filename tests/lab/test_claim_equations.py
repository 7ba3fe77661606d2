"""Equations that claims of the study notes are about: attention, layers, gates, derivatives, norms, perplexity."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.functional import jacobian

from regard.attention.attend import attend
from regard.attention.layouts import Padded
from regard.attention.multihead import MultiHeadAttention
from regard.lab.experiments.gates import reset_before
from regard.layers.blocks import FeedForward
from regard.layers.norms import LayerNorm
from regard.layers.positions import sinusoid
from regard.layers.residual import PostNorm, PreNorm

B, T, D, H = 2, 5, 8, 2


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def multi_head() -> MultiHeadAttention:
    torch.manual_seed(0)
    return MultiHeadAttention(D, H).double()


def self_attention(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    layout = Padded(torch.full((len(x),), x.size(1)), x.size(1))
    return layer(x, x, layout.pattern(layout))


def test_queries_keys_and_values_are_products_with_learned_matrices() -> None:
    """Q, K and V differ for different inputs; W_Q, W_K and W_V are the parameters."""
    layer, names = multi_head(), {"query.weight", "key.weight", "value.weight", "output.weight"}
    assert {name for name, weight in layer.named_parameters() if weight.dim() == 2} == names
    first, second = (layer.query(random(T, D, seed=seed)) for seed in (1, 2))
    assert not torch.allclose(first, second)


def test_there_is_one_output_per_query_as_wide_as_a_value() -> None:
    q, k, v = random(1, 3, 4), random(1, 10, 4, seed=1), random(1, 10, 7, seed=2)
    out, weights = attend(q, k, v)
    assert out.shape == (1, 3, 7) and weights.shape == (1, 3, 10)
    with pytest.raises(RuntimeError):
        attend(q, random(1, 10, 5), v)


def test_multi_head_attention_is_that_of_torch() -> None:
    """Concat(head_1, ..., head_h) W^O, with a softmax in each head."""
    layer, x = multi_head(), random(B, T, D)
    torchs = nn.MultiheadAttention(D, H, batch_first=True).double()
    with torch.no_grad():
        torchs.in_proj_weight.copy_(torch.cat([layer.query.weight, layer.key.weight, layer.value.weight]))
        torchs.in_proj_bias.copy_(torch.cat([layer.query.bias, layer.key.bias, layer.value.bias]))
        torchs.out_proj.load_state_dict(layer.output.state_dict())
    torch.testing.assert_close(self_attention(layer, x), torchs(x, x, x)[0])


def test_one_wide_projection_holds_all_heads() -> None:
    """Splitting x W is x W_1, ..., x W_h: every head sees the whole x."""
    x, w = random(T, D), random(D, D, seed=1)
    split = (x @ w).view(T, H, D // H)
    for head, columns in enumerate(w.chunk(H, dim=1)):
        torch.testing.assert_close(split[:, head], x @ columns)


def test_attention_is_not_linear() -> None:
    layer, x = multi_head(), random(B, T, D)
    linear = x @ random(D, D, seed=1)
    torch.testing.assert_close(2 * linear, (2 * x) @ random(D, D, seed=1))
    with torch.no_grad():
        for part in (layer.query, layer.key, layer.value, layer.output):
            part.bias.zero_()
    assert not torch.allclose(self_attention(layer, 2 * x), 2 * self_attention(layer, x), rtol=1e-3)


def test_shuffled_keys_and_values_give_the_same_output() -> None:
    q, k, v = random(1, T, D), random(1, T, D, seed=1), random(1, T, D, seed=2)
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(attend(q, k[:, order], v[:, order])[0], attend(q, k, v)[0])


def test_without_positions_shuffled_input_gives_shuffled_output() -> None:
    layer, x, order = multi_head(), random(B, T, D), torch.tensor([3, 0, 4, 1, 2])
    out, shuffled = self_attention(layer, x), self_attention(layer, x[:, order])
    torch.testing.assert_close(shuffled, out[:, order])
    torch.testing.assert_close(shuffled.mean(dim=1), out.mean(dim=1))
    assert not torch.allclose(shuffled, out)


def test_position_vectors_are_unique_and_shift_linearly() -> None:
    """PE(p + k) = R(k) PE(p) with a rotation R(k) that is the same for every p."""
    size, offset = 512, 7
    vectors = sinusoid(torch.arange(2000), size).double()
    assert len(torch.unique(vectors.float(), dim=0)) == len(vectors)
    angles = offset / 10000 ** (torch.arange(0, size, 2, dtype=torch.float64) / size)
    rotation = torch.block_diag(*(torch.tensor([[a.cos(), -a.sin()], [a.sin(), a.cos()]]) for a in angles)).double()
    torch.testing.assert_close(vectors[:-offset] @ rotation, vectors[offset:], atol=5e-4, rtol=0)


def test_an_embedding_is_a_product_with_a_one_hot_vector() -> None:
    table, ids = nn.Embedding(10, D).double(), torch.tensor([3, 9, 3])
    torch.testing.assert_close(table(ids), F.one_hot(ids, 10).double() @ table.weight)


def test_a_residual_adds_the_identity_to_the_derivative() -> None:
    """d(x + f(x))/dx = I + f'(x): in a deep chain of small f the gradient lives, without the sum it dies."""
    w, x = 0.1 * random(D, D), random(D, seed=1)
    plain = jacobian(lambda x: (x @ w).tanh(), x)
    torch.testing.assert_close(jacobian(lambda x: x + (x @ w).tanh(), x), torch.eye(D, dtype=torch.float64) + plain)

    def gradient(residual: bool) -> float:
        start = x.clone().requires_grad_()
        y = start
        for _ in range(50):
            y = (y @ w).tanh() + (y if residual else 0)
        y.sum().backward()
        assert start.grad is not None
        return float(start.grad.norm())

    assert gradient(residual=False) < 1e-10 < 0.1 < gradient(residual=True)


def test_a_sublayer_of_zeros_keeps_its_input() -> None:
    x = random(B, T, D)
    norm = LayerNorm(D).double()
    torch.testing.assert_close(PreNorm(norm, 0.0).post(x, torch.zeros_like(x)), x)
    torch.testing.assert_close(PostNorm(norm, 0.0).post(x, torch.zeros_like(x)), F.layer_norm(x, (D,)))


def test_shapes_of_means_in_batch_and_layer_norm() -> None:
    """Batch norm has a mean per feature, (1, f) or (1, 1, f); layer norm one per example or token, (bs, seq, 1)."""
    x = random(B, T, D)
    flat = x[:, 0]
    expected = (flat - flat.mean(0, keepdim=True)) / (flat.var(0, correction=0, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(nn.BatchNorm1d(D).double()(flat), expected)
    mean, variance = x.mean((0, 1), keepdim=True), x.var((0, 1), correction=0, keepdim=True)
    assert mean.shape == (1, 1, D)
    ours = nn.BatchNorm1d(D).double()(x.transpose(1, 2)).transpose(1, 2)
    torch.testing.assert_close(ours, (x - mean) / (variance + 1e-5).sqrt())
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)
    assert mean.shape == (B, T, 1)
    torch.testing.assert_close(LayerNorm(D).double()(x), (x - mean) / (variance + 1e-5).sqrt())
    torch.testing.assert_close(LayerNorm(D).double()(x[:1]), LayerNorm(D).double()(x)[:1])


def test_the_feed_forward_network_is_the_same_at_every_position() -> None:
    """The same vector gives the same output at any position, whatever the others are."""
    network, x = FeedForward(D, 4 * D).double(), random(B, T, D)
    x[0, 3] = x[0, 1]
    out = network(x)
    torch.testing.assert_close(out[0, 3], out[0, 1])
    other = x.clone()
    other[0, 2] += 1
    torch.testing.assert_close(network(other)[0, [0, 1, 3, 4]], out[0, [0, 1, 3, 4]])
    by_hand = (x @ network.fc1.weight.T + network.fc1.bias).clamp(min=0) @ network.fc2.weight.T + network.fc2.bias
    torch.testing.assert_close(out, by_hand)


def test_limits_of_a_gru() -> None:
    """h' = z h + (1 - z) tanh(x + (r h) U + d): r = 1 and z = 0 is an RNN; r = 0 leaves an MLP of the input."""
    x, h, u, d = random(B, D), random(B, D, seed=1), random(D, D, seed=2), random(D, seed=3)

    def state(r: float, z: float) -> Tensor:
        return z * h + (1 - z) * (x + reset_before(h, torch.full_like(h, r), u, d)).tanh()

    rnn = (x + h @ u.T + d).tanh()
    torch.testing.assert_close(state(1, 0), rnn)
    assert not torch.allclose(state(1, 0.5), rnn), "r = 1 alone is no RNN"
    torch.testing.assert_close(state(0, 0), (x + d).tanh())
    torch.testing.assert_close(state(0, 1), h)


def test_norms() -> None:
    x, matrix = torch.tensor([1.0, -1.0, 2.0], dtype=torch.float64), random(3, 4)
    assert torch.linalg.vector_norm(x, 1) == x.abs().sum() == 4 != x.sum()
    torch.testing.assert_close(torch.linalg.vector_norm(x, 2), x.square().sum().sqrt())
    torch.testing.assert_close(torch.linalg.matrix_norm(matrix, "fro"), matrix.square().sum().sqrt())


def test_subderivatives() -> None:
    """g is one if f(y) >= f(0) + g y for all y: [-1, 1] for |x| and [0, 1] for ReLU; torch takes 0."""
    y = torch.linspace(-2, 2, 101, dtype=torch.float64)
    for function, lowest, highest in ((torch.abs, -1.0, 1.0), (F.relu, 0.0, 1.0)):
        for slope in (lowest, (lowest + highest) / 2, highest):
            assert bool((function(y) >= slope * y - 1e-12).all())
        for slope in (lowest - 0.1, highest + 0.1):
            assert not bool((function(y) >= slope * y - 1e-12).all())
        x = torch.zeros((), requires_grad=True)
        function(x).backward()
        assert x.grad == 0


def test_shapes_of_derivatives() -> None:
    x = torch.tensor(2.0, requires_grad=True)
    (x**2).backward()
    assert x.grad == 4
    vector, w = random(2), random(3, 2, seed=1)
    torch.testing.assert_close(jacobian(lambda v: v.square().sum(), vector), 2 * vector)
    torch.testing.assert_close(
        jacobian(lambda t: torch.stack([2 * t, 3 * t]), torch.tensor(1.0)), torch.tensor([2.0, 3.0])
    )
    torch.testing.assert_close(jacobian(lambda v: w @ v, vector), w)


def test_the_gradient_is_orthogonal_to_contours() -> None:
    """f = x1^2 + 3 x2^2 on its contour f = 1; a small step along the gradient gains more than any other."""

    def function(p: Tensor) -> Tensor:
        return p[..., 0].square() + 3 * p[..., 1].square()

    for angle in (0.3, 1.0, 2.5):
        point = torch.tensor([math.cos(angle), math.sin(angle) / math.sqrt(3)], dtype=torch.float64)
        tangent = torch.tensor([-math.sin(angle), math.cos(angle) / math.sqrt(3)], dtype=torch.float64)
        gradient = jacobian(function, point)
        assert abs(float(gradient @ tangent)) < 1e-12
        turns = torch.linspace(0, 2 * math.pi, 361, dtype=torch.float64)
        steps = torch.stack([turns.cos(), turns.sin()], dim=1)
        best = steps[function(point + 1e-4 * steps).argmax()]
        assert float(best @ gradient) > 0.999 * float(gradient.norm())


def test_the_gradient_of_a_mean_is_that_of_the_sum_over_n() -> None:
    x, y, w = random(10, 3), random(10, seed=1), random(3, seed=2)
    mean, total = (
        jacobian(lambda w, r=reduction: F.mse_loss(x @ w, y, reduction=r), w) for reduction in ("mean", "sum")
    )
    torch.testing.assert_close(10 * mean, total)


def test_eval_and_no_grad_are_independent() -> None:
    x = torch.ones(1000, requires_grad=True)
    dropout = nn.Dropout(0.5)
    with torch.no_grad():
        assert (dropout(x) == 0).any() and not dropout(x).requires_grad, "no_grad drops still"
    dropout.eval()
    assert (dropout(x) == 1).all() and dropout(x).requires_grad, "eval records still"


def test_bounds_of_perplexity() -> None:
    logits, target = torch.tensor([[100.0, 0.0, 0.0]]), torch.tensor([0])
    assert F.cross_entropy(logits, target).exp() == 1
    assert F.cross_entropy(torch.tensor([[-math.inf, 0.0, 0.0]]), target).exp() == math.inf
