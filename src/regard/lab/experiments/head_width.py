"""The width of a head: h heads of width D / h cost as much as one wide head, and do more, until they are too narrow.

W_Q, W_K, W_V and W_O together have 4 D h d_k weights. With d_k = D / h this is 4 D^2 for any h; with d_k = D it grows
with h. The first panel trains both for a task that needs four heads: every word reports its two neighbours on either
side. A head of width d_k has scores q_i^T k_j of rank d_k at most, and passes on d_k numbers. So it can be too narrow
(Bhojanapalli et al. 2020). The last panel shows that for one head, which reports one neighbour.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.attention.multihead import MultiHeadAttention
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import ToyTensors, accuracy, fit_toy, generator_of, seeded, tagging_loss

WORDS, LENGTH, WIDTH = 16, 12, 64
DISTANCES = (1, -1, 2, -2)
SPLIT, FULL = "width / heads", "full width"


class Layer(nn.Module):
    """Word and position embeddings, one attention layer with heads of any width, and linear outputs."""

    def __init__(self, heads: int, head_dim: int, answers: int) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.attention = MultiHeadAttention(WIDTH, heads, head_dim=head_dim)
        self.outputs = nn.ModuleList(nn.Linear(WIDTH, WORDS) for _ in range(answers))

    def forward(self, tokens: Tokens) -> Tensor:
        """ids (B, T) -> logits (B, T, answers, WORDS)."""
        x = self.words(tokens.ids) + self.positions(tokens.layout.positions)
        h = self.attention(x, x, tokens.layout.pattern(tokens.layout))
        return torch.stack([output(h) for output in self.outputs], dim=2)


def neighbours(generator: torch.Generator, answers: int, size: int = 32) -> ToyTensors:
    """Random words on a circle; the labels of a word are its nearest neighbours."""
    ids = torch.randint(WORDS, (size, LENGTH), generator=generator)
    return {"ids": ids, "labels": torch.stack([ids.roll(by, dims=1) for by in DISTANCES[:answers]], dim=2)}


def trained(seed: int, heads: int, head_dim: int, answers: int, steps: int) -> Layer:
    seeded(seed, "weights", heads, head_dim)
    model = Layer(heads, head_dim, answers)
    fit_toy(model, partial(neighbours, answers=answers), tagging_loss, steps=steps, rate=1e-2, seed=seed)
    return model


def tested(model: Layer, seed: int, answers: int) -> float:
    return accuracy(model, neighbours(generator_of(seed, "test"), answers, 300))


def measure(seed: int, effort: Effort, record: Record) -> None:
    steps = effort.pick(200, 60)
    for series in (SPLIT, FULL):
        for heads in effort.pick((1, 2, 4, 16), (1, 4)):
            head_dim = WIDTH // heads if series == SPLIT else WIDTH
            model = trained(seed, heads, head_dim, len(DISTANCES), steps)
            record("accuracy", series, heads, tested(model, seed, len(DISTANCES)))
            record("parameters", series, heads, sum(p.numel() for p in model.attention.parameters()))
    for head_dim in effort.pick((1, 2, 4, 16, 64), (1, 64)):
        record("width", "one head", head_dim, tested(trained(seed, 1, head_dim, 1, steps), seed, 1))


def judge(results: Results) -> Verdict:
    split, full = (results.values("accuracy", series, 4) for series in (SPLIT, FULL))
    widths = results.xs("width", "one head")
    enough = min(0.99, *results.values("width", "one head", widths[-1]))
    smallest = min(float(x) for x in widths if min(results.values("width", "one head", x)) >= enough)
    wider = above(full, split, by=0.02)
    return Verdict(decide(not wider, wider), {"enough": enough, "smallest": smallest})
