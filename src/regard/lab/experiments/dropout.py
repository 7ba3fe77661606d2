"""Dropout at test time: eval() is the mean over all masks for a linear layer, and only near it for a network.

In training a unit is kept with probability 1 - p and divided by 1 - p, so that its mean is its value:

    x_i' = x_i m_i / (1 - p),   m_i = 1 with probability 1 - p, else 0,   E[x'] = x

In evaluation there is no mask. For a linear layer this is the mean of its outputs over all masks, W E[x'] = W x. A
softmax is not linear: E[softmax(z')] is not softmax(E[z']), and a mean over masks is less certain. This experiment
draws 1,000 masks and counts a difference in units of its own sampling error, the standard deviation over masks divided
by sqrt(1,000). The last panel trains a small network on few examples with each rate.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import ToyTensors, fit_toy, generator_of, seeded
from regard.losses.crossentropy import Loss, cross_entropy

INPUTS, WIDTH, CLASSES, EXAMPLES, MASKS = 32, 128, 4, 64, 1000
RATES = (0.0, 0.1, 0.3, 0.5, 0.7)
LINEAR, SOFTMAX = "linear layer", "softmax"
LARGE = 4.0
"""So many sampling errors are no chance."""


def examples(seed: int, purpose: str, size: int) -> ToyTensors:
    """Random inputs; the class is the largest of four linear functions of them, and noise."""
    x = torch.randn(size, INPUTS, generator=generator_of(seed, purpose))
    functions = torch.randn(INPUTS, CLASSES, generator=generator_of(seed, "functions"))
    noise = 3 * torch.randn(size, CLASSES, generator=generator_of(seed, purpose, "noise"))
    return {"x": x, "labels": (x @ functions + noise).argmax(dim=1)}


def some(generator: torch.Generator, of: ToyTensors, size: int = 32) -> ToyTensors:
    """A batch of a fixed set of examples."""
    chosen = torch.randint(len(of["labels"]), (size,), generator=generator)
    return {name: values[chosen] for name, values in of.items()}


def build(rate: float, seed: int) -> nn.Sequential:
    """A network with one hidden layer and dropout on it."""
    seeded(seed, "weights")
    return nn.Sequential(nn.Linear(INPUTS, WIDTH), nn.ReLU(), nn.Dropout(rate), nn.Linear(WIDTH, CLASSES))


def loss(model: nn.Module, batch: ToyTensors) -> Loss:
    """Cross-entropy of the class."""
    return cross_entropy(model(batch["x"]), batch["labels"], ignore=-1)


@torch.no_grad()
def nll_of(model: nn.Module, batch: ToyTensors) -> float:
    """Negative log-likelihood per example, without dropout."""
    found = loss(model.eval(), batch)
    return float(found.nll / found.count)


@torch.no_grad()
def outputs(rate: float, seed: int) -> tuple[Tensor, Tensor]:
    """The outputs of a linear layer with each mask (MASKS, CLASSES), and without dropout (CLASSES,)."""
    seeded(seed, "weights", "linear")
    dropout, linear = nn.Dropout(rate), nn.Linear(WIDTH, CLASSES).double()
    x = torch.randn(WIDTH, generator=generator_of(seed, "input"), dtype=torch.float64) * 4
    seeded(seed, "masks")
    return linear(dropout.train()(x.expand(MASKS, -1))), linear(dropout.eval()(x))


def difference(sampled: Tensor, plain: Tensor) -> tuple[float, float]:
    """The mean over masks minus the output of eval(): relative to its size, and in units of the sampling error."""
    distance = (sampled.mean(dim=0) - plain).norm()
    error = sampled.var(dim=0).sum().sqrt() / MASKS**0.5
    return float(distance / plain.norm()), float(distance / error) if error > 0 else 0.0


class Dropout(Experiment):
    """The mean over masks against eval(), and the test loss, over the dropout rate."""

    name = "dropout"
    topic = "training"
    title = Text("Dropout at test time", "测试时的 dropout")
    questions = (
        Question(
            "001:194, 000:248",
            Text("Where is dropout, and what must be minded at test time?", "Dropout 如何设定，测试时要注意什么？"),
            Text("–", "–"),
        ),
    )
    hypothesis = Text(
        "eval() gives the mean over all dropout masks: after a linear layer and after a softmax.",
        "eval() 的输出等于对所有 dropout 掩码取平均：在线性层之后和 softmax 之后都是如此。",
    )
    varied = Text("the dropout rate", "dropout 的比率")
    measured = Text(
        "difference of the mean over 1,000 masks and eval(); training and test loss with few examples",
        "1000 个掩码的平均与 eval() 之差；样本很少时的训练损失与测试损失",
    )
    refuted_if = Text(
        "after the softmax the difference is much larger than the error of sampling",
        "在 softmax 之后，差异远大于采样误差",
    )
    panels = (
        Panel(
            "mean",
            Text("mean over masks against eval()", "掩码平均与 eval() 的差"),
            Text("dropout rate", "dropout 比率"),
            Text("relative difference", "相对差异"),
            names={
                LINEAR: Text("after a linear layer", "线性层之后"),
                SOFTMAX: Text("after a softmax", "softmax 之后"),
            },
        ),
        Panel(
            "errors",
            Text("the same in sampling errors", "以采样误差为单位"),
            Text("dropout rate", "dropout 比率"),
            Text("difference / sampling error", "差异 / 采样误差"),
            names={
                LINEAR: Text("after a linear layer", "线性层之后"),
                SOFTMAX: Text("after a softmax", "softmax 之后"),
            },
        ),
        Panel(
            "loss",
            Text("a network trained on 64 examples", "用 64 个样本训练的网络"),
            Text("dropout rate", "dropout 比率"),
            Text("nll", "负对数似然"),
            names={"train": Text("training examples", "训练样本"), "test": Text("new examples", "新样本")},
        ),
    )
    papers = ("Srivastava et al. 2014, section 10", "Vaswani et al. 2017, section 5.4")
    seconds = 15

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        train, test = examples(seed, "train", EXAMPLES), examples(seed, "test", 2000)
        for rate in effort.pick(RATES, (0.0, 0.5)):
            sampled, plain = outputs(rate, seed)
            for series, of_masks, of_eval in (
                (LINEAR, sampled, plain),
                (SOFTMAX, sampled.softmax(dim=-1), plain.softmax(dim=-1)),
            ):
                relative, errors = difference(of_masks, of_eval)
                record("mean", series, rate, relative)
                record("errors", series, rate, errors)
            model = build(rate, seed)
            fit_toy(model, partial(some, of=train), loss, steps=effort.pick(400, 200), rate=3e-3, seed=seed)
            record("loss", "train", rate, nll_of(model, train))
            record("loss", "test", rate, nll_of(model, test))

    def judge(self, results: Results) -> Verdict:
        at = 0.5
        linear, softmax = (results.values("errors", series, at) for series in (LINEAR, SOFTMAX))
        return Verdict(
            decide(above([LARGE], linear + softmax), above(softmax, [LARGE]) and above([LARGE], linear)),
            Text(
                "At a rate of {rate:.1f}, the mean over masks differs from eval() by {linear:.1%} after a linear layer "
                "({linear_errors:.1f} sampling errors) and by {softmax:.0%} after a softmax ({softmax_errors:.0f} "
                "sampling errors). Trained on few examples, "
                "the "
                "network has a loss of {with_dropout:.2f} on new ones with dropout and {without:.2f} without.",
                "比率为 {rate:.1f} 时，掩码平均与 eval() 的差在线性层之后为 {linear:.1%}（{linear_errors:.1f} 倍采样"
                "误差），"
                "在 softmax 之后为 {softmax:.0%}（{softmax_errors:.0f} 倍采样误差）。样本很少时，网络在新样本上的损"
                "失在有 dropout 时为 "
                "{with_dropout:.2f}，"
                "没有时为 {without:.2f}。",
            ),
            {
                "rate": at,
                "linear": results.mean("mean", LINEAR, at),
                "linear_errors": results.mean("errors", LINEAR, at),
                "softmax_errors": results.mean("errors", SOFTMAX, at),
                "softmax": results.mean("mean", SOFTMAX, at),
                "with_dropout": results.mean("loss", "test", at),
                "without": results.mean("loss", "test", 0.0),
            },
        )
