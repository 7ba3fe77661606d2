"""Token embeddings and the projection to the vocabulary (Vaswani et al. 2017, section 3.4).

One matrix can serve source, target and output ("three-way tied", Press & Wolf 2017): a token's row is both its
embedding and the vector that a hidden state is compared with to predict it. Embeddings are multiplied by sqrt(d_model):
rows have a length of about one, and the positions added to them a length of sqrt(d_model / 2).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.recurrent_attention import SampledAlignments


@dataclass(frozen=True)
class OutputProjection:
    """Last hidden states (*, D), output matrix (V, D) and, optionally, output bias (V,): logits not yet computed.

    A loss computes the logits of a few rows at a time (losses/projected.py). `samples` are those of a decoder with
    hard-reinforce attention in training; its loss needs them (losses/reinforce.py).
    """

    hidden: Tensor
    weight: Tensor
    bias: Tensor | None = None
    samples: SampledAlignments | None = None

    def logits(self) -> Tensor:
        """(*, V)."""
        return F.linear(*self.without_bias())

    def without_bias(self) -> tuple[Tensor, Tensor]:
        """Hidden states and matrix whose product are the logits: x W^T + b = [x; 1] [W b]^T.

        Seven zeros follow the one, so that rows stay a multiple of 8 numbers long, which fast matrix products need.
        """
        if self.bias is None:
            return self.hidden, self.weight
        hidden = F.pad(F.pad(self.hidden, (0, 1), value=1.0), (0, 7))
        return hidden, F.pad(torch.cat([self.weight, self.bias[:, None]], dim=1), (0, 7))


class TokenEmbedding(nn.Module):
    """A matrix (V, D) that embeds tokens and, transposed, gives logits; a bias (V,) may be added to the logits.

    Embeddings are multiplied by `scale`, sqrt(D) by default. A `frozen` matrix is not trained.
    """

    def __init__(
        self, vocabulary: int, d_model: int, bias: bool = False, scale: float | None = None, frozen: bool = False
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, d_model), requires_grad=not frozen)
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None
        nn.init.normal_(self.weight, std=d_model**-0.5)
        self.scale = math.sqrt(d_model) if scale is None else scale

    def forward(self, ids: Tensor) -> Tensor:
        """ids (*) -> (*, D)."""
        return F.embedding(ids, self.weight) * self.scale

    @torch.no_grad()
    def load_vectors(self, vectors: Mapping[int, Tensor]) -> None:
        """Let the embedding of each token be its vector (D,). All other rows are sampled from U[-a, a] with
        a^2 / 3 the variance of the vectors' components (Kim 2014, section 3.1)."""
        found = torch.stack(list(vectors.values())) / self.scale
        nn.init.uniform_(self.weight, -(bound := math.sqrt(3 * float(found.var(unbiased=False)))), bound)
        self.weight[list(vectors)] = found

    def scores(self, x: Tensor) -> Tensor:
        """x (*, D) -> logits (*, V)."""
        return F.linear(x, self.weight, self.bias)

    def project(self, x: Tensor) -> OutputProjection:
        """x (*, D) -> its projection to the vocabulary."""
        return OutputProjection(x, self.weight, self.bias)
