"""One matrix for queries and keys: then scores are symmetric, and attention cannot go round in a circle.

Each of three words, rock, paper and scissors, carries a random digit. Every word must report the digit of the word
that beats it: rock looks at paper, paper at scissors, scissors at rock. With one matrix W for queries and keys the
scores are symmetric, s_ij = (W x_i)^T (W x_j) = s_ji. The three wishes then contradict each other:

    s_rock,paper > s_rock,scissors = s_scissors,rock > s_scissors,paper = s_paper,scissors > s_paper,rock = s_rock,paper

Louder values do not help. With weights a_ij = exp(s_ij) / Z_i the products of both directions of the circle are equal,

    a_rock,paper a_paper,scissors a_scissors,rock = a_rock,scissors a_scissors,paper a_paper,rock

so at least one of three words reads a wrong one best, and two of three is the limit. "Look at the previous word" is no
such circle: on a line the keys only have to become shorter from one position to the next. Two heads could divide the
words between them; whether training finds that is measured too.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.attention.multihead import MultiHeadAttention
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, accuracy, fit_toy, generator_of, seeded, tagging_loss

WORDS, DIGITS, WIDTH, LENGTH = 3, 8, 32, 6
SEPARATE, SHARED = "two matrices", "one matrix"
CIRCLE = "rock, paper, scissors"


class Layer(nn.Module):
    """Embeddings of words and of their digits, one attention layer, and a linear output."""

    def __init__(self, words: int, heads: int, shared: bool) -> None:
        super().__init__()
        self.words, self.digits = nn.Embedding(words, WIDTH), nn.Embedding(DIGITS, WIDTH)
        self.attention = MultiHeadAttention(WIDTH, heads, share_qk=shared)
        self.output = nn.Linear(WIDTH, DIGITS)

    def forward(self, tokens: Tokens) -> Tensor:
        """ids (B, T), word * DIGITS + digit -> logits (B, T, DIGITS)."""
        x = self.words(tokens.ids // DIGITS) + self.digits(tokens.ids % DIGITS)
        return self.output(self.attention(x, x, tokens.layout.pattern(tokens.layout)))


def circle(generator: torch.Generator, size: int = 64) -> ToyTensors:
    """Rock, paper and scissors with random digits; the label of a word is the digit of the word that beats it."""
    digits = torch.randint(DIGITS, (size, WORDS), generator=generator)
    return {"ids": torch.arange(WORDS) * DIGITS + digits, "labels": digits.roll(-1, dims=1)}


def line(generator: torch.Generator, size: int = 64) -> ToyTensors:
    """Positions with random digits; the label is the digit at the position before, and the first has none."""
    digits = torch.randint(DIGITS, (size, LENGTH), generator=generator)
    labels = digits.roll(1, dims=1)
    labels[:, 0] = IGNORE
    return {"ids": torch.arange(LENGTH) * DIGITS + digits, "labels": labels}


TASKS: dict[str, tuple[Callable[..., ToyTensors], int, int]] = {
    CIRCLE: (circle, WORDS, 1),
    "the same with two heads": (circle, WORDS, 2),
    "previous word": (line, LENGTH, 1),
}
"""Task -> its batches, its number of words, heads."""


def different(batch: ToyTensors) -> ToyTensors:
    """The inputs whose labels all differ, so that a wrong word is a wrong answer."""
    ordered = batch["labels"].sort(dim=1).values
    rows = (ordered.diff(dim=1) != 0).all(dim=1)
    return {name: tensor[rows] for name, tensor in batch.items()}


def measure(seed: int, effort: Effort, record: Record) -> None:
    for task, (batch, words, heads) in TASKS.items():
        for series in (SEPARATE, SHARED):
            seeded(seed, "weights")
            model = Layer(words, heads, shared=series == SHARED)
            fit_toy(model, batch, tagging_loss, steps=effort.pick(500, 80), rate=1e-2, seed=seed)
            test = batch(generator_of(seed, "test"), size=4000)
            record("accuracy", series, task, accuracy(model, different(test)))


def judge(results: Results) -> Verdict:
    separate, shared = (results.values("accuracy", series, CIRCLE) for series in (SEPARATE, SHARED))
    limit, margin = 2 / 3, 0.01  # symmetric scores can reach the limit itself
    possible = above(separate, [limit], by=margin) and above([limit + margin], shared)
    return Verdict(decide(possible, above(shared, [limit], by=margin)), {"limit": limit})
