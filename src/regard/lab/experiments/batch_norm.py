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

from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import ToyTensors, fit_toy, generator_of, seeded
from regard.layers.norms import NORMS
from regard.losses.crossentropy import Loss, cross_entropy

CLASSES, INPUTS, WIDTH = 4, 8, 32


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
    return cross_entropy(model(batch["x"]), batch["labels"], ignore=-1)


def error_of_mean(size: int, seed: int) -> float:
    """Root mean square of the mean of a batch of N(0, 1) numbers."""
    return float(
        torch.randn(2000, size, generator=generator_of(seed, "numbers", size)).mean(dim=1).square().mean().sqrt()
    )


def measure(seed: int, effort: Effort, record: Record) -> None:
    for size in (2, 4, 8, 16, 32, 64, 128):
        record("mean", "error", size, error_of_mean(size, seed))
        record("mean", "theory", size, size**-0.5)
    test = points(generator_of(seed, "test"), 2000)
    for norm in ("batch", "layer", "none"):
        for size in effort.pick((2, 4, 8, 32, 128), (2, 128)):
            seeded(seed, "weights")
            model = Network(norm)
            batch, steps = partial(points, size=size), effort.pick(400, 150)
            fit_toy(model, batch, loss, steps=steps, rate=1e-2, schedule="linear", seed=seed)
            with torch.no_grad():
                nll = loss(model, test)
            record("loss", norm, size, float(nll.nll / nll.count))


def judge(results: Results) -> Verdict:
    batch, layer = ([results.values("loss", norm, size) for size in (2, 128)] for norm in ("batch", "layer"))
    return Verdict(
        decide(
            above(batch[0], layer[0]) and above(layer[1], batch[1]),
            above(layer[0], batch[0]) or above(batch[1], layer[1]),
        ),
        {"small": 2, "large": 128},
    )
