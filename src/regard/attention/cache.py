"""KV cache: keys and values of earlier positions, kept between decoding steps.

While a sentence is generated, the keys and values of earlier positions do not change, so each step computes those of
the new token only and appends them. There are two axes, sentences and their hypotheses, so that a search can rearrange
hypotheses and drop sentences. With local attention, positions outside the window are evicted.

B sentences, W hypotheses a sentence, t positions so far, H heads, K head size.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.scored_attention import AttentionFunction


@dataclass(frozen=True)
class KVCache:
    """Keys and values of all positions so far, (B, W, H, t, K) each; with a window only of those inside it."""

    keys: Tensor
    values: Tensor
    window: int = 0
    evicted: int = 0

    @classmethod
    def empty(cls, sentences: int, num_heads: int, head_dim: int, like: Tensor, window: int = 0) -> Self:
        empty = like.new_empty(sentences, 1, num_heads, 0, head_dim)
        return cls(empty, empty, window)

    @property
    def length(self) -> int:
        """Number of positions so far, evicted ones included."""
        return self.evicted + self.keys.size(3)

    def append(self, k: Tensor, v: Tensor) -> "KVCache":
        """Append one position: k, v (B, W, H, K). With a window it attends to itself and `window` positions before."""
        length = self.keys.size(3)
        evicted = max(0, length - self.window) if self.window else 0
        keys, values = (x.narrow(3, evicted, length - evicted) for x in (self.keys, self.values))
        return KVCache(
            torch.cat([keys, k.unsqueeze(3)], dim=3),
            torch.cat([values, v.unsqueeze(3)], dim=3),
            self.window,
            self.evicted + evicted,
        )

    def attend(self, q: Tensor, function: AttentionFunction | None = None) -> Tensor:
        """Attention of the last position to all cached ones: q (B, W, H, K) -> (B, W, H, K)."""
        if function is not None:
            distances = torch.arange(1 - self.keys.size(3), 1, device=q.device)[None]
            return function(q.unsqueeze(3), self.keys, self.values, distances, None, 0.0)[0].squeeze(3)
        out = F.scaled_dot_product_attention(q.unsqueeze(3).flatten(0, 1), *self._rows())
        return out.view(q.shape)

    def _rows(self) -> tuple[Tensor, Tensor]:
        return self.keys.flatten(0, 1), self.values.flatten(0, 1)

    def reorder(self, parents: Tensor) -> "KVCache":
        """Rearrange: parents (B, W'); hypothesis w of sentence b continues hypothesis parents[b, w]."""
        sentences, width = self.keys.shape[:2]
        rows = (parents + torch.arange(sentences, device=parents.device)[:, None] * width).flatten()
        k, v = (x.index_select(0, rows).unflatten(0, (sentences, -1)) for x in self._rows())
        return replace(self, keys=k, values=v)

    def keep(self, sentences: Tensor) -> "KVCache":
        return replace(self, keys=self.keys.index_select(0, sentences), values=self.values.index_select(0, sentences))
