"""Positions: attention alone does not depend on the order of the tokens, so the model must be given it.

A kind of positions is a module with three hooks, and uses one of them; `Both` uses two:

    forward(positions)     vectors combined with the embeddings    sinusoidal, learned
    rotate(x, positions)   rotation of queries and keys            rotary
    position_bias(causal)  bias of self-attention by distance      relative, ALiBi, buckets; asked for by each layer
                           (attention/scored_attention.py)

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
    turned = angles(positions, d_model)
    return torch.stack([turned.sin(), turned.cos()], dim=-1).flatten(-2)


NEAR = 4096
"""Positions below it have angles that are products in float32, others in float64."""


def angles(positions: Tensor, size: int) -> Tensor:
    """pos / 10000^(2i / size): positions (*) -> (*, size / 2).

    A product in float32 deviates by up to 1.5e-4 at position 4,096, and by ten times as much at 20,000. So it is used
    for near positions only, where every model was trained with it. Far angles are computed in float64, modulo 2 pi.
    """
    positions = positions[..., None]
    near = positions * frequencies(size, positions.device)
    far = positions.double() * frequencies(size, positions.device, torch.float64)
    return torch.where(positions < NEAR, near, far.remainder(2 * math.pi).to(near.dtype))


def frequencies(size: int, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """1 / 10000^(2i / size) for i = 0 .. size/2 - 1."""
    pairs = torch.arange(0, size, 2, device=device, dtype=dtype or torch.get_default_dtype())
    return torch.exp(pairs * (-math.log(10000.0) / size))


class Positions(nn.Module):
    """Base of all kinds: the three hooks, without effect."""

    rotate = staticmethod(unrotated)

    def forward(self, positions: Tensor) -> Tensor:
        return positions.new_zeros(())

    def position_bias(self, causal: bool = False) -> PositionBias | None:
        return None


class NoPositions(Positions):
    """No positions: the encoder sees a bag of words; the decoder still has its causal mask."""


class Sinusoidal(Positions):
    """Fixed sinusoids, combined with the embeddings; defined for any length."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.table: Tensor | None = None

    def forward(self, positions: Tensor) -> Tensor:
        if not (self.training and positions.is_cuda and positions.numel() > 1):
            return sinusoid(positions, self.d_model)
        # Training on a GPU reads them from a table. A batch has no position at or beyond its number of tokens.
        if self.table is None or len(self.table) < positions.numel():
            self.table = sinusoid(torch.arange(positions.numel(), device=positions.device), self.d_model)
        return F.embedding(positions, self.table)


class Learned(Positions):
    """One learned vector for each position up to `max_positions`, combined with the embeddings (section 3.5, table 3
    E); the only kind with a maximum length."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_positions, d_model)
        nn.init.normal_(self.table.weight, std=d_model**-0.5)

    def forward(self, positions: Tensor) -> Tensor:
        try:
            return self.table(positions)
        except IndexError as error:
            position = int(positions.max())
            raise ValueError(f"position {position} is beyond the {self.table.num_embeddings} learned ones") from error


class Rotary(Positions):
    """Rotate each pair of components of queries and keys by an angle proportional to the position (Su et al. 2021):

        (x_2i, x_2i+1) -> rotation by pos / 10000^(2i / K) of (x_2i, x_2i+1)

    The dot product of a query at m and a key at n then depends on m - n alone. Nothing is added to the embeddings.
    """

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """x (*, H, K) at positions broadcastable to *."""
        turned = angles(positions, x.size(-1))[..., None, :]  # (*, 1, K / 2)
        cos, sin = turned.cos().to(x.dtype), turned.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


class Relative(Positions):
    """Learned vectors for the distance of two tokens instead of their positions (Shaw et al. 2018)."""

    def __init__(self, head_dim: int, max_distance: int) -> None:
        super().__init__()
        self.head_dim, self.max_distance = head_dim, max_distance

    def position_bias(self, causal: bool = False) -> "RelativeVectors":
        return RelativeVectors(self.head_dim, self.max_distance)


class RelativeVectors(nn.Module):
    """Relative positions of one layer, shared by its heads: Shaw et al. 2018, equations 3 and 4, k the maximum
    distance:

        e_ij = q_i (k_j + a^K_ij)^T / sqrt(K)        a^K_ij = w^K_clip(j - i)
        z_i  = sum_j a_ij (v_j + a^V_ij)             a^V_ij = w^V_clip(j - i)        clip(x) = max(-k, min(k, x))

    Both are sums: the first terms are plain attention, the second ones are computed separately (equation 5). All
    distances beyond k share one vector, so it is defined for any length.
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

    def position_bias(self, causal: bool = False) -> "LinearBias":
        return LinearBias(self.num_heads)


class LinearBias(nn.Module):
    """-m_h |j - i| on the scores of head h (Press et al. 2022, section 3).

    Nothing is learned and nothing is added to the embeddings; a model can read longer sentences than in training. The
    paper has decoders only, where j <= i. In an encoder both directions have the same bias.
    """

    slopes: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.tensor(slopes(num_heads), device="cpu"), persistent=False)

    def scores(self, q: Tensor, distances: Tensor) -> Tensor:
        """distances (T, S) -> (H, T, S)."""
        return -self.slopes[:, None, None] * distances.abs()

    def values(self, weights: Tensor, distances: Tensor) -> Tensor:
        return weights.new_zeros(())


def slopes(num_heads: int) -> list[float]:
    """m_h = 2^(-8h / H) for h = 1 .. H where H is a power of two: 1/2, 1/4 .. 1/256 for 8 heads.

    Other numbers take the slopes of the power of two below, and the missing ones from the power above: every second of
    its slopes, which lie between the others (the authors' code).
    """
    below = 2 ** int(math.log2(num_heads))
    first = [2 ** (-8 * h / below) for h in range(1, below + 1)]
    interleaved = [2 ** (-8 * h / (2 * below)) for h in range(1, 2 * below + 1, 2)]
    return first + interleaved[: num_heads - below]


class Buckets(Positions):
    """A learned bias for each head and bucket of distances (Raffel et al. 2020, section 2.1: T5).

    All layers of a stack share one table; a stack that is causal has another one.
    """

    def __init__(self, num_heads: int, buckets: int, max_distance: int) -> None:
        super().__init__()
        self.num_heads, self.buckets, self.max_distance = num_heads, buckets, max_distance
        self.tables = nn.ModuleDict()

    def position_bias(self, causal: bool = False) -> "BucketBias":
        name = "causal" if causal else "both"
        if name not in self.tables:
            self.tables[name] = BucketBias(self.num_heads, self.buckets, self.max_distance, causal)
        table = self.tables[name]
        assert isinstance(table, BucketBias)
        return table


class BucketBias(nn.Module):
    """b_ij = t[bucket(j - i), h] for head h, with a table t (buckets, H)."""

    def __init__(self, num_heads: int, buckets: int, max_distance: int, causal: bool) -> None:
        super().__init__()
        self.buckets, self.max_distance, self.causal = buckets, max_distance, causal
        self.table = nn.Parameter(nn.init.normal_(torch.empty(buckets, num_heads), std=0.02))

    def scores(self, q: Tensor, distances: Tensor) -> Tensor:
        """distances (T, S) -> (H, T, S)."""
        rows = bucket_of(distances, self.buckets, self.max_distance, self.causal)
        return F.embedding(rows, self.table).permute(2, 0, 1)

    def values(self, weights: Tensor, distances: Tensor) -> Tensor:
        return weights.new_zeros(())


def bucket_of(distances: Tensor, buckets: int, max_distance: int, causal: bool) -> Tensor:
    """The bucket of each distance j - i, as the authors' code has it: (T, S) -> (T, S).

    Half of the buckets are single distances 0, 1, 2 ..; the other half grow with the logarithm up to `max_distance`,
    and all beyond share the last one. Without `causal`, keys after the query have buckets of their own.
    """
    first = torch.zeros_like(distances)
    if not causal:
        buckets //= 2
        first = (distances > 0) * buckets
    size = (-distances).clamp(min=0) if causal else distances.abs()
    single = buckets // 2
    share = (size.float().clamp(min=1) / single).log() / math.log(max_distance / single)
    far = single + (share * (buckets - single)).long()
    return first + torch.where(size < single, size, far.clamp(max=buckets - 1))


class Both(Positions):
    """Absolute and relative positions in one model: vectors with the embeddings, and distances in self-attention.

    Shaw et al. 2018, abstract: sinusoids beside their relative positions do not improve translations further.
    """

    def __init__(self, absolute: Positions, relative: Positions) -> None:
        super().__init__()
        self.absolute, self.relative = absolute, relative

    def forward(self, positions: Tensor) -> Tensor:
        return self.absolute(positions)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        return self.relative.rotate(x, positions)

    def position_bias(self, causal: bool = False) -> PositionBias | None:
        return self.relative.position_bias(causal)


class Concatenated(nn.Module):
    """[x; p] W: embedding and position concatenated, and a linear map back to the model size.

    The upper rows of W multiply the embedding, the lower ones the position: [x; p] W = x W_x + p W_p. So concatenation
    is a sum with a learned matrix for each of the two; the paper's sum is the case W_x = W_p = I.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.word = nn.Linear(d_model, d_model, bias=False)
        self.position = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor, p: Tensor) -> Tensor:
        """x (*, D), p broadcastable to it -> (*, D)."""
        return self.word(x) + self.position(p)
