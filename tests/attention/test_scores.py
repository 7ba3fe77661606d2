"""Every score against plain loops in float64 with its gradients, and every module against its equation."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard.attention.scores import additive, concat, cosine, dot, general, scaled_dot
from regard.attention.scoring import SCORINGS, Additive, Concat, Cosine, General

Score = Callable[..., Tensor]
T, S, Q, K, A = 3, 4, 5, 2, 6  # queries, keys, their widths, hidden size


def inner(a: list[Tensor], b: list[Tensor]) -> Tensor:
    return torch.stack([x * y for x, y in zip(a, b, strict=True)]).sum()


def product(w: Tensor, x: list[Tensor]) -> list[Tensor]:
    return [inner(list(row), x) for row in w]


# The equations once more, for one query and one key, number by number.
BY_HAND: dict[str, Score] = {
    "dot": lambda q, k: inner(q, k),
    "scaled_dot": lambda q, k: inner(q, k) / math.sqrt(len(q)),
    "general": lambda q, k, w: inner(q, product(w, k)),
    "additive": lambda q, k, w, u, v: inner(
        list(v), [torch.tanh(a + b) for a, b in zip(product(w, q), product(u, k), strict=True)]
    ),
    "concat": lambda q, k, w, v: inner(list(v), [torch.tanh(a) for a in product(w, [*q, *k])]),
    "cosine": lambda q, k: inner(q, k) / (inner(q, q).sqrt() * inner(k, k).sqrt()),
}
SCORES: dict[str, Score] = {
    "dot": dot,
    "scaled_dot": scaled_dot,
    "general": general,
    "additive": additive,
    "concat": concat,
    "cosine": cosine,
}
WEIGHTS: dict[str, list[tuple[int, ...]]] = {
    "general": [(Q, K)],
    "additive": [(A, Q), (A, K), (A,)],
    "concat": [(A, Q + K), (A,)],
}


def arguments(name: str) -> list[Tensor]:
    """Queries, keys and weights; scores without weights take keys of the queries' width."""
    torch.manual_seed(0)
    shapes = [(2, T, Q), (2, S, K if name in WEIGHTS else Q), *WEIGHTS.get(name, [])]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("name", SCORES)
def test_scores_equal_loops_in_values_and_gradients(name: str) -> None:
    q, k, *weights = arguments(name)
    found = SCORES[name](q, k, *weights)
    by_hand = [
        BY_HAND[name](list(q[b, t]), list(k[b, s]), *weights) for b in range(2) for t in range(T) for s in range(S)
    ]
    expected = torch.stack(by_hand).view(2, T, S)
    torch.testing.assert_close(found, expected)
    gradient = torch.randn(2, T, S, dtype=torch.float64)
    inputs = [q, k, *weights]
    torch.testing.assert_close(
        torch.autograd.grad(found, inputs, gradient), torch.autograd.grad(expected, inputs, gradient)
    )
    assert torch.autograd.gradcheck(SCORES[name], inputs)


def weights_of(scoring: torch.nn.Module) -> list[Tensor]:
    match scoring:
        case General():
            return [scoring.weight]
        case Additive():
            return [scoring.query, scoring.key, scoring.vector]
        case Concat():
            return [scoring.weight, scoring.vector]
    return []


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("leading", [(), (2,), (2, 3)], ids=["bare", "batch", "heads"])
def test_a_scoring_in_two_stages_is_its_equation(name: str, leading: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    key_dim = K if name in WEIGHTS else Q
    scoring = SCORINGS[name](Q, key_dim, A).double()
    q, k = (torch.randn(*leading, n, d, dtype=torch.float64, requires_grad=True) for n, d in ((T, Q), (S, key_dim)))
    found = scoring(q, scoring.keys(k))
    expected = SCORES[name](q, k, *weights_of(scoring))
    if isinstance(scoring, Cosine):
        expected = scoring.log_sharpness.exp() * expected
    assert found.shape == (*leading, T, S)
    torch.testing.assert_close(found, expected)
    inputs = [q, k, *scoring.parameters()]  # every weight takes part
    torch.testing.assert_close(torch.autograd.grad(found.sum(), inputs), torch.autograd.grad(expected.sum(), inputs))


@pytest.mark.parametrize("name", SCORINGS)
def test_keys_are_prepared_sentence_by_sentence(name: str) -> None:
    """A search takes sentences out of what was prepared, so its first dimensions must stay those of the keys."""
    torch.manual_seed(0)
    scoring, k, left = SCORINGS[name](Q, Q, A), torch.randn(3, S, Q), torch.tensor([2, 0])
    torch.testing.assert_close(scoring.keys(k)[left], scoring.keys(k[left]))


@pytest.mark.parametrize("name", ["dot", "scaled_dot", "cosine"])
def test_products_of_unequal_widths_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"score = {name} needs queries and keys of equal size, not 5 and 2; general"):
        SCORINGS[name](Q, K, A)


def test_concat_is_the_additive_score_with_one_matrix() -> None:
    q, k, w, u, v = arguments("additive")
    torch.testing.assert_close(concat(q, k, torch.cat([w, u], dim=1), v), additive(q, k, w, u, v))


def test_cosine_knows_directions_alone_and_nothing_fits_nothing() -> None:
    q, k = arguments("cosine")
    torch.testing.assert_close(cosine(3 * q, k / 7), cosine(q, k))
    torch.testing.assert_close(cosine(q, q).diagonal(dim1=1, dim2=2), torch.ones(2, T, dtype=torch.float64))
    nothing = torch.zeros(1, Q, requires_grad=True)
    cosine(nothing, nothing).sum().backward()
    assert cosine(nothing, nothing).item() == 0.0
    assert nothing.grad is not None and nothing.grad.isfinite().all()
