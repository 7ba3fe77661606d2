"""Subsampling of feature sequences: strided convolutions that make one vector of several frames (Dong et al. 2018).

    x'_i = ReLU(W [x_(2i-1); x_(2i); x_(2i+1)] + b)      each convolution halves the number of positions

Speech has about 100 frames a second and 3 words. Attention over frames would be long, and neighbours are alike. Frames
beyond the end of a recording count as zeros in every convolution, so that the result does not depend on padding.

B recordings, T frames, S positions = ceil(T / factor), F features, D model.
"""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens


class Subsampling(nn.Module):
    """log2(factor) convolutions of width 3 and stride 2; a factor of 1 is a linear map of every frame."""

    def __init__(self, features: int, d_model: int, factor: int) -> None:
        super().__init__()
        count = round(math.log2(factor))
        sizes = [features, *[d_model] * count]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(size, d_model, kernel_size=3, stride=2, padding=1) for size in sizes[:-1]
        )
        self.output = nn.Linear(sizes[-1], d_model)

    def forward(self, frames: Tokens) -> Tokens:
        """Frames (B, T, F) -> vectors (B, S, D) and their layout."""
        assert isinstance(frames.layout, Padded)
        x, layout = frames.ids, frames.layout
        for convolution in self.convolutions:
            x = without_padding(x, layout).transpose(1, 2)  # (B, D, T)
            x = F.relu(convolution(x)).transpose(1, 2)  # (B, T / 2, D)
            layout = Padded((layout.lengths + 1) // 2, x.size(1))
        return Tokens(self.output(x), layout)


def without_padding(x: Tensor, layout: Padded) -> Tensor:
    """x (B, T, F) with zeros after the end of each sequence."""
    return x.masked_fill(~layout.not_padding[..., None], 0.0)
