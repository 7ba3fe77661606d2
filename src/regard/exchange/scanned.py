"""Recurrent layers as loops of a graph.

torch.export unrolls the kernel of a recurrent layer for the number of tokens of its example: such a graph reads only
texts of this length. Here the layer is a scan, one step of the cell for each token, which a graph can store:

    h_t = cell(W x_t + b, h_{t-1})      at tokens; at padding the state stays as it is

B sentences, T tokens, I inputs, K hidden.
"""

from copy import deepcopy
from typing import TypeVar

import torch
from torch import Tensor, nn

from regard.layers.recurrent import Hidden, RecurrentLayer

M = TypeVar("M", bound=nn.Module)


class ScannedLayer(RecurrentLayer):
    """A recurrent layer that computes one token after the other."""

    def forward(self, x: Tensor, lengths: Tensor | None = None, hidden: Hidden | None = None) -> tuple[Tensor, Hidden]:
        """x (B, T, I) -> h after each token (B, T, K), zero at padding, and the state after the last token."""
        from torch._higher_order_ops.scan import scan

        hidden = hidden or self.initial_state(x.size(0))
        inputs, (_, U, _, d), cell = self.inputs(x), self.matrices(), self.cell
        if isinstance(x.size(1), int) and x.size(1) == 1:  # a step of a language model
            hidden = cell.step(inputs[:, 0], hidden, U, d)
            return hidden[0][:, None], hidden
        lengths = torch.full((x.size(0),), x.size(1)) if lengths is None else lengths
        mask = torch.arange(x.size(1))[:, None, None] < lengths[:, None]  # (T, B, 1)

        def step(state: list[Tensor], token: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            after = cell.step(token[0], tuple(state), U, d)
            state = [torch.where(token[1], new, old) for new, old in zip(after, state, strict=True)]
            return state, [state[0] * token[1]]

        start = [tensor.clone() for tensor in hidden]
        last, (h,) = scan(step, start, [inputs.transpose(0, 1), mask], dim=0, reverse=self.backward)
        return h.transpose(0, 1), tuple(last)


def scanned(model: M) -> M:
    """The model with scans in place of its recurrent layers: a copy, or the model itself if it has none."""
    if not any(isinstance(module, RecurrentLayer) for module in model.modules()):
        return model
    copy = deepcopy(model).requires_grad_(False)
    for module in copy.modules():
        if isinstance(module, RecurrentLayer):
            module.__class__ = ScannedLayer
    return copy
