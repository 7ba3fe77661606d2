"""Local (restricted) self-attention (Vaswani et al. 2017, section 4 and table 1) to r neighbours on either side.

    o_i = sum_j a_ij v_j,    j = i - r .. i + r    (causal: j = i - r .. i)

Most scores of all T x T pairs would be masked. Here T queries are cut into blocks of C, and each block gets the C + 2r
keys that any of its queries attends to, so that only a third of the scores is masked where C = r:

    queries              0 1 2 3 | 4 5 6 7        C = 4, r = 2
    keys of the first    . . 0 1 2 3 4 5          nothing before the beginning
    keys of the second   2 3 4 5 6 7 8 9

Time and memory are T (C + 2r): linear in the length. In return, information moves at most L r positions in L layers.

B sentences, T tokens, H heads, K head size, C block, L keys of a block.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.scored_attention import AttentionFunction, scaled_dot_attention

MIN_BLOCK = 32
"""Minimum number of queries of a block: many tiny products take longer than a few larger ones."""


def blocks(x: Tensor, size: int, before: int = 0, after: int = 0) -> Tensor:
    """Cut into overlapping blocks: (B, T, ...) -> (B, blocks, before + size + after, ...), zeros beyond the ends.

    Block n begins `before` tokens before token n * size.
    """
    missing = -x.size(1) % size
    padded = F.pad(x, (*(0, 0) * (x.dim() - 2), before, missing + after))
    return padded.unfold(1, before + size + after, size).movedim(-1, 2)


def local_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    not_padding: Tensor,
    window: int,
    causal: bool = False,
    dropout: float = 0.0,
    function: AttentionFunction = scaled_dot_attention,
) -> Tensor:
    """q, k, v (B, T, H, K); not_padding (B, T), True at tokens -> (B, T, H, K)."""
    size, after = min(max(window, MIN_BLOCK), q.size(1)), 0 if causal else window
    queries = blocks(q, size).transpose(2, 3)  # (B, blocks, H, C, K)
    keys, values, tokens = (blocks(x, size, window, after) for x in (k, v, not_padding))
    positions = torch.arange(-window, size + after, device=q.device)  # of keys, from the first query of the block
    distances = positions - positions[window : window + size, None]  # (C, L)
    mask = (distances.abs() <= window) & (distances <= after) & tokens[:, :, None, None, :]  # (B, blocks, 1, C, L)
    out, _ = function(queries, keys.transpose(2, 3), values.transpose(2, 3), distances, mask, dropout)
    return out.transpose(2, 3).flatten(1, 2)[:, : q.size(1)]
