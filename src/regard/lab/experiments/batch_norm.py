"""Batch norm: the mean of a batch stands for the mean of all data, and a small batch stands badly.

Batch norm subtracts the mean of the batch from a feature and divides by its standard deviation. The mean of B examples
deviates from that of all data by sigma / sqrt(B): with two examples a normalised feature is +1 and -1 whatever the
values were, and nothing is left but which of the two is larger. In evaluation moving averages take the place of the
batch, so the network is not the one that was trained. Layer norm uses one example, and does not depend on B.

A network of three layers (an MLP) learns which of four spirals a point belongs to. It is trained for the same number of
steps with every batch size.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import ToyTensors, fit_toy, generator_of, seeded
from regard.layers.norms import NORMS
from regard.losses.crossentropy import Loss, cross_entropy

CLASSES, INPUTS, WIDTH = 4, 8, 32
NAMES = {
    "batch": Text("batch norm", "批归一化"),
    "layer": Text("layer norm", "层归一化"),
    "none": Text("no norm", "无归一化"),
    "error": Text("measured", "实测"),
    "theory": Text("one over the root of the size", "批大小平方根的倒数"),
}


def points(generator: torch.Generator, size: int) -> ToyTensors:
    """Points on four noisy spirals, with two useful inputs and others that are noise."""
    labels = torch.randint(CLASSES, (size,), generator=generator)
    radius = torch.rand(size, generator=generator) * 2 + 0.3
    noise = torch.randn(size, INPUTS, generator=generator)
    angle = 2 * torch.pi * labels / CLASSES + 1.5 * radius + 0.15 * noise[:, 0]
    spiral = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return {"x": torch.cat([2 * spiral, noise[:, 2:]], dim=1), "labels": labels}


class Network(nn.Module):
    """Three linear layers with a norm before each activation."""

    def __init__(self, norm: str) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(INPUTS, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norms = nn.ModuleList(NORMS[norm](WIDTH) for _ in range(2))
        self.output = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, INPUTS) -> logits (B, CLASSES)."""
        h = self.norms[0](self.first(x)).relu()
        return self.output(self.norms[1](self.second(h)).relu())


def loss(model: nn.Module, batch: ToyTensors) -> Loss:
    """Cross-entropy of the class."""
    return cross_entropy(model(batch["x"]), batch["labels"], ignore=-1)


def error_of_mean(size: int, seed: int) -> float:
    """Root mean square of the mean of a batch of N(0, 1) numbers."""
    return float(
        torch.randn(2000, size, generator=generator_of(seed, "numbers", size)).mean(dim=1).square().mean().sqrt()
    )


class BatchNorm(Experiment):
    """The error of the batch mean, and the loss of an MLP with each norm, over the batch size."""

    name = "batch-norm"
    topic = "layers"
    title = Text("Batch norm and the batch size", "批归一化与批大小")
    questions = (
        Question(
            "001:188, 000:136-138, 001:130-132",
            Text("What are the merits and flaws of batch norm?", "BatchNorm 有什么优缺点？"),
            Text(
                "Smoother loss, faster convergence; useless for small batches, whose mean stands for all examples.",
                "损失平面更平滑、收敛更快；小 batch 时不好用，因为要用 batch 的均值方差代表整个样本。",
            ),
        ),
        Question(
            "000:140, 001:128",
            Text("Is batch norm or layer norm better where both work?", "BN 和 LN 都可用时哪个更好？"),
            Text(
                "Batch norm, since it knows more examples; another note says it is bad in an MLP.",
                "BN 更好，因为它用到更多样本的分布信息；另一篇笔记说 BN 在 MLP 里很差。",
            ),
        ),
    )
    hypothesis = Text(
        "In an MLP batch norm is worse than layer norm with tiny batches, and better with large ones.",
        "在 MLP 中，批很小时批归一化不如层归一化，批大时更好。",
    )
    varied = Text("the batch size and the norm", "批大小与归一化的种类")
    measured = Text(
        "error of the batch mean; test loss after the same number of steps",
        "批均值的误差；相同步数后的测试损失",
    )
    refuted_if = Text(
        "batch norm is no worse with two examples, or layer norm is better with the largest batches",
        "每批两个样本时批归一化不差，或批最大时层归一化更好",
    )
    panels = (
        Panel(
            "mean",
            Text("error of the batch mean", "批均值的误差"),
            Text("examples in a batch", "每批样本数"),
            Text("error / standard deviation", "误差 / 标准差"),
            log="xy",
            names=NAMES,
        ),
        Panel(
            "loss",
            Text("test loss of an MLP", "MLP 的测试损失"),
            Text("examples in a batch", "每批样本数"),
            Text("nll", "负对数似然"),
            log="xy",
            names=NAMES,
        ),
    )
    papers = ("Ioffe & Szegedy 2015", "Ba et al. 2016", "Santurkar et al. 2018", "Wu & He 2018")
    seconds = 50

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        for size in (2, 4, 8, 16, 32, 64, 128):
            record("mean", "error", size, error_of_mean(size, seed))
            record("mean", "theory", size, size**-0.5)
        test = points(generator_of(seed, "test"), 2000)
        for norm in ("batch", "layer", "none"):
            for size in effort.pick((2, 4, 8, 32, 128), (2, 128)):
                seeded(seed, "weights")
                model = Network(norm)
                steps = effort.pick(400, 150)
                batch = partial(points, size=size)
                fit_toy(model, batch, loss, steps=steps, rate=1e-2, schedule="linear", seed=seed)
                with torch.no_grad():
                    found = loss(model, test)
                record("loss", norm, size, float(found.nll / found.count))

    def judge(self, results: Results) -> Verdict:
        sizes = results.xs("loss", "batch")
        small, large = sizes[0], sizes[-1]
        batch_small, batch_large = (results.values("loss", "batch", size) for size in (small, large))
        layer_small, layer_large = (results.values("loss", "layer", size) for size in (small, large))
        return Verdict(
            decide(
                above(batch_small, layer_small) and above(layer_large, batch_large),
                above(layer_small, batch_small) or above(batch_large, layer_large),
            ),
            Text(
                "With {small:.0f} examples in a batch the MLP reaches a test loss of {batch_small:.2f} with batch "
                "norm and "
                "{layer_small:.2f} with layer norm; with {large:.0f}, {batch_large:.3f} and {layer_large:.3f} (no "
                "norm: "
                "{none_large:.3f}).",
                "每批 {small:.0f} 个样本时，MLP 的测试损失用批归一化为 {batch_small:.2f}，用层归一化为 "
                "{layer_small:.2f}；"
                "每批 {large:.0f} 个时为 {batch_large:.3f} 和 {layer_large:.3f}（无归一化为 {none_large:.3f}）。",
            ),
            {
                "small": float(small),
                "large": float(large),
                "batch_small": results.mean("loss", "batch", small),
                "layer_small": results.mean("loss", "layer", small),
                "batch_large": results.mean("loss", "batch", large),
                "layer_large": results.mean("loss", "layer", large),
                "none_large": results.mean("loss", "none", large),
            },
        )
