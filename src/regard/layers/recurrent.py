"""Recurrent layers: read a sentence word by word and keep what was read in a state of fixed size.

    RNN     h' = tanh(W x + b + U h + d)                                 Elman 1990

    GRU     r  = sigmoid(W_r x + b_r + U_r h + d_r)    reset             Cho et al. 2014, equations 5 to 8
            z  = sigmoid(W_z x + b_z + U_z h + d_z)    update
            n  = tanh(W_n x + b_n + r * (U_n h + d_n)) what is new
            h' = (1 - z) * n + z * h                   z = 1 keeps the old state

    LSTM    i, f, o = sigmoid(W x + b + U h + d)       input, forget and output gate, a matrix each
            g  = tanh(W_g x + b_g + U_g h + d_g)       Hochreiter & Schmidhuber 1997, with the forget gate
            c' = f * c + i * g                         of Gers et al. 2000
            h' = o * tanh(c')

The GRU is torch's: its reset gate comes after the matrix product. Cho et al. reset the state before it,
tanh(W_n x + U_n (r * h)); then U_n must wait for r, while here all three products with h are one. Their z is the same
as ours; Bahdanau et al. 2014 and many others write 1 - z for it. The matrices of the gates lie one above the other,
in torch's order: r, z, n and i, f, g, o.

W x + b does not wait for the state: the step functions below take it as `x`, so that it is one product for all words.
`RecurrentLayer.read` is the loop over the words as one reads it; `forward` is the same with torch's fused kernel.

B sentences, T words, I input, K hidden, G gates; `*` is (B,) or (B, W) with W hypotheses.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Hidden = tuple[Tensor, ...]  # what a layer keeps between two words: (h,), or (h, c) for an LSTM; (*, K) each


def rnn_step(x: Tensor, hidden: Hidden, U: Tensor, d: Tensor) -> Hidden:
    """x = W x_t + b (*, K), U (K, K)."""
    (h,) = hidden
    return ((x + F.linear(h, U, d)).tanh(),)


def gru_step(x: Tensor, hidden: Hidden, U: Tensor, d: Tensor) -> Hidden:
    """x = W x_t + b (*, 3 K), U (3 K, K)."""
    (h,) = hidden
    sizes = 2 * h.size(-1), h.size(-1)
    (x_rz, x_n), (u_rz, u_n) = x.split(sizes, dim=-1), F.linear(h, U, d).split(sizes, dim=-1)
    r, z = (x_rz + u_rz).sigmoid().chunk(2, dim=-1)
    n = (x_n + r * u_n).tanh()
    return (n + z * (h - n),)  # (1 - z) * n + z * h


def lstm_step(x: Tensor, hidden: Hidden, U: Tensor, d: Tensor) -> Hidden:
    """x = W x_t + b (*, 4 K), U (4 K, K)."""
    h, c = hidden
    i, f, g, o = (x + F.linear(h, U, d)).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


@dataclass(frozen=True)
class Cell:
    """A step, how many matrices it has, how many vectors it keeps, and torch's kernel for a whole sentence."""

    step: Callable[[Tensor, Hidden, Tensor, Tensor], Hidden]
    gates: int
    num_states: int
    fused: type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]


CELLS = {
    "rnn": Cell(rnn_step, 1, 1, nn.RNN),
    "gru": Cell(gru_step, 3, 1, nn.GRU),
    "lstm": Cell(lstm_step, 4, 2, nn.LSTM),
}


class RecurrentLayer(nn.Module):
    """One layer over sentences, from the first word to the last, or `backward` from each sentence's own last word.

    U is orthogonal gate by gate (Saxe et al. 2014) and W as of Glorot & Bengio 2010; biases are zero, but one for the
    forget gate, so that an LSTM begins by remembering (Jozefowicz et al. 2015).
    """

    def __init__(self, cell: str, input_size: int, hidden_size: int, backward: bool = False) -> None:
        super().__init__()
        self.cell, self.hidden_size, self.backward = CELLS[cell], hidden_size, backward
        self.weights = self.cell.fused(input_size, hidden_size, batch_first=True)
        W, U, b, d = self.matrices()
        for w, u in zip(W.data.chunk(self.cell.gates), U.data.chunk(self.cell.gates), strict=True):
            nn.init.xavier_uniform_(w)
            nn.init.orthogonal_(u)
        nn.init.zeros_(b)
        nn.init.zeros_(d)
        if cell == "lstm":
            nn.init.ones_(b.data.chunk(4)[1])

    def matrices(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """W (G K, I), U (G K, K), b and d (G K,)."""
        W, U, b, d = self.weights.all_weights[0]
        return W, U, b, d

    def inputs(self, x: Tensor) -> Tensor:
        """W x + b of any number of words, (*, I) -> (*, G K)."""
        W, _, b, _ = self.matrices()
        return F.linear(x, W, b)

    def step(self, x: Tensor, hidden: Hidden) -> Hidden:
        """One word further, from its W x + b (*, G K)."""
        _, U, _, d = self.matrices()
        return self.cell.step(x, hidden, U, d)

    def initial_state(self, *shape: int) -> Hidden:
        """Nothing read yet: zeros (*, K)."""
        return (self.matrices()[1].new_zeros(*shape, self.hidden_size),) * self.cell.num_states

    def read(self, x: Tensor, lengths: Tensor | None = None, hidden: Hidden | None = None) -> tuple[Tensor, Hidden]:
        """x (B, T, I) -> h after each word (B, T, K), zero at padding, and what is kept after the last real word."""
        hidden = hidden or self.initial_state(x.size(0))
        lengths = torch.full((x.size(0),), x.size(1), device=x.device) if lengths is None else lengths
        outputs: list[Tensor] = [hidden[0]] * x.size(1)
        words, places = self.inputs(x).unbind(1), range(x.size(1))
        for t in reversed(places) if self.backward else places:
            here = (t < lengths)[:, None]
            after = self.step(words[t], hidden)
            hidden = tuple(torch.where(here, new, old) for new, old in zip(after, hidden, strict=True))
            outputs[t] = hidden[0] * here
        return torch.stack(outputs, dim=1), hidden

    def forward(self, x: Tensor, lengths: Tensor | None = None, hidden: Hidden | None = None) -> tuple[Tensor, Hidden]:
        """The same with torch's kernel, in the weights' own precision: what is small at each step adds up over many.

        The kernel is given rectangles, as a packed sequence's lengths would have to be on the host. Padding comes
        last, so no real word sees it, also from the right: each sentence is turned around within its own length.
        """
        hidden = hidden or self.initial_state(x.size(0))
        with torch.autocast(x.device.type, enabled=False):
            x = self._along(x.to(self.matrices()[0].dtype), lengths)
            y, after = self._fused(x, hidden)
            if lengths is not None:
                after = self._last(x, y, lengths, hidden)
                y = y * not_padding(lengths, y.size(1))
            return self._along(y, lengths), after

    def _along(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """x (B, T, *) in the order of reading, or back from it."""
        return reverse_sequences(x, lengths) if self.backward else x

    def _fused(self, x: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        before = tuple(part[None].to(x.dtype).contiguous() for part in hidden)
        y, after = self.weights(x, before if len(before) == 2 else before[0])
        return y, tuple(part[0] for part in (after if isinstance(after, tuple) else (after,)))

    def _last(self, x: Tensor, y: Tensor, lengths: Tensor, hidden: Hidden) -> Hidden:
        """What is kept after each sentence's own last word L; the kernel hands out h of every word, but c of none.

        With all h known the gates are one product, and c' = f * c + i * g unrolls to

            c_L = sum_t (f_(t+1) * ... * f_L) * i_t * g_t + (f_1 * ... * f_L) * c_0
        """
        last = y.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, y.size(2)))[:, 0]
        if self.cell.num_states == 1:
            return (last,)
        (h, c), (_, U, _, d) = hidden, self.matrices()
        before = torch.cat([h[:, None].to(y.dtype), y[:, :-1]], dim=1)
        i, f, g, _ = (self.inputs(x) + F.linear(before, U, d)).chunk(4, dim=-1)
        here = not_padding(lengths, y.size(1))
        log_f = F.logsigmoid(f) * here
        from_here = log_f.flip(1).cumsum(1).flip(1)  # log (f_t * ... * f_L)
        return last, ((from_here - log_f).exp() * i.sigmoid() * g.tanh() * here).sum(1) + from_here[:, 0].exp() * c


def not_padding(lengths: Tensor, size: int) -> Tensor:
    """(B, T, 1): True where a word is real, False where it is padding."""
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, :, None]


def reverse_sequences(x: Tensor, lengths: Tensor | None) -> Tensor:
    """x (B, T, I) with the words of each sentence in reverse order; padding stays where it is."""
    if lengths is None:
        return x.flip(1)
    places = torch.arange(x.size(1), device=x.device)
    mirrored = lengths[:, None] - 1 - places
    return x.gather(1, torch.where(mirrored >= 0, mirrored, places)[:, :, None].expand_as(x))


class Bidirectional(nn.Module):
    """A layer each way, side by side (Schuster & Paliwal 1997): what is known of a word includes its whole sentence."""

    def __init__(self, cell: str, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.forward_layer = RecurrentLayer(cell, input_size, hidden_size)
        self.backward_layer = RecurrentLayer(cell, input_size, hidden_size, backward=True)

    def forward(self, x: Tensor, lengths: Tensor | None = None, hidden: Hidden | None = None) -> tuple[Tensor, Hidden]:
        """x (B, T, I) -> [h_rightward; h_leftward] (B, T, 2 K) and what both keep in the end, joined alike."""
        right, left = zip(*(part.chunk(2, dim=-1) for part in hidden), strict=True) if hidden else (None, None)
        y_right, kept_right = self.forward_layer(x, lengths, right)
        y_left, kept_left = self.backward_layer(x, lengths, left)
        kept = tuple(torch.cat(parts, dim=-1) for parts in zip(kept_right, kept_left, strict=True))
        return torch.cat([y_right, y_left], dim=-1), kept


class Recurrent(nn.Module):
    """Layers one above the other, with dropout between them (Zaremba et al. 2014: never from word to word)."""

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
            else RecurrentLayer(cell, width, hidden_size, backward=direction == "backward")
            for width in (input_size, *[self.output_size] * (layers - 1))
        )

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, hidden: Sequence[Hidden] | None = None
    ) -> tuple[Tensor, list[Hidden]]:
        """x (B, T, I) -> the top layer's h after each word (B, T, K), and what each layer keeps after the last one."""
        kept = []
        for number, layer in enumerate(self.layers):
            x, after = layer(self.dropout(x) if number else x, lengths, hidden[number] if hidden else None)
            kept.append(after)
        return x, kept


class RecurrentStack(Recurrent):
    """Layers that can also go on by one word at a time, for any number of hypotheses: they read forward only."""

    layers: Sequence[RecurrentLayer]

    def __init__(self, cell: str, input_size: int, hidden_size: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__(cell, input_size, hidden_size, layers, dropout=dropout)
        self.gate_size = CELLS[cell].gates * hidden_size

    def initial_state(self, *shape: int) -> list[Hidden]:
        """What each layer keeps before the first word: zeros (*, K)."""
        return [layer.initial_state(*shape) for layer in self.layers]

    def inputs(self, x: Tensor) -> Tensor:
        """The first layer's W x + b of any number of words, (*, I) -> (*, G K)."""
        return self.layers[0].inputs(x)

    def step(self, x: Tensor, hidden: Sequence[Hidden]) -> list[Hidden]:
        """One word further, from the first layer's W x + b (*, G K); the top layer's h is `[-1][0]` of the result."""
        kept: list[Hidden] = []
        for layer, before in zip(self.layers, hidden, strict=True):
            kept.append(layer.step(layer.inputs(self.dropout(kept[-1][0])) if kept else x, before))
        return kept
