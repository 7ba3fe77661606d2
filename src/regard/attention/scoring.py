"""Attention scores as modules: they hold the weights of the equations in scores.py.

In decoding, keys stay the same while queries come one by one. So a score has two stages: `keys(k)` computes what
depends on the keys alone, once a sentence, and `forward(q, prepared)` the rest. Together they are the equation:

    scoring(q, scoring.keys(k)) = score(q, k, weights)

`...` are any leading dimensions: a recurrent decoder has (B, T, Q), multi-head attention (B, H, T, K), with one score
for all heads. Weights are initialised as in Glorot & Bengio 2010.

q (..., T, Q) queries, k (..., S, K) keys -> scores (..., T, S); A hidden size.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.scores import dot, scaled_dot, tanh_score
from regard.plugins import Registry

# Of a cosine at the start: the best key has e^20 times the weight of the worst, and e^3 times that at 45 degrees.
SHARPNESS = 10.0


class Scoring(nn.Module):
    """A score of queries and keys of these sizes; `hidden` is the size of its hidden layer, if it has one."""

    def __init__(self, query_dim: int, key_dim: int, hidden: int) -> None:
        super().__init__()

    def keys(self, k: Tensor) -> Tensor:
        """Prepare the keys, without the queries: (..., S, K) -> (..., S, *)."""
        return k

    def forward(self, q: Tensor, prepared: Tensor) -> Tensor:
        """Score queries (..., T, Q) and prepared keys -> (..., T, S)."""
        raise NotImplementedError


class Dot(Scoring):
    """q^T k."""

    def __init__(self, query_dim: int, key_dim: int, hidden: int) -> None:
        super().__init__(query_dim, key_dim, hidden)
        check_equal("dot", query_dim, key_dim)

    def forward(self, q: Tensor, prepared: Tensor) -> Tensor:
        return dot(q, prepared)


class ScaledDot(Scoring):
    """q^T k / sqrt(K)."""

    def __init__(self, query_dim: int, key_dim: int, hidden: int) -> None:
        super().__init__(query_dim, key_dim, hidden)
        check_equal("scaled_dot", query_dim, key_dim)

    def forward(self, q: Tensor, prepared: Tensor) -> Tensor:
        return scaled_dot(q, prepared)


class General(Scoring):
    """q^T W k; W k is computed once."""

    def __init__(self, query_dim: int, key_dim: int, hidden: int) -> None:
        super().__init__(query_dim, key_dim, hidden)
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(query_dim, key_dim)))

    def keys(self, k: Tensor) -> Tensor:
        return F.linear(k, self.weight)

    def forward(self, q: Tensor, prepared: Tensor) -> Tensor:
        return dot(q, prepared)


class Additive(Scoring):
    """v^T tanh(W q + U k); U k is computed once."""

    def __init__(self, query_dim: int, key_dim: int, hidden: int) -> None:
        super().__init__(query_dim, key_dim, hidden)
        self.query = nn.Parameter(nn.init.xavier_uniform_(torch.empty(hidden, query_dim)))
        self.key = nn.Parameter(nn.init.xavier_uniform_(torch.empty(hidden, key_dim)))
        self.vector = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, hidden))[0])

    def keys(self, k: Tensor) -> Tensor:
        return F.linear(k, self.key)

    def forward(self, q: Tensor, prepared: Tensor) -> Tensor:
        return tanh_score(F.linear(q, self.query), prepared, self.vector)


class Concat(Scoring):
    """v^T tanh(W [q; k]); the product of the right half of W and the keys is computed once."""

    def __init__(self, query_dim: int, key_dim: int, hidden: int) -> None:
        super().__init__(query_dim, key_dim, hidden)
        self.query_dim = query_dim
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(hidden, query_dim + key_dim)))
        self.vector = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, hidden))[0])

    def keys(self, k: Tensor) -> Tensor:
        return F.linear(k, self.weight[:, self.query_dim :])

    def forward(self, q: Tensor, prepared: Tensor) -> Tensor:
        return tanh_score(F.linear(q, self.weight[:, : self.query_dim]), prepared, self.vector)


class Cosine(Scoring):
    """beta q^T k / (|q| |k|), with a sharpness beta that is learned (Graves et al. 2014, equations 5 and 6).

    A cosine is at most 1, and a softmax of such scores is nearly flat; beta = exp(b) makes it sharper. Keys are
    normalised once.
    """

    def __init__(self, query_dim: int, key_dim: int, hidden: int) -> None:
        super().__init__(query_dim, key_dim, hidden)
        check_equal("cosine", query_dim, key_dim)
        self.log_sharpness = nn.Parameter(torch.tensor(math.log(SHARPNESS)))

    def keys(self, k: Tensor) -> Tensor:
        return F.normalize(k, dim=-1)

    def forward(self, q: Tensor, prepared: Tensor) -> Tensor:
        return self.log_sharpness.exp() * dot(F.normalize(q, dim=-1), prepared)


SCORINGS: Registry[type[Scoring]] = Registry(
    "score",
    {"scaled_dot": ScaledDot, "dot": Dot, "general": General, "additive": Additive, "concat": Concat, "cosine": Cosine},
)
"""Every attention score by its name in a recipe."""


def register_score(name: str) -> Callable[[type[Scoring]], type[Scoring]]:
    """Add an attention score: use `@register_score("name")` on a subclass of `Scoring`."""
    return SCORINGS.adder(name)


def check_equal(score: str, query_dim: int, key_dim: int) -> None:
    """Refuse queries and keys of different sizes: some scores multiply them component by component."""
    if query_dim != key_dim:
        raise ValueError(
            f"score = {score} needs queries and keys of equal size, not {query_dim} and {key_dim}; "
            "general, additive and concat take any sizes"
        )
