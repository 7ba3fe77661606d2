"""From scores to weights."""

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded


def softmax_over(scores: Tensor, seen: Tensor) -> Tensor:
    """Softmax over the places seen (broadcastable to (B, W, S)); each query must see one at least."""
    exact = torch.promote_types(scores.dtype, torch.float32)
    return torch.where(seen, scores, -torch.inf).softmax(dim=-1, dtype=exact)


class Global(nn.Module):
    """Every word of the sentence is looked at (Luong et al. 2015, section 3.1): weights = softmax(scores)."""

    def forward(self, scores: Tensor, query: Tensor, keys: Padded, places: int | Tensor) -> tuple[Tensor, None]:
        return softmax_over(scores, keys.real[:, None]), None
