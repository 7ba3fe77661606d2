"""Vanishing gradients: a fresh GRU forgets like an RNN; it remembers once its update gate z is near one.

The derivative of the last state by the token k steps before is a product of k matrices:

    RNN    dh_t / dh_{t-1} = diag(1 - h_t^2) U             each factor shrinks a vector, since tanh' <= 1
                             diag(h_t (1 - h_t)) U         with a sigmoid in place of tanh: sigmoid' <= 1/4
    GRU    dh_t / dh_{t-1} = diag(z) + (1 - z) (...) + ..  z = 1: the factor is 1, nothing vanishes

With biases of zero z is about 1/2, so half of the gradient is lost with every token. A bias b_z adds to the input of
the sigmoid: z is about 0.88 for b_z = 2 and 0.98 for b_z = 4. Training on a task that needs the first token moves z.

The gradient is measured for random directions v: the norm of d(v h_T) / d x_{T-k}, relative to that of k = 0.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import ToyTensors, accuracy, fit_toy, generator_of, seeded, tagging_loss
from regard.layers.recurrent import RecurrentLayer

SYMBOLS, WIDTH = 8, 48
RNN, GRU, GRU_2, GRU_4 = "RNN", "GRU", "GRU, bias of z = 2", "GRU, bias of z = 4"
CELLS = {RNN: ("rnn", 0.0), GRU: ("gru", 0.0), GRU_2: ("gru", 2.0), GRU_4: ("gru", 4.0)}


class Reader(nn.Module):
    """A recurrent layer that names a symbol after the last token."""

    def __init__(self, cell: str, bias_of_z: float) -> None:
        super().__init__()
        self.embedding, self.layer = nn.Embedding(SYMBOLS, WIDTH // 3), RecurrentLayer(cell, WIDTH // 3, WIDTH)
        self.output = nn.Linear(WIDTH, SYMBOLS)
        if cell == "gru":
            nn.init.constant_(self.layer.matrices()[2].data.chunk(3)[1], bias_of_z)  # r, z, n

    def forward(self, tokens: Tokens) -> Tensor:
        """ids (B, T) -> logits (B, SYMBOLS)."""
        return self.output(self.last(self.embedding(tokens.ids)))

    def last(self, x: Tensor) -> Tensor:
        """Embeddings (B, T, E) -> the last state (B, K)."""
        return self.layer(x)[0][:, -1]


def recall(generator: torch.Generator, distance: int, size: int = 32) -> ToyTensors:
    """Random symbols; the label is the first one, `distance` tokens before the last."""
    ids = torch.randint(SYMBOLS, (size, distance + 1), generator=generator)
    return {"ids": ids, "labels": ids[:, 0]}


def gradients(model: Reader, ids: Tensor, generator: torch.Generator) -> Tensor:
    """The norm of the gradient of the last state by the token k steps before, for k = 0 .. T - 1, relative to k = 0."""
    x = model.embedding(ids).detach().requires_grad_()
    h = model.last(x)
    directions = torch.randn(h.shape, generator=generator)
    (gradient,) = torch.autograd.grad((h * directions).sum(), x)
    norms = gradient.norm(dim=-1).mean(dim=0).flip(0)
    return norms / norms[0]


def measure(seed: int, effort: Effort, record: Record) -> None:
    batch = partial(recall, distance=effort.pick(24, 12))

    def record_gradients(model: Reader, panel: str, name: str) -> None:
        generator = generator_of(seed, "gradient")
        for k, value in enumerate(gradients(model, batch(generator, size=200)["ids"], generator).tolist()):
            record(panel, name, k, value)

    seeded(seed, "weights")
    record_gradients(Reader("rnn-sigmoid", 0.0), "before", "sigmoid RNN")
    for name, (cell, bias) in CELLS.items():
        seeded(seed, "weights")
        model = Reader(cell, bias)
        record_gradients(model, "before", name)
        fit_toy(model, batch, tagging_loss, steps=effort.pick(500, 90), rate=3e-3, seed=seed)
        record_gradients(model, "after", name)
        test = batch(generator_of(seed, "test"), size=500)
        record("accuracy", "accuracy", name, accuracy(model, test))


def judge(results: Results) -> Verdict:
    far = max(float(x) for x in results.xs("before", RNN))
    fresh = {name: results.values("before", name, far) for name in CELLS}
    right = {name: results.values("accuracy", "accuracy", name) for name in CELLS}
    by_bias = above(fresh[GRU_4], fresh[GRU_2]) and above(fresh[GRU_2], fresh[GRU])
    helps = above(fresh[GRU_4], fresh[RNN]) and above(right[GRU_4], right[RNN])
    wrong = above(fresh[GRU], fresh[GRU_4]) or above(right[RNN], right[GRU_4])
    return Verdict(decide(by_bias and helps, wrong), {"distance": far})
