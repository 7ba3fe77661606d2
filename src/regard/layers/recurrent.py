"""Recurrent layers: read a sentence token by token into a state of fixed size.

    RNN     h' = tanh(W x + b + U h + d)                                 Elman 1990
            h' = sigmoid(W x + b + U h + d)            rnn-sigmoid, the function of the paper

    GRU     r  = sigmoid(W_r x + b_r + U_r h + d_r)    reset             Cho et al. 2014, equations 5 to 8
            z  = sigmoid(W_z x + b_z + U_z h + d_z)    update
            n  = tanh(W_n x + b_n + r * (U_n h + d_n)) candidate
            h' = (1 - z) * n + z * h                   z = 1 keeps the old state

    LSTM    i, f, o = sigmoid(W x + b + U h + d)       input, forget and output gate, a matrix each
            g  = tanh(W_g x + b_g + U_g h + d_g)       Hochreiter & Schmidhuber 1997, with the forget gate
            c' = f * c + i * g                         of Gers et al. 2000
            h' = o * tanh(c')

    F-LSTM  i, f, g, o = W_2 (W_1 [x; h]) + b          W_1 (R, I + K), W_2 (4 K, R), R = K / 2
    G-LSTM  i, f, g, o of group j = [W_j U_j] [x_j; h_j] + b_j,   j = 1 .. N

F-LSTM and G-LSTM (Kuchaiev & Ginsburg 2017) have R (I + K) + 4 K R and 4 K (I + K) / N weights, an LSTM 4 K (I + K).
The groups of a G-LSTM do not see each other within a layer. Neither has a kernel; `to_dense` gives the LSTM with the
same outputs.

This GRU is torch's: its reset gate comes after the matrix product. Cho et al. reset the state before it:

            n  = tanh(W_n x + b_n + U_n (r * h) + d_n)     gru-cho

There U_n must wait for r, while in torch's all three products with h are one. Cho's z is the same here; Bahdanau et al.
2014 and many others write 1 - z for it. The matrices of the gates are concatenated in torch's order: r, z, n and
i, f, g, o.

W x + b does not depend on the state: the step functions below take it as `x`, so that it is one product for all tokens.
`RecurrentLayer.read` is the readable loop over the tokens; `forward` is the same with torch's fused kernel, which
rnn-sigmoid and gru-cho do not have.

B sentences, T tokens, I input, K hidden, G gates, R rank, N groups; `*` is (B,) or (B, W) with W hypotheses.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UserError

Hidden = tuple[Tensor, ...]  # the state of a layer between two tokens: (h,), or (h, c) for an LSTM; (*, K) each


def rnn_step(x: Tensor, hidden: Hidden, U: Tensor, d: Tensor) -> Hidden:
    """x = W x_t + b (*, K), U (K, K)."""
    (h,) = hidden
    return ((x + F.linear(h, U, d)).tanh(),)


def sigmoid_rnn_step(x: Tensor, hidden: Hidden, U: Tensor, d: Tensor) -> Hidden:
    """x = W x_t + b (*, K), U (K, K)."""
    (h,) = hidden
    return ((x + F.linear(h, U, d)).sigmoid(),)


def gru_step(x: Tensor, hidden: Hidden, U: Tensor, d: Tensor) -> Hidden:
    """x = W x_t + b (*, 3 K), U (3 K, K)."""
    (h,) = hidden
    sizes = 2 * h.size(-1), h.size(-1)
    (x_rz, x_n), (u_rz, u_n) = x.split(sizes, dim=-1), F.linear(h, U, d).split(sizes, dim=-1)
    r, z = (x_rz + u_rz).sigmoid().chunk(2, dim=-1)
    n = (x_n + r * u_n).tanh()
    return (n + z * (h - n),)  # (1 - z) * n + z * h


def cho_gru_step(x: Tensor, hidden: Hidden, U: Tensor, d: Tensor) -> Hidden:
    """x = W x_t + b (*, 3 K), U (3 K, K)."""
    (h,) = hidden
    sizes = 2 * h.size(-1), h.size(-1)
    (x_rz, x_n), (U_rz, U_n), (d_rz, d_n) = x.split(sizes, dim=-1), U.split(sizes), d.split(sizes)
    r, z = (x_rz + F.linear(h, U_rz, d_rz)).sigmoid().chunk(2, dim=-1)
    n = (x_n + F.linear(r * h, U_n, d_n)).tanh()
    return (n + z * (h - n),)  # (1 - z) * n + z * h


def lstm_step(x: Tensor, hidden: Hidden, U: Tensor, d: Tensor) -> Hidden:
    """x = W x_t + b (*, 4 K), U (4 K, K)."""
    h, c = hidden
    return lstm_gates(x + F.linear(h, U, d), c)


def lstm_gates(gates: Tensor, c: Tensor) -> Hidden:
    """h' and c' from the gates i, f, g, o (*, 4 K) before their activations, and c (*, K)."""
    i, f, g, o = gates.chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


@dataclass(frozen=True)
class Cell:
    """A kind of recurrent cell: its step, number of gates, number of state vectors, and torch's module for its weights.

    `has_kernel` is False if torch's module computes another cell: then the loop over the tokens is used.
    """

    step: Callable[[Tensor, Hidden, Tensor, Tensor], Hidden]
    gates: int
    num_states: int
    fused: type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]
    has_kernel: bool = True


CellKind = Literal["rnn", "rnn-sigmoid", "gru", "gru-cho", "lstm", "flstm", "glstm-2", "glstm-4", "glstm-8"]
CELL = "kind of recurrent layer; rnn-sigmoid: sigmoid instead of tanh; gru-cho: reset gate before the matrix product; "
CELL += "flstm: LSTM with a factorised matrix; glstm-N: LSTM in N groups"
CELLS = {
    "rnn": Cell(rnn_step, 1, 1, nn.RNN),
    "rnn-sigmoid": Cell(sigmoid_rnn_step, 1, 1, nn.RNN, has_kernel=False),
    "gru": Cell(gru_step, 3, 1, nn.GRU),
    "gru-cho": Cell(cho_gru_step, 3, 1, nn.GRU, has_kernel=False),
    "lstm": Cell(lstm_step, 4, 2, nn.LSTM),
    **dict.fromkeys(("flstm", "glstm-2", "glstm-4", "glstm-8"), Cell(lstm_step, 4, 2, nn.LSTM, has_kernel=False)),
}
"""The cells by name; the last four have layers of their own (`STRUCTURED`)."""


class RecurrentLayer(nn.Module):
    """One layer over sentences, from the first token to the last, or `backward` from the last token of each sentence.

    U is initialised orthogonal gate by gate (Saxe et al. 2014) and W as in Glorot & Bengio 2010; biases are zero, but
    one for the forget gate, so that an LSTM keeps its state at first (Jozefowicz et al. 2015).
    """

    def __init__(self, cell: str, input_size: int, hidden_size: int, backward: bool = False) -> None:
        super().__init__()
        self.cell, self.hidden_size, self.backward = CELLS[cell], hidden_size, backward
        self.weights = self.cell.fused(input_size, hidden_size, batch_first=True)
        W, U, b, d = self.matrices()
        for w, u in zip(W.data.chunk(self.cell.gates), U.data.chunk(self.cell.gates), strict=True):
            nn.init.xavier_uniform_(w)
            if not u.is_meta:  # shapes only: torch 2.11 would import its compiler
                nn.init.orthogonal_(u)
        nn.init.zeros_(b)
        nn.init.zeros_(d)
        if cell == "lstm":
            nn.init.ones_(b.data.chunk(4)[1])

    def matrices(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """W (G K, I), U (G K, K), b and d (G K,)."""
        W, U, b, d = self.weights.all_weights[0]
        return W, U, b, d

    @property
    def input_width(self) -> int:
        """The width of `inputs`."""
        return self.cell.gates * self.hidden_size

    def inputs(self, x: Tensor) -> Tensor:
        """W x + b of any number of tokens, (*, I) -> (*, G K)."""
        W, _, b, _ = self.matrices()
        return F.linear(x, W, b)

    def step(self, x: Tensor, hidden: Hidden) -> Hidden:
        """The state after one more token, from its W x + b (*, G K)."""
        _, U, _, d = self.matrices()
        return self.cell.step(x, hidden, U, d)

    def initial_state(self, *shape: int) -> Hidden:
        """The state before the first token: zeros (*, K)."""
        return (next(self.parameters()).new_zeros(*shape, self.hidden_size),) * self.cell.num_states

    def read(self, x: Tensor, lengths: Tensor | None = None, hidden: Hidden | None = None) -> tuple[Tensor, Hidden]:
        """x (B, T, I) -> h after each token (B, T, K), zero at padding, and the state after the last token."""
        hidden = hidden or self.initial_state(x.size(0))
        lengths = torch.full((x.size(0),), x.size(1), device=x.device) if lengths is None else lengths
        outputs: list[Tensor] = [hidden[0]] * x.size(1)
        inputs, positions = self.inputs(x).unbind(1), range(x.size(1))
        for t in reversed(positions) if self.backward else positions:
            mask = (t < lengths)[:, None]  # (B, 1)
            after = self.step(inputs[t], hidden)
            hidden = tuple(torch.where(mask, new, old) for new, old in zip(after, hidden, strict=True))
            outputs[t] = hidden[0] * mask
        return torch.stack(outputs, dim=1), hidden

    def forward(self, x: Tensor, lengths: Tensor | None = None, hidden: Hidden | None = None) -> tuple[Tensor, Hidden]:
        """`read` with torch's kernel, in the precision of the weights: rounding errors add up over many steps.

        The kernel gets rectangles, since a packed sequence needs its lengths on the host. Padding comes last, so no
        token depends on it; for a backward layer each sentence is reversed within its own length.
        """
        hidden = hidden or self.initial_state(x.size(0))
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(next(self.parameters()).dtype)
            if not self.cell.has_kernel:
                return self.read(x, lengths, hidden)
            x = self._along(x, lengths)
            y, after = self._fused(x, hidden)
            if lengths is not None:
                after = self._last(x, y, lengths, hidden)
                y = y * not_padding(lengths, y.size(1))
            return self._along(y, lengths), after

    def _along(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """x (B, T, *) in the order of reading, or back from it; reversing twice changes nothing."""
        return reverse_sequences(x, lengths) if self.backward else x

    def _fused(self, x: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        before = tuple(tensor[None].to(x.dtype).contiguous() for tensor in hidden)
        y, after = self.weights(x, before if len(before) == 2 else before[0])
        return y, tuple(tensor[0] for tensor in (after if isinstance(after, tuple) else (after,)))

    def _last(self, x: Tensor, y: Tensor, lengths: Tensor, hidden: Hidden) -> Hidden:
        """The state after the last token L of each sentence; the kernel returns h of every token, but c of none.

        With all h the gates are one product, and c' = f * c + i * g unrolls to

            c_L = sum_t (f_(t+1) * ... * f_L) * i_t * g_t + (f_1 * ... * f_L) * c_0
        """
        last = y.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, y.size(2)))[:, 0]
        if self.cell.num_states == 1:
            return (last,)
        (h, c), (_, U, _, d) = hidden, self.matrices()
        before = torch.cat([h[:, None].to(y.dtype), y[:, :-1]], dim=1)
        i, f, g, _ = (self.inputs(x) + F.linear(before, U, d)).chunk(4, dim=-1)
        mask = not_padding(lengths, y.size(1))  # (B, T, 1)
        log_f = F.logsigmoid(f) * mask
        from_t = log_f.flip(1).cumsum(1).flip(1)  # log (f_t * ... * f_L)
        return last, ((from_t - log_f).exp() * i.sigmoid() * g.tanh() * mask).sum(1) + from_t[:, 0].exp() * c


class StructuredLSTM(RecurrentLayer):
    """Base of the LSTM layers whose matrix has a structure; biases are those of `RecurrentLayer`."""

    def __init__(self, cell: str, input_size: int, hidden_size: int, backward: bool = False) -> None:
        nn.Module.__init__(self)
        self.cell, self.backward = CELLS[cell], backward
        self.input_size, self.hidden_size = input_size, hidden_size

    @abstractmethod
    def matrices(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """W (4 K, I), U (4 K, K), b and d (4 K,) of an LSTM with the same outputs."""

    @torch.no_grad()
    def to_dense(self) -> RecurrentLayer:
        """The LSTM with the same outputs."""
        dense = RecurrentLayer("lstm", self.input_size, self.hidden_size, self.backward)
        for ours, theirs in zip(self.matrices(), dense.matrices(), strict=True):
            theirs.copy_(ours)
        return dense.to(ours.device, ours.dtype)


class FactorisedLSTM(StructuredLSTM):
    """F-LSTM: i, f, g, o = W_2 (A x + B h) + b, with W_1 = [A B]."""

    def __init__(self, cell: str, input_size: int, hidden_size: int, backward: bool = False) -> None:
        super().__init__(cell, input_size, hidden_size, backward)
        rank = max(1, hidden_size // 2)
        self.from_input = nn.Linear(input_size, rank, bias=False)
        self.from_state = nn.Linear(hidden_size, rank, bias=False)
        self.gates = nn.Linear(rank, 4 * hidden_size)
        for linear in (self.from_input, self.from_state, self.gates):
            nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(self.gates.bias)
        nn.init.ones_(self.gates.bias.data.chunk(4)[1])

    @property
    def input_width(self) -> int:
        return self.from_input.out_features

    def inputs(self, x: Tensor) -> Tensor:
        """A x, (*, I) -> (*, R)."""
        return self.from_input(x)

    def step(self, x: Tensor, hidden: Hidden) -> Hidden:
        """The state after one more token, from its A x (*, R)."""
        return lstm_gates(self.gates(x + self.from_state(hidden[0])), hidden[1])

    def matrices(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        second, bias = self.gates.weight, self.gates.bias
        return second @ self.from_input.weight, second @ self.from_state.weight, bias, torch.zeros_like(bias)


class GroupedLSTM(StructuredLSTM):
    """G-LSTM: each group of inputs and state has its own LSTM; `cell` ends with the number of groups."""

    def __init__(self, cell: str, input_size: int, hidden_size: int, backward: bool = False) -> None:
        super().__init__(cell, input_size, hidden_size, backward)
        groups = self.groups = int(cell.rpartition("-")[2])
        if input_size % groups or hidden_size % groups:
            problem = f"{cell} cannot cut {input_size} inputs and a state of {hidden_size} into {groups} groups"
            remedy = f"choose widths that {groups} divides"
            raise UserError(problem, remedy, code="invalid-setting", where="model.d_model")
        i, k = input_size // groups, hidden_size // groups
        self.weight = nn.Parameter(torch.empty(groups, 4 * k, i + k))  # [W_j U_j]
        self.bias = nn.Parameter(torch.zeros(groups, 4, k))
        for block in self.weight.data:
            nn.init.xavier_uniform_(block)
        nn.init.ones_(self.bias.data[:, 1])

    def parts(self) -> tuple[Tensor, Tensor]:
        """W (N, 4 K / N, I / N) and U (N, 4 K / N, K / N)."""
        sizes = (self.input_size // self.groups, self.hidden_size // self.groups)
        W, U = self.weight.split(sizes, dim=-1)
        return W, U

    def inputs(self, x: Tensor) -> Tensor:
        """W_j x_j + b_j of each group, (*, I) -> (*, 4 K): gate by gate, as in an LSTM."""
        x = torch.einsum("...ni,nki->...nk", x.unflatten(-1, (self.groups, -1)), self.parts()[0])
        return self.by_gate(x) + self.bias.transpose(0, 1).flatten()

    def step(self, x: Tensor, hidden: Hidden) -> Hidden:
        h = hidden[0].unflatten(-1, (self.groups, -1))
        return lstm_gates(x + self.by_gate(torch.einsum("...ni,nki->...nk", h, self.parts()[1])), hidden[1])

    def by_gate(self, x: Tensor) -> Tensor:
        """(*, N, 4 K / N), the gates of each group, -> (*, 4 K), the groups of each gate."""
        return x.unflatten(-1, (4, -1)).transpose(-3, -2).flatten(-3)

    def matrices(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        gates = (part.unflatten(1, (4, -1)).transpose(0, 1) for part in self.parts())  # (4, N, K / N, ...) each
        W, U = (torch.cat([torch.block_diag(*gate) for gate in part]) for part in gates)
        bias = self.bias.transpose(0, 1).flatten()
        return W, U, bias, torch.zeros_like(bias)


STRUCTURED: Mapping[str, type[RecurrentLayer]] = {"flstm": FactorisedLSTM, "glstm": GroupedLSTM}
"""The cells with a layer of their own."""


def build_layer(cell: str, input_size: int, hidden_size: int, backward: bool = False) -> RecurrentLayer:
    """The recurrent layer of a cell."""
    kind = STRUCTURED.get(cell.partition("-")[0], RecurrentLayer)
    return kind(cell, input_size, hidden_size, backward)


def not_padding(lengths: Tensor, size: int) -> Tensor:
    """(B, T, 1): True at tokens, False at padding."""
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, :, None]


def reverse_sequences(x: Tensor, lengths: Tensor | None) -> Tensor:
    """x (B, T, I) with the tokens of each sentence in reverse order; padding stays in its position."""
    if lengths is None:
        return x.flip(1)
    positions = torch.arange(x.size(1), device=x.device)
    mirrored = lengths[:, None] - 1 - positions
    return x.gather(1, torch.where(mirrored >= 0, mirrored, positions)[:, :, None].expand_as(x))


class Bidirectional(nn.Module):
    """A forward and a backward layer (Schuster & Paliwal 1997): the vector of a token depends on its whole sentence."""

    def __init__(self, cell: str, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.forward_layer = build_layer(cell, input_size, hidden_size)
        self.backward_layer = build_layer(cell, input_size, hidden_size, backward=True)

    def forward(self, x: Tensor, lengths: Tensor | None = None, hidden: Hidden | None = None) -> tuple[Tensor, Hidden]:
        """x (B, T, I) -> [forward h; backward h] (B, T, 2 K) and the last states of both, concatenated."""
        halves = (tensor.chunk(2, dim=-1) for tensor in hidden) if hidden else ()
        forward, backward = zip(*halves, strict=True) if hidden else (None, None)
        y_forward, last_forward = self.forward_layer(x, lengths, forward)  # (B, T, K)
        y_backward, last_backward = self.backward_layer(x, lengths, backward)  # (B, T, K)
        last = tuple(torch.cat(pair, dim=-1) for pair in zip(last_forward, last_backward, strict=True))
        return torch.cat([y_forward, y_backward], dim=-1), last


class Recurrent(nn.Module):
    """Layers one above the other, with dropout between them (Zaremba et al. 2014: not from token to token)."""

    def __init__(
        self,
        cell: str,
        input_size: int,
        hidden_size: int,
        layers: int = 1,
        direction: Literal["forward", "backward", "both"] = "forward",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.output_size = 2 * hidden_size if direction == "both" else hidden_size
        self.dropout = nn.Dropout(dropout)
        self.layers: Sequence[RecurrentLayer | Bidirectional] = nn.ModuleList(  # type: ignore[assignment]
            Bidirectional(cell, width, hidden_size)
            if direction == "both"
            else build_layer(cell, width, hidden_size, backward=direction == "backward")
            for width in (input_size, *[self.output_size] * (layers - 1))
        )

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, hidden: Sequence[Hidden] | None = None
    ) -> tuple[Tensor, list[Hidden]]:
        """x (B, T, I) -> h of the top layer after each token (B, T, K), and the last state of each layer."""
        states = []
        for number, layer in enumerate(self.layers):
            x, after = layer(self.dropout(x) if number else x, lengths, hidden[number] if hidden else None)
            states.append(after)
        return x, states


class RecurrentStack(Recurrent):
    """Forward layers that can also advance by one token at a time, for any number of hypotheses."""

    layers: Sequence[RecurrentLayer]

    def __init__(self, cell: str, input_size: int, hidden_size: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__(cell, input_size, hidden_size, layers, dropout=dropout)
        self.gate_size = self.layers[0].input_width

    def initial_state(self, *shape: int) -> list[Hidden]:
        """The state of each layer before the first token: zeros (*, K)."""
        return [layer.initial_state(*shape) for layer in self.layers]

    def inputs(self, x: Tensor) -> Tensor:
        """W x + b of the first layer for any number of tokens, (*, I) -> (*, G K)."""
        return self.layers[0].inputs(x)

    def step(self, x: Tensor, hidden: Sequence[Hidden]) -> list[Hidden]:
        """The states after one more token, from W x + b of the first layer (*, G K); the top layer's h is `[-1][0]`."""
        states: list[Hidden] = []
        for layer, before in zip(self.layers, hidden, strict=True):
            states.append(layer.step(layer.inputs(self.dropout(states[-1][0])) if states else x, before))
        return states
