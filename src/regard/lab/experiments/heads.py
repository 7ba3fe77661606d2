"""Several heads: one head averages what it attends to, so it cannot report two neighbours.

One attention layer must name the left and the right neighbour of every word. A head gives each word one weighted mean
of all words, a l + b r for weights a and b on the neighbours l and r. A linear output cannot read both from it: the
larger of the two wins in both answers. Two heads report one neighbour each. The weights a and b may differ, so a
feed-forward layer after the attention can learn to undo the mean; the third series shows that.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.attention.multihead import MultiHeadAttention
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import accuracy, fit_toy, generator_of, neighbour_words, seeded, tagging_loss
from regard.layers.blocks import FeedForward

WORDS, LENGTH, WIDTH = 16, 8, 32
ONE, BOTH, WITH_FEEDFORWARD = "one neighbour", "both neighbours", "both, with a feed-forward layer"


class Layer(nn.Module):
    """Word and position embeddings, one attention layer, a feed-forward layer if asked, and linear outputs."""

    def __init__(self, heads: int, answers: int, feedforward: bool) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.attention = MultiHeadAttention(WIDTH, heads)
        self.feedforward = FeedForward(WIDTH, 4 * WIDTH) if feedforward else nn.Identity()
        self.outputs = nn.ModuleList(nn.Linear(WIDTH, WORDS) for _ in range(answers))

    def forward(self, tokens: Tokens) -> Tensor:
        """ids (B, T) -> logits (B, T, answers, WORDS)."""
        x = self.words(tokens.ids) + self.places(tokens.layout.positions)
        h = self.feedforward(self.attention(x, x, tokens.layout.pattern(tokens.layout)))
        return torch.stack([output(h) for output in self.outputs], dim=2)


def measure(seed: int, effort: Effort, record: Record) -> None:
    for series, distances in ((ONE, (1,)), (BOTH, (1, -1)), (WITH_FEEDFORWARD, (1, -1))):
        batch = partial(neighbour_words, words=WORDS, length=LENGTH, distances=distances)
        for heads in effort.pick((1, 2, 4, 8), (1, 2)):
            seeded(seed, "weights", heads)
            model = Layer(heads, len(distances), feedforward=series == WITH_FEEDFORWARD)
            fit_toy(model, partial(batch, size=64), tagging_loss, steps=effort.pick(500, 150), rate=1e-2, seed=seed)
            record("accuracy", series, heads, accuracy(model, batch(generator_of(seed, "test"), size=500)))


def judge(results: Results) -> Verdict:
    one, two = (results.values("accuracy", BOTH, heads) for heads in (1, 2))
    return Verdict(decide(above(two, one, by=0.05), above(one, two)))
