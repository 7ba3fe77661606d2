"""Positions: attention by itself sees a set, so the order of the words has to be told to it.

A positional scheme is a part with two hooks: `forward(positions)` gives what is added to the embeddings, and
`rotate(x, positions)` turns queries and keys. Each scheme uses one of them; `NoPositions` neither.

T positions, D model, H heads, K head size.
"""

import math

import torch
from torch import Tensor, nn

from regard.attention.multihead import unrotated


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


class NoPositions(nn.Module):
    """Tell nothing: the encoder sees a bag of words; the decoder still has its causal mask."""

    rotate = staticmethod(unrotated)

    def forward(self, positions: Tensor) -> Tensor:
        return positions.new_zeros(())


class Sinusoidal(nn.Module):
    """Fixed sinusoids, added to the embeddings; defined for any length."""

    rotate = staticmethod(unrotated)

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def forward(self, positions: Tensor) -> Tensor:
        return sinusoid(positions, self.d_model)


class Learned(nn.Module):
    """One trained vector for each position up to `max_positions`, added to the embeddings (section 3.5, table 3 E)."""

    rotate = staticmethod(unrotated)

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


class Rotary(nn.Module):
    """Turn each pair of components of queries and keys by an angle proportional to the position (Su et al. 2021):

        (x_2i, x_2i+1) -> rotation by pos / 10000^(2i / K) of (x_2i, x_2i+1)

    The dot product of a query at m and a key at n then depends on m - n alone. Nothing is added to the embeddings.
    """

    def forward(self, positions: Tensor) -> Tensor:
        return positions.new_zeros(())

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """x (*, H, K) at positions broadcastable to *."""
        angles = (positions[..., None] * frequencies(x.size(-1), x.device))[..., None, :]  # (*, 1, K / 2)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


Positions = NoPositions | Sinusoidal | Learned | Rotary
