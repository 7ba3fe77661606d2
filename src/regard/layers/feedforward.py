"""The position-wise feed-forward network (Vaswani et al. 2017, equation 2):

    FFN(x) = max(0, x W_1 + b_1) W_2 + b_2

Attention moves information between positions; this layer works on each position alone.
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


class FeedForward(nn.Module):
    """Two linear layers with an activation function between them: (*, D) -> (*, D_ff) -> (*, D)."""

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0, activation: Activation = F.relu) -> None:
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff)
        self.fc2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.dropout(self.activation(self.fc1(x))))
