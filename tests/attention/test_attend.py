"""The equation against plain loops in float64, and every fast path against the equation."""

import math

import torch
from torch import Tensor

from regard.attention.attend import attend, causal_mask, padding_mask
from regard.attention.cache import KVCache
from regard.attention.layouts import Packed, Padded, RecordingPattern
from regard.attention.multihead import MultiHeadAttention
from regard.attention.scores import scaled_dot


def by_hand(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """(T, K), (S, K), (S, K), (T, S): every number on its own."""
    out = torch.zeros(q.size(0), v.size(1), dtype=q.dtype)
    for t in range(q.size(0)):
        visible = [s for s in range(k.size(0)) if mask[t, s]]
        scores = [sum(float(q[t, i] * k[s, i]) for i in range(q.size(1))) / math.sqrt(q.size(1)) for s in visible]
        total = sum(math.exp(score) for score in scores)
        for s, score in zip(visible, scores, strict=True):
            out[t] += math.exp(score) / total * v[s]
    return out


def test_attend_equals_loops_and_empty_rows_give_zeros() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(4, 5, dtype=torch.float64) for _ in range(3))
    mask = torch.rand(4, 4) < 0.6
    mask[2] = False
    out, weights = attend(q, k, v, mask)
    torch.testing.assert_close(out, by_hand(q, k, v, mask))
    assert (out[2] == 0).all() and (weights[2] == 0).all()
    assert (weights[~mask] == 0).all()


def test_gradients_are_right_where_a_row_sees_nothing() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    mask = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
    assert torch.autograd.gradcheck(lambda q, k, v: attend(q, k, v, mask)[0], (q, k, v))


def test_scaled_dot_has_unit_variance_for_unit_inputs() -> None:
    q, k = torch.randn(300, 256, generator=torch.Generator().manual_seed(1)), torch.randn(300, 256)
    assert abs(float(scaled_dot(q, k).std()) - 1) < 0.1


def test_masks() -> None:
    assert causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert padding_mask(torch.tensor([1, 3]), 3).squeeze().tolist() == [[True, False, False], [True, True, True]]


def test_padded_packed_and_watched_sights_equal_the_equation() -> None:
    torch.manual_seed(0)
    lengths, key_lengths = torch.tensor([5, 1, 3]), torch.tensor([2, 4, 4])
    queries, keys = Padded(lengths, 5), Padded(key_lengths, 4)
    q, k, v = torch.randn(3, 5, 2, 8), torch.randn(3, 4, 2, 8), torch.randn(3, 4, 2, 8)
    expected, weights = attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), padding_mask(key_lengths, 4))
    expected = expected.transpose(1, 2)
    pattern = queries.pattern(keys)
    torch.testing.assert_close(pattern.attend(q, k, v, 0.0), expected)
    recording = RecordingPattern(queries, keys, causal=False)
    torch.testing.assert_close(recording.attend(q, k, v, 0.0), expected)
    torch.testing.assert_close(recording.weights[0], weights)
    pq, pk = (
        Packed.of(queries.positions.expand(3, 5), lengths).layout,
        Packed.of(keys.positions.expand(3, 4), key_lengths).layout,
    )
    assert isinstance(pq, Packed) and isinstance(pk, Packed)
    packed = pq.pattern(pk).attend(q[queries.not_padding], k[keys.not_padding], v[keys.not_padding], 0.0)
    torch.testing.assert_close(packed, expected[queries.not_padding])
    assert pq.offsets.tolist() == [0, 5, 6, 9] and pq.positions.tolist() == [0, 1, 2, 3, 4, 0, 0, 1, 2]


def test_cache_gives_what_causal_attention_gives() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 6, 3, 4) for _ in range(3))
    expected = (
        Padded(torch.tensor([6, 6]), 6).pattern(Padded(torch.tensor([6, 6]), 6), causal=True).attend(q, k, v, 0.0)
    )
    past = KVCache.empty(2, 3, 4, like=q)
    for t in range(6):
        past = past.append(k[:, t : t + 1], v[:, t : t + 1])
        torch.testing.assert_close(past.attend(q[:, t : t + 1]), expected[:, t : t + 1])


def test_dropout_falls_on_the_weights_and_keeps_their_mean() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 4, 5, 8).unbind(0)
    plain, weights = attend(q, k, v)
    dropped = torch.stack([attend(q, k, v, dropout=0.5)[0] for _ in range(2000)])
    assert not torch.allclose(dropped[0], plain)
    torch.testing.assert_close(dropped.mean(0), plain, atol=0.1, rtol=0)
    torch.testing.assert_close(attend(q, k, v, dropout=0.5)[1], weights)


def test_one_projection_for_queries_and_keys() -> None:
    """It is a layer whose two projections are equal: its scores are symmetric, and its gradient is the sum of both."""
    torch.manual_seed(0)
    shared, separate = MultiHeadAttention(8, 2, share_qk=True), MultiHeadAttention(8, 2)
    separate.load_state_dict(shared.state_dict())
    x, layout = torch.randn(2, 5, 8), Padded(torch.tensor([5, 5]), 5)
    recording = RecordingPattern(layout, layout, causal=False)
    y, expected = shared(x, x, recording), separate(x, x, layout.pattern(layout))
    torch.testing.assert_close(y, expected)
    scores = recording.stacked().log()  # e_ij - log sum_j exp(e_ij): symmetric but for a number for each row
    scores = scores - scores.diagonal(dim1=-2, dim2=-1)[..., None]
    e = shared.heads(shared.query(x)).transpose(1, 2)
    products = e @ e.transpose(-1, -2) / 2
    torch.testing.assert_close(
        scores[:, 0], products - products.diagonal(dim1=-2, dim2=-1)[..., None], atol=1e-5, rtol=1e-5
    )
    y.square().sum().backward()
    expected.square().sum().backward()
    assert shared.query.weight.grad is not None and separate.query.weight.grad is not None
    assert separate.key.weight.grad is not None
    torch.testing.assert_close(shared.query.weight.grad, separate.query.weight.grad + separate.key.weight.grad)
    assert len(list(shared.parameters())) == 6 and len(list(separate.parameters())) == 8


def test_a_layer_drops_attention_in_training_alone() -> None:
    torch.manual_seed(0)
    dropping, plain = MultiHeadAttention(8, 2, dropout=0.5), MultiHeadAttention(8, 2)
    plain.load_state_dict(dropping.state_dict())
    x, layout = torch.randn(2, 5, 8), Padded(torch.tensor([5, 3]), 5)
    pattern = layout.pattern(layout)
    torch.testing.assert_close(dropping.eval()(x, x, pattern), plain(x, x, pattern))
    dropping.train()
    assert not torch.allclose(dropping(x, x, pattern), plain(x, x, pattern))
    assert not torch.allclose(dropping(x, x, pattern), dropping(x, x, pattern))
