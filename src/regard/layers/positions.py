"""Positions: attention by itself sees a set, so the order of the words has to be told to it.

A positional scheme is a part with three hooks, and uses one of them:

    forward(positions)     what is combined with the embeddings    sinusoidal, learned
    rotate(x, positions)   how queries and keys are turned         rotary
    between()              what lies between two tokens of a       relative, ALiBi
                           layer's self-attention (attention/weighing.py); asked for once a layer

B sentences, T queries, S keys, D model, H heads, K head size.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.multihead import unrotated
from regard.attention.scored_attention import PositionBias


def sinusoid(positions: Tensor, d_model: int) -> Tensor:
    """(T,) -> (T, D), Vaswani et al. 2017, section 3.5:

        PE(pos, 2i)     = sin(pos / 10000^(2i / d_model))
        PE(pos, 2i + 1) = cos(pos / 10000^(2i / d_model))

    Each pair of components is a clock hand; PE(pos + k) is a rotation of PE(pos), the same for every pos.
    """
    angles = positions[..., None] * frequencies(d_model, positions.device)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def frequencies(size: int, device: torch.device) -> Tensor:
    """1 / 10000^(2i / size) for i = 0 .. size/2 - 1."""
    return torch.exp(torch.arange(0, size, 2, device=device) * (-math.log(10000.0) / size))


class Positions(nn.Module):
    """The three hooks, none of them used."""

    rotate = staticmethod(unrotated)

    def forward(self, positions: Tensor) -> Tensor:
        return positions.new_zeros(())

    def position_bias(self) -> PositionBias | None:
        return None


class NoPositions(Positions):
    """Tell nothing: the encoder sees a bag of words; the decoder still has its causal mask."""


class Sinusoidal(Positions):
    """Fixed sinusoids, combined with the embeddings; defined for any length."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def forward(self, positions: Tensor) -> Tensor:
        return sinusoid(positions, self.d_model)


class Learned(Positions):
    """One trained vector for each position up to `max_positions`, combined with the embeddings (section 3.5, table 3
    E); the only scheme that ends somewhere."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_positions, d_model)
        nn.init.normal_(self.table.weight, std=d_model**-0.5)

    def forward(self, positions: Tensor) -> Tensor:
        try:
            return self.table(positions)
        except IndexError as error:
            place = int(positions.max())
            raise ValueError(f"position {place} is beyond the {self.table.num_embeddings} learned ones") from error


class Rotary(Positions):
    """Turn each pair of components of queries and keys by an angle proportional to the position (Su et al. 2021):

        (x_2i, x_2i+1) -> rotation by pos / 10000^(2i / K) of (x_2i, x_2i+1)

    The dot product of a query at m and a key at n then depends on m - n alone. Nothing is added to the embeddings.
    """

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """x (*, H, K) at positions broadcastable to *."""
        angles = (positions[..., None] * frequencies(x.size(-1), x.device))[..., None, :]  # (*, 1, K / 2)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


class Relative(Positions):
    """Trained vectors for the distances between two tokens instead of their places (Shaw et al. 2018)."""

    def __init__(self, head_dim: int, max_distance: int) -> None:
        super().__init__()
        self.head_dim, self.max_distance = head_dim, max_distance

    def position_bias(self) -> "RelativeVectors":
        return RelativeVectors(self.head_dim, self.max_distance)


class RelativeVectors(nn.Module):
    """Of one layer, shared by its heads: Shaw et al. 2018, equations 3 and 4, with k the farthest distance told apart:

        e_ij = q_i (k_j + a^K_ij)^T / sqrt(K)        a^K_ij = w^K_clip(j - i)
        z_i  = sum_j a_ij (v_j + a^V_ij)             a^V_ij = w^V_clip(j - i)        clip(x) = max(-k, min(k, x))

    Both are sums, so the first terms are attention as ever and the second ones are computed beside it (equation 5).
    All distances beyond k look alike, so it is defined for any length.
    """

    def __init__(self, head_dim: int, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.key = nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * max_distance + 1, head_dim)))
        self.value = nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * max_distance + 1, head_dim)))

    def scores(self, q: Tensor, distances: Tensor) -> Tensor:
        """q_i a^K_ij^T / sqrt(K): q (..., H, T, K), distances (T, S) -> (..., H, T, S)."""
        a = F.embedding(self.clipped(distances), self.key)  # (T, S, K)
        return torch.einsum("...tk,tsk->...ts", q, a) / math.sqrt(q.size(-1))

    def values(self, weights: Tensor, distances: Tensor) -> Tensor:
        """sum_j a_ij a^V_ij: weights (..., H, T, S) -> (..., H, T, K)."""
        a = F.embedding(self.clipped(distances), self.value)
        return torch.einsum("...ts,tsk->...tk", weights, a)

    def clipped(self, distances: Tensor) -> Tensor:
        """The row of each distance: 0 for all of -k and less, 2k for all of k and more."""
        return distances.clamp(-self.max_distance, self.max_distance) + self.max_distance


class ALiBi(Positions):
    """Attention with linear biases: the farther a key, the lower its score (Press et al. 2022)."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads

    def position_bias(self) -> "LinearBias":
        return LinearBias(self.num_heads)


class LinearBias(nn.Module):
    """-m_h |j - i| on the scores of head h (Press et al. 2022, section 3).

    Nothing is trained and nothing is added to the embeddings; a model can read longer sentences than it has seen. The
    paper writes texts, where j <= i. In an encoder both directions are penalised alike.
    """

    slopes: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.tensor(slopes(num_heads)), persistent=False)

    def scores(self, q: Tensor, distances: Tensor) -> Tensor:
        """distances (T, S) -> (H, T, S)."""
        return -self.slopes[:, None, None] * distances.abs()

    def values(self, weights: Tensor, distances: Tensor) -> Tensor:
        return weights.new_zeros(())


def slopes(num_heads: int) -> list[float]:
    """m_h = 2^(-8h / H) for h = 1 .. H where H is a power of two: 1/2, 1/4 .. 1/256 for 8 heads.

    Other numbers take those of the power of two below, and what is missing from the power above, every second of its
    slopes, as these lie between the others (the authors' code).
    """
    below = 2 ** int(math.log2(num_heads))
    first = [2 ** (-8 * h / below) for h in range(1, below + 1)]
    interleaved = [2 ** (-8 * h / (2 * below)) for h in range(1, 2 * below + 1, 2)]
    return first + interleaved[: num_heads - below]


class Concatenated(nn.Module):
    """[x; p] W: a word and its position side by side, and a linear map back to the model's width.

    The upper rows of W meet the word, the lower ones the position: [x; p] W = x W_x + p W_p. So concatenation is
    addition after all, with a learned matrix for each of the two; the paper's plain sum is the case W_x = W_p = I.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.word = nn.Linear(d_model, d_model, bias=False)
        self.position = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor, p: Tensor) -> Tensor:
        """x (*, D), p broadcastable to it -> (*, D)."""
        return self.word(x) + self.position(p)
