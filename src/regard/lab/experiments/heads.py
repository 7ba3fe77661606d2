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
from regard.lab.experiment import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import ToyTensors, accuracy, fit_toy, generator_of, seeded, tagging_loss
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


def neighbours(generator: torch.Generator, answers: int, size: int = 64) -> ToyTensors:
    """Random words on a circle; the labels of a word are its left and, for two answers, its right neighbour."""
    ids = torch.randint(WORDS, (size, LENGTH), generator=generator)
    return {"ids": ids, "labels": torch.stack([ids.roll(1, dims=1), ids.roll(-1, dims=1)], dim=2)[:, :, :answers]}


class Heads(Experiment):
    """Accuracy over the number of heads, for one neighbour and for both."""

    name = "heads"
    topic = "attention"
    title = Text("Why several heads?", "为什么要多头？")
    questions = (
        Question(
            "001:176, 001:86-91, 000:163-165, 003:157, 004:481",
            Text("Why several heads?", "为什么需要多头注意力？"),
            Text(
                "They attend to different subspaces and positions at once, like the channels of a CNN; it is better.",
                "让模型同时关注不同位置、不同子空间的信息，类似 CNN 的多通道；效果更好。",
            ),
        ),
    )
    hypothesis = Text(
        "One head cannot report two positions at once; two heads can, at the same cost.",
        "一个头不能同时报告两个位置；两个头可以，且计算量相同。",
    )
    varied = Text("the number of heads; the width of the layer stays the same", "头数；层的宽度不变")
    measured = Text("accuracy of the neighbours of words in new sentences", "新句子中各词邻居的准确率")
    refuted_if = Text(
        "one head names both neighbours as well as two heads do", "一个头说出两个邻居的准确率与两个头相同"
    )
    panels = (
        Panel(
            "accuracy",
            Text("naming the neighbours of every word", "说出每个词的邻居"),
            Text("heads", "头数"),
            Text("accuracy", "准确率"),
            log="x",
            names={
                ONE: Text("one neighbour", "一个邻居"),
                BOTH: Text("both neighbours", "两个邻居"),
                WITH_FEEDFORWARD: Text("both, with a feed-forward layer", "两个邻居，带前馈层"),
            },
        ),
    )
    papers = ("Vaswani et al. 2017, section 3.2.2 and table 3 (A)", "Michel et al. 2019")
    seconds = 50

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        for series, answers in ((ONE, 1), (BOTH, 2), (WITH_FEEDFORWARD, 2)):
            for heads in effort.pick((1, 2, 4, 8), (1, 2)):
                seeded(seed, "weights", heads)
                model = Layer(heads, answers, feedforward=series == WITH_FEEDFORWARD)
                batch = partial(neighbours, answers=answers)
                fit_toy(model, batch, tagging_loss, steps=effort.pick(500, 150), rate=1e-2, seed=seed)
                record("accuracy", series, heads, accuracy(model, batch(generator_of(seed, "test"), size=500)))

    def judge(self, results: Results) -> Verdict:
        one, two = (results.values("accuracy", BOTH, heads) for heads in (1, 2))
        return Verdict(
            decide(above(two, one, by=0.05), above(one, two)),
            Text(
                "With one head the model names {one:.0%} of both neighbours, with two heads {two:.0%}. One neighbour "
                "needs only one head ({single:.0%}); a feed-forward layer raises one head to {feedforward:.0%}.",
                "一个头时，两个邻居的准确率为 {one:.0%}，两个头时为 {two:.0%}。只说一个邻居时一个头就够"
                "（{single:.0%}）；加上前馈层后，一个头可达 {feedforward:.0%}。",
            ),
            {
                "one": results.mean("accuracy", BOTH, 1),
                "two": results.mean("accuracy", BOTH, 2),
                "single": results.mean("accuracy", ONE, 1),
                "feedforward": results.mean("accuracy", WITH_FEEDFORWARD, 1),
            },
        )
