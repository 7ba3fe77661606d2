"""Why weights are not initialised with zeros: units that start equal stay equal.

A network with one hidden layer, h = tanh(W_1 x + b_1), o = W_2 h + b_2. If all rows of W_1 are equal and all columns of
W_2 too, all hidden units compute the same, and all get the same gradient:

    dL/dW_1[i] = W_2[:, i] (1 - h_i^2) x

so they stay equal for ever: the layer is one unit wide, and W_1 has rank 1. With zeros it is worse: h = 0, so the
gradient of W_2 is zero, and W_2 = 0, so that of W_1 is zero. Only b_2 learns. Random weights break the symmetry. The
task is exclusive or: have the first two of five inputs the same sign? One hidden unit cannot tell.
"""

import torch
from torch import Tensor, nn

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, seeded
from regard.losses.crossentropy import Loss, cross_entropy

INPUTS, UNITS, LOG_EVERY, CONSTANT = 5, 16, 20, 0.1
ROUNDING = 0.01
"""Singular values below this share of the largest count as zero: rounding makes equal units differ a little."""
ZERO, EQUAL, RANDOM = "zero", "equal", "random"
NAMES = {
    ZERO: Text("all zero", "全零"),
    EQUAL: Text("all equal", "全部相等"),
    RANDOM: Text("random", "随机"),
}


class Network(nn.Module):
    """One hidden layer and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.output = nn.Linear(INPUTS, UNITS), nn.Linear(UNITS, 2)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, INPUTS) -> logits (B, 2)."""
        return self.output(torch.tanh(self.hidden(x)))


def initialise(network: Network, kind: str) -> None:
    """Zero, or equal within a layer except for one row of outputs, or the random weights as they are."""
    if kind == RANDOM:
        return
    for parameter in network.parameters():
        nn.init.constant_(parameter, 0.0 if kind == ZERO else CONSTANT)
    if kind == EQUAL:  # the two classes must differ, else every gradient is zero here too
        nn.init.constant_(network.output.weight[1], -CONSTANT)


def signs(generator: torch.Generator, size: int = 64) -> ToyTensors:
    """Points of a cube, and whether their first two coordinates have the same sign."""
    x = 2 * torch.rand(size, INPUTS, generator=generator) - 1
    return {"x": x, "labels": (x[:, :2].prod(dim=1) > 0).long()}


def loss(model: nn.Module, batch: ToyTensors) -> Loss:
    """Cross-entropy of the class of each point."""
    return cross_entropy(model(batch["x"]), batch["labels"], ignore=IGNORE)


class ZeroInit(Experiment):
    """Loss over steps and rank of the hidden layer for three initialisations."""

    name = "zero-init"
    topic = "foundations"
    title = Text("Why not start with zeros?", "权重为什么不能全零初始化？")
    questions = (
        Question(
            "004:158, 004:155-159",
            Text("Why can the initial weights not be all zero?", "为什么不能全部初始化为零？"),
            Text("–", "–"),
        ),
    )
    hypothesis = Text(
        "Units that start equal stay equal: with zero or equal weights the hidden layer keeps rank one at most and "
        "cannot learn exclusive or.",
        "起点相同的单元始终相同：全零或全部相等的权重使隐藏层的秩至多为一，学不会异或。",
    )
    varied = Text("the initial weights: zero, equal, random", "初始权重：全零、相等、随机")
    measured = Text("training loss, rank of the hidden layer and accuracy", "训练损失、隐藏层的秩与准确率")
    refuted_if = Text("zero or equal weights learn as well as random ones", "全零或相等的权重学得与随机权重一样好")
    panels = (
        Panel(
            "loss",
            Text("learning exclusive or", "学习异或"),
            Text("step", "步数"),
            Text("training loss", "训练损失"),
            names=NAMES,
        ),
        Panel(
            "after",
            Text("after training", "训练之后"),
            Text("initial weights", "初始权重"),
            Text("rank of the hidden layer, or accuracy", "隐藏层的秩，或准确率"),
            kind="bars",
            names={**NAMES, "rank": Text("rank", "秩"), "accuracy": Text("accuracy", "准确率")},
        ),
    )
    papers = ("Glorot and Bengio 2010",)
    seconds = 8

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        test = signs(generator_of(seed, "test"), size=1000)
        for kind in (ZERO, EQUAL, RANDOM):
            seeded(seed, "weights")
            model = Network()
            with torch.no_grad():
                initialise(model, kind)
            steps = effort.pick(400, 160)
            losses = fit_toy(model, signs, loss, steps=steps, rate=2e-2, seed=seed, log_every=LOG_EVERY)
            for number, value in enumerate(losses, start=1):
                record("loss", kind, number * LOG_EVERY, value)
            with torch.no_grad():
                right = (model(test["x"]).argmax(dim=-1) == test["labels"]).float().mean()
            record("after", "rank", kind, float(torch.linalg.matrix_rank(model.hidden.weight, rtol=ROUNDING)))
            record("after", "accuracy", kind, float(right))

    def judge(self, results: Results) -> Verdict:
        accuracy = {kind: results.values("after", "accuracy", kind) for kind in NAMES}
        rank = {kind: results.mean("after", "rank", kind) for kind in NAMES}
        worse = all(above(accuracy[RANDOM], accuracy[kind], by=0.1) for kind in (ZERO, EQUAL))
        as_good = any(not above(accuracy[RANDOM], accuracy[kind]) for kind in (ZERO, EQUAL))
        return Verdict(
            decide(worse and rank[ZERO] == 0 and rank[EQUAL] == 1, as_good),
            Text(
                "Starting with zeros the hidden layer has rank {zero_rank:.0f} after training and the accuracy is "
                "{zero:.0%}; with equal weights rank {equal_rank:.0f} and {equal:.0%}; with random weights rank "
                "{random_rank:.0f} and {random:.0%}.",
                "全零初始化时，训练后隐藏层的秩为 {zero_rank:.0f}，准确率 {zero:.0%}；全部相等时秩为 "
                "{equal_rank:.0f}，"
                "准确率 {equal:.0%}；随机初始化时秩为 {random_rank:.0f}，准确率 {random:.0%}。",
            ),
            {
                **{kind: results.mean("after", "accuracy", kind) for kind in NAMES},
                **{f"{kind}_rank": rank[kind] for kind in NAMES},
            },
        )
