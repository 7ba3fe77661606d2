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
    """A matrix (V, D) that reads tokens and, transposed, scores them."""

    def __init__(self, vocabulary: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)
        self.scale = math.sqrt(d_model)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (*) -> (*, D)."""
        return F.embedding(ids, self.weight) * self.scale

    def scores(self, x: Tensor) -> Tensor:
        """x (*, D) -> logits (*, V)."""
        return F.linear(x, self.weight)
