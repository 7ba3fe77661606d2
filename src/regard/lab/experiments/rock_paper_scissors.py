"""One matrix for queries and keys: then scores are symmetric, and attention cannot go round in a circle.

Each of three words, rock, paper and scissors, carries a random digit. Every word must report the digit of the word
that beats it: rock looks at paper, paper at scissors, scissors at rock. With one matrix W for queries and keys the
scores are symmetric, s_ij = (W x_i)^T (W x_j) = s_ji. The three wishes then contradict each other:

    s_rock,paper > s_rock,scissors = s_scissors,rock > s_scissors,paper = s_paper,scissors > s_paper,rock = s_rock,paper

Louder values do not help. With weights a_ij = exp(s_ij) / Z_i the products of both directions of the circle are equal,

    a_rock,paper a_paper,scissors a_scissors,rock = a_rock,scissors a_scissors,paper a_paper,rock

so at least one of three words reads a wrong one best, and two of three is the limit. "Look at the previous word" is no
such circle: on a line the keys only have to become shorter from place to place. Two heads could divide the words
between them; whether training finds that is measured too.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.attention.multihead import MultiHeadAttention
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, accuracy, fit_toy, generator_of, seeded, tagging_loss

WORDS, DIGITS, WIDTH, LENGTH = 3, 8, 32, 6
MARGIN = 0.01
"""Symmetric scores can reach the limit itself; a share above it by more than this refutes it."""
SEPARATE, SHARED = "two matrices", "one matrix"
CIRCLE, TWO_HEADS, LINE = "rock, paper, scissors", "the same with two heads", "previous word"


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
    """Places with random digits; the label of a place is the digit of the place before it, the first has none."""
    digits = torch.randint(DIGITS, (size, LENGTH), generator=generator)
    labels = digits.roll(1, dims=1)
    labels[:, 0] = IGNORE
    return {"ids": torch.arange(LENGTH) * DIGITS + digits, "labels": labels}


TASKS: dict[str, tuple[Callable[..., ToyTensors], int, int]] = {
    CIRCLE: (circle, WORDS, 1),
    TWO_HEADS: (circle, WORDS, 2),
    LINE: (line, LENGTH, 1),
}
"""Task -> its batches, its number of words, heads."""


def different(batch: ToyTensors) -> ToyTensors:
    """The inputs whose labels all differ, so that a wrong word is a wrong answer."""
    ordered = batch["labels"].sort(dim=1).values
    rows = (ordered.diff(dim=1) != 0).all(dim=1)
    return {name: tensor[rows] for name, tensor in batch.items()}


class RockPaperScissors(Experiment):
    """Accuracy with separate and with shared matrices for queries and keys."""

    name = "rock-paper-scissors"
    topic = "attention"
    title = Text("Why not one matrix for queries and keys?", "Q 和 K 为什么不用同一个矩阵？")
    questions = (
        Question(
            "001:177",
            Text("Why do queries and keys have different matrices?", "Q 和 K 为什么用不同的权重矩阵生成？"),
            Text("–", "–"),
        ),
    )
    hypothesis = Text(
        "With one matrix for queries and keys the scores are symmetric, and no head can look round in a circle.",
        "Q 和 K 共用一个矩阵时，分数是对称的，一个头无法沿环形方向注意。",
    )
    varied = Text("one or two matrices for queries and keys; the task", "Q 和 K 用一个还是两个矩阵；任务")
    measured = Text(
        "accuracy of the digits that words report in new inputs, where all digits differ",
        "新输入（数字各不相同）中各词报告数字的准确率",
    )
    refuted_if = Text(
        "one head with one matrix is right more often than the two words of three that symmetric scores allow",
        "一个矩阵的一个头，准确率高于对称分数所允许的三分之二",
    )
    panels = (
        Panel(
            "accuracy",
            Text("reporting the digit of the right word", "报告正确的词所带的数字"),
            Text("task", "任务"),
            Text("accuracy", "准确率"),
            kind="bars",
            names={
                SEPARATE: Text("two matrices", "两个矩阵"),
                SHARED: Text("one matrix", "一个矩阵"),
                CIRCLE: Text("rock, paper, scissors", "石头剪刀布"),
                TWO_HEADS: Text("the same, two heads", "石头剪刀布，两个头"),
                LINE: Text("previous word", "前一个词"),
            },
        ),
    )
    papers = ("Vaswani et al. 2017, section 3.2.2",)
    seconds = 30

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        for task, (batch, words, heads) in TASKS.items():
            for series in (SEPARATE, SHARED):
                seeded(seed, "weights")
                model = Layer(words, heads, shared=series == SHARED)
                fit_toy(model, batch, tagging_loss, steps=effort.pick(500, 80), rate=1e-2, seed=seed)
                test = batch(generator_of(seed, "test"), size=4000)
                record("accuracy", series, task, accuracy(model, different(test)))

    def judge(self, results: Results) -> Verdict:
        separate, shared = (results.values("accuracy", series, CIRCLE) for series in (SEPARATE, SHARED))
        limit = 2 / 3
        return Verdict(
            decide(
                above(separate, [limit], by=MARGIN) and above([limit + MARGIN], shared),
                above(shared, [limit], by=MARGIN),
            ),
            Text(
                "With two matrices {separate:.0%} of the words find the one that beats them, with one matrix "
                "{shared:.0%}; symmetric scores can serve {limit:.0%} of them at most. With two heads, one matrix "
                "reaches {heads:.0%}; where every word looks at the previous one, {line:.0%}.",
                "两个矩阵时，{separate:.0%} 的词能找到克制自己的词，一个矩阵时为 {shared:.0%}；对称的分数最多"
                "能满足其中的 {limit:.0%}。有两个头时，一个矩阵达到 {heads:.0%}；“看前一个词”的任务上，"
                "一个矩阵为 {line:.0%}。",
            ),
            {
                "separate": results.mean("accuracy", SEPARATE, CIRCLE),
                "shared": results.mean("accuracy", SHARED, CIRCLE),
                "heads": results.mean("accuracy", SHARED, TWO_HEADS),
                "line": results.mean("accuracy", SHARED, LINE),
                "limit": limit,
            },
        )
