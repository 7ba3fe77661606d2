"""The simpler simple recurrent unit (Kim et al. 2019, "From Research to Production and Back", section 3.1).

    f_t = sigmoid(W_f x_t + b_f)                   the forget gate: how much of the memory stays, by component
    c_t = f_t * c_{t-1} + (1 - f_t) * W x_t        the memory; c_0 = 0
    h_t = relu(c_t)

In a Transformer decoder it stands in the place of self-attention. Attention looks back at all earlier tokens, so a step
becomes slower with the length of the output. Here a step needs the vector c_{t-1} only, and two matrices instead of
four. Small students lose little by it, and translate faster on a CPU: Firefox's translators are built so.

Nothing but c depends on the step before, and that only component by component. So all matrix products are computed at
once in training, and c by a scan: c_t = a_t c_{t-1} + v_t is doubled from spans of 1 token to 2, 4, 8 .. (Hillis and
Steele 1986):

    v_t <- v_t + a_t v_{t-s},    a_t <- a_t a_{t-s},    s = 1, 2, 4 ..

B sentences, W hypotheses, T target, D model; `*` is (B, T) padded or (N,) packed.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import to_float32
from regard.attention.layouts import AttentionPattern


@dataclass(frozen=True)
class SSRUState:
    """State between steps: c (B, W, D), and the number of positions so far."""

    cell: Tensor
    length: int = 0

    def reorder(self, parents: Tensor) -> "SSRUState":
        sentences = torch.arange(len(parents), device=parents.device)[:, None]
        return SSRUState(self.cell[sentences, parents], self.length)

    def keep(self, sentences: Tensor) -> "SSRUState":
        return SSRUState(self.cell.index_select(0, sentences), self.length)


class SSRU(nn.Module):
    """A recurrent sublayer with the interface of causal self-attention."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.input = nn.Linear(d_model, d_model, bias=False)
        self.forget = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, memory: Tensor, pattern: AttentionPattern) -> Tensor:
        """x (*, D) -> h (*, D). It is causal for every pattern; a position of 0 begins a new sentence."""
        gate = to_float32(self.forget(x)).sigmoid()
        first = (pattern.queries.positions == 0)[..., None]  # c is 0 before the first token of a sentence
        cell = scan(gate.masked_fill(first, 0.0), (1 - gate) * to_float32(self.input(x)))
        return cell.relu().to(x.dtype)

    def start(self, sentences: int, like: Tensor, window: int = 0) -> SSRUState:
        """c_0 = 0 for a batch of sentences."""
        return SSRUState(like.new_zeros(sentences, 1, self.forget.out_features))

    def step(self, x: Tensor, past: SSRUState) -> tuple[Tensor, SSRUState]:
        """One new position x (B, W, D) -> h (B, W, D)."""
        gate = self.forget(x).sigmoid()
        cell = gate * past.cell + (1 - gate) * self.input(x)
        return cell.relu(), SSRUState(cell, past.length + 1)


def scan(a: Tensor, v: Tensor) -> Tensor:
    """c_t = a_t c_{t-1} + v_t for all t, c before the first is 0: (.., T, D) each -> (.., T, D)."""
    shift, length = 1, v.size(-2)
    while shift < length:
        v = v + a * shifted(v, shift)
        a = a * shifted(a, shift)
        shift *= 2
    return v


def shifted(x: Tensor, shift: int) -> Tensor:
    """x_{t - shift}, zeros before the first token: (.., T, D) -> (.., T, D)."""
    return F.pad(x[..., :-shift, :], (0, 0, shift, 0))
