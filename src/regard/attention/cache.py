"""What has been looked at once need not be computed again: keys and values kept between decoding steps.

While a sentence is generated, the keys and values of earlier positions do not change (nothing they depend on comes
later), so each step computes those of the new token alone and appends them. There are two axes of rows, sentences
and the hypotheses alive for each, so that a search can rearrange hypotheses and drop sentences.

B sentences, W hypotheses a sentence, t positions so far, H heads, K head size.
"""

from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class KeyValues:
    """The keys and values of all positions so far, (B, W, H, t, K) each."""

    keys: Tensor
    values: Tensor

    @classmethod
    def empty(cls, sentences: int, num_heads: int, head_dim: int, like: Tensor) -> Self:
        nothing = like.new_empty(sentences, 1, num_heads, 0, head_dim)
        return cls(nothing, nothing)

    @property
    def length(self) -> int:
        return self.keys.size(3)

    def append(self, k: Tensor, v: Tensor) -> "KeyValues":
        """One more position: k, v (B, W, H, K)."""
        return KeyValues(
            torch.cat([self.keys, k.unsqueeze(3)], dim=3),
            torch.cat([self.values, v.unsqueeze(3)], dim=3),
        )

    def attend(self, q: Tensor) -> Tensor:
        """q (B, W, H, K): the newest position looks at all so far -> (B, W, H, K)."""
        out = F.scaled_dot_product_attention(q.unsqueeze(3).flatten(0, 1), *self._rows())
        return out.view(q.shape)

    def _rows(self) -> tuple[Tensor, Tensor]:
        return self.keys.flatten(0, 1), self.values.flatten(0, 1)

    def reorder(self, parents: Tensor) -> "KeyValues":
        """parents (B, W'): hypothesis w of sentence b continues what was hypothesis parents[b, w]."""
        sentences, width = self.keys.shape[:2]
        rows = (parents + torch.arange(sentences, device=parents.device)[:, None] * width).flatten()
        k, v = (x.index_select(0, rows).unflatten(0, (sentences, -1)) for x in self._rows())
        return KeyValues(k, v)

    def keep(self, sentences: Tensor) -> "KeyValues":
        """Only these sentences remain, in this order."""
        return KeyValues(self.keys.index_select(0, sentences), self.values.index_select(0, sentences))
