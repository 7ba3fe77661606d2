"""Distance: attention recalls the first of n symbols for every n, recurrent networks only for a small one.

A model reads n random symbols and must name the first one at the end. In a recurrent network the symbol passes n - 1
state updates, h_t = f(h_{t-1}, x_t). On the way back the gradient is a product of n - 1 Jacobians dh_t / dh_{t-1}: it
fades, and the network does not find out that the first symbol matters. An LSTM adds to its cell,
c_t = f_t c_{t-1} + ..., with a forget gate near 1 at the start, and gets farther. In attention the path from the first
symbol to the last position is one weighted sum, for any n. That the path is short does not mean that n plays no role:
the softmax has to find one position among n.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens
from regard.attention.multihead import MultiHeadAttention
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import ToyTensors, accuracy, fit_toy, generator_of, seeded, tagging_loss
from regard.layers.positions import sinusoid
from regard.layers.recurrent import Recurrent

SYMBOLS, WIDTH = 8, 32
KINDS = ("rnn", "gru", "lstm", "attention")


class RecurrentReader(nn.Module):
    """A recurrent layer; the answer is read from its last state."""

    def __init__(self, cell: str) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, WIDTH)
        self.layer = Recurrent(cell, WIDTH, 2 * WIDTH)
        self.output = nn.Linear(2 * WIDTH, SYMBOLS)

    def forward(self, tokens: Tokens) -> Tensor:
        """ids (B, T) -> logits (B, SYMBOLS)."""
        states, _ = self.layer(self.symbols(tokens.ids))
        return self.output(states[:, -1])


class AttentionReader(nn.Module):
    """Attention of the last position to all positions, with one head."""

    def __init__(self) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, WIDTH)
        self.attention = MultiHeadAttention(WIDTH, 1)
        self.output = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, tokens: Tokens) -> Tensor:
        """ids (B, T) -> logits (B, SYMBOLS)."""
        x = self.symbols(tokens.ids) + sinusoid(tokens.layout.positions, WIDTH)
        last, keys = (Padded(torch.full((len(x),), size), size) for size in (1, x.size(1)))  # one query a sentence
        return self.output(self.attention(x[:, -1:], x, last.pattern(keys))[:, 0])


def symbols(generator: torch.Generator, length: int, size: int = 32) -> ToyTensors:
    """Random symbols; the label is the first of them."""
    ids = torch.randint(SYMBOLS, (size, length), generator=generator)
    return {"ids": ids, "labels": ids[:, 0]}


def measure(seed: int, effort: Effort, record: Record) -> None:
    for length in effort.pick((5, 10, 15, 20, 40), (5, 30)):
        for kind in KINDS:
            seeded(seed, "weights", kind)
            model = AttentionReader() if kind == "attention" else RecurrentReader(kind)
            batch = partial(symbols, length=length)
            steps = effort.pick(200, 60)
            losses = fit_toy(model, batch, tagging_loss, steps=steps, rate=effort.pick(3e-3, 1e-2), seed=seed)
            below = [number for number, loss in enumerate(losses, 1) if loss < 0.1]
            record("accuracy", kind, length, accuracy(model, batch(generator_of(seed, "test"), size=500)))
            record("steps", kind, length, below[0] * steps / len(losses) if below else steps)


def judge(results: Results) -> Verdict:
    lengths = results.xs("accuracy", "attention")
    *recurrent, attention = (results.values("accuracy", kind, lengths[-1]) for kind in KINDS)
    best = [max(map(max, recurrent))]
    return Verdict(
        decide(above(attention, best, by=0.5), above([0.5], attention) or min(map(min, recurrent)) > max(attention)),
        {"near": float(lengths[0]), "far": float(lengths[-1])},
    )
