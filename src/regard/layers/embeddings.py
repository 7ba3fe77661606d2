"""Tokens to vectors and back (Vaswani et al. 2017, section 3.4).

The same matrix can serve source, target and output ("three-way tied", Press & Wolf 2017): a word's row is both what
it means when read and what the decoder must point at to write it. Read, it is multiplied by sqrt(d_model), so that
with rows of length about one it stands on a par with the positions added to it.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class TokenEmbedding(nn.Module):
    """A matrix (V, D) that reads tokens and, transposed, scores them; a bias (V,) may be added to the scores."""

    def __init__(self, vocabulary: int, d_model: int, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, d_model))
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None
        nn.init.normal_(self.weight, std=d_model**-0.5)
        self.scale = math.sqrt(d_model)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (*) -> (*, D)."""
        return F.embedding(ids, self.weight) * self.scale

    def scores(self, x: Tensor) -> Tensor:
        """x (*, D) -> logits (*, V)."""
        return F.linear(x, self.weight, self.bias)

    def factors(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (*, D) -> the two matrices whose product the logits are, for a read-out that multiplies them itself."""
        return (x, self.weight) if self.bias is None else with_bias(x, self.weight, self.bias)


def with_bias(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """x W^T + b as a product and nothing else, [x; 1] [W b]^T, since a read-out takes no third part.

    Seven zeros follow the one, so that a row is still a multiple of 8 numbers long, which fast products ask for.
    """
    x = F.pad(F.pad(x, (0, 1), value=1.0), (0, 7))
    return x, F.pad(torch.cat([weight, bias[:, None]], dim=1), (0, 7))
