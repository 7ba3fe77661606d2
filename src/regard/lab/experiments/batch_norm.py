"""Batch norm: the mean of a batch stands for the mean of all data, and a small batch stands badly.

Batch norm subtracts the mean of the batch from a feature and divides by its standard deviation. The mean of B examples
deviates from that of all data by sigma / sqrt(B): with two examples a normalised feature is +1 and -1 whatever the
values were, and nothing is left but which of the two is larger. In evaluation moving averages take the place of the
batch, so the network is not the one that was trained. Layer norm uses one example, and does not depend on B.

A network of three layers (an MLP) learns which of four spirals a point belongs to. It is trained for the same number of
steps with every batch size.

Smoother loss and faster convergence are said of deep networks (Santurkar et al. 2018). A network of ten layers is
trained with batch norm and without, each at the best of three learning rates, which a seed of its own chooses. A step
of length `STEP` times the weights' length along the gradient shows how smooth the loss is: how far does the gradient
change, |g' - g| / |g|? The last panel compares the place: before or after the activation.
"""

from collections.abc import Iterator
from copy import deepcopy
from functools import cache, partial
from statistics import fmean

import torch
from torch import Tensor, nn

from regard.lab.budgets import best_rate, watched
from regard.lab.experiment import Effort, Record, Results, Verdict, decide, equivalent, paired
from regard.lab.toys import ToyTensors, fit_toy, generator_of, seeded
from regard.layers.norms import NORMS
from regard.losses.crossentropy import Loss, cross_entropy

CLASSES, INPUTS, WIDTH, DEEP, STEP = 4, 8, 32, 9, 0.005


def points(generator: torch.Generator, size: int) -> ToyTensors:
    """Points on four noisy spirals, with two useful inputs and others that are noise."""
    labels = torch.randint(CLASSES, (size,), generator=generator)
    radius = torch.rand(size, generator=generator) * 2 + 0.3
    noise = torch.randn(size, INPUTS, generator=generator)
    angle = 2 * torch.pi * labels / CLASSES + 1.5 * radius + 0.15 * noise[:, 0]
    spiral = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return {"x": torch.cat([2 * spiral, noise[:, 2:]], dim=1), "labels": labels}


class Network(nn.Module):
    """Linear layers with a norm before each activation, or after it."""

    def __init__(self, norm: str, layers: int = 2, after: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH if n else INPUTS, WIDTH) for n in range(layers))
        self.norms, self.after = nn.ModuleList(NORMS[norm](WIDTH) for _ in range(layers)), after
        self.output = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, INPUTS) -> logits (B, CLASSES)."""
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = norm(layer(x).relu()) if self.after else norm(layer(x)).relu()
        return self.output(x)


def loss(model: nn.Module, batch: ToyTensors) -> Loss:
    return cross_entropy(model(batch["x"]), batch["labels"], ignore=-1)


def error_of_mean(size: int, seed: int) -> float:
    """Root mean square of the mean of a batch of N(0, 1) numbers."""
    return float(
        torch.randn(2000, size, generator=generator_of(seed, "numbers", size)).mean(dim=1).square().mean().sqrt()
    )


def gradient_change(model: nn.Module, batch: ToyTensors) -> float:
    """|g' - g| / |g| for a step along the gradient, in training mode."""
    model = deepcopy(model).train()
    weights = list(model.parameters())

    def gradient() -> Tensor:
        with torch.enable_grad():
            return torch.cat([part.flatten() for part in torch.autograd.grad(loss(model, batch).sum, weights)])

    g = gradient()
    length = STEP * torch.cat([weight.detach().flatten() for weight in weights]).norm() / g.norm()
    with torch.no_grad():
        for weight, part in zip(weights, split_like(g, weights), strict=True):
            weight.sub_(length * part)
    return float((gradient() - g).norm() / g.norm())


def split_like(vector: Tensor, weights: list[nn.Parameter]) -> Iterator[Tensor]:
    parts = vector.split([weight.numel() for weight in weights])
    return (part.view_as(weight) for part, weight in zip(parts, weights, strict=True))


def train_deep(
    seed: int, rate: float, norm: str, steps: int, after: bool = False
) -> tuple[list[float], list[float], nn.Module]:
    """A deep network's training losses, its gradient changes, and itself."""
    seeded(seed, "weights")
    model, probe, changes = Network(norm, DEEP, after), points(generator_of(seed, "probe"), 256), []
    watch = watched(loss, range(10, steps, 20), lambda step, model: changes.append(gradient_change(model, probe)))
    losses = fit_toy(model, partial(points, size=128), watch, steps=steps, rate=rate, seed=seed)
    return losses, changes, model


@cache
def deep_rate(norm: str, steps: int) -> float:
    """The learning rate with the lowest mean loss over the training."""
    return best_rate(lambda seed, rate: fmean(train_deep(seed, rate, norm, steps)[0]), (1e-3, 3e-3, 1e-2))


@torch.no_grad()
def test(model: nn.Module, batch: ToyTensors) -> tuple[float, float]:
    """Loss and accuracy."""
    nll = loss(model, batch)
    right = (model(batch["x"]).argmax(dim=1) == batch["labels"]).double().mean()
    return float(nll.nll / nll.count), float(right)


def measure(seed: int, effort: Effort, record: Record) -> None:
    for size in (2, 4, 8, 16, 32, 64, 128):
        record("mean", "error", size, error_of_mean(size, seed))
        record("mean", "theory", size, size**-0.5)
    new = points(generator_of(seed, "test"), 2000)
    for norm in ("batch", "layer", "none"):
        for size in effort.pick((2, 8, 32, 128), (2, 128)):
            seeded(seed, "weights")
            model, batch = Network(norm), partial(points, size=size)
            fit_toy(model, batch, loss, steps=effort.pick(400, 150), rate=1e-2, schedule="linear", seed=seed)
            nll, accuracy = test(model, new)
            record("loss", norm, size, nll)
            record("accuracy", norm, size, accuracy)
    steps = effort.pick(200, 60)
    for name, norm, after in (("none", "none", False), ("before", "batch", False), ("after", "batch", True)):
        losses, changes, trained = train_deep(seed, deep_rate(norm, steps), norm, steps, after)
        record("deep", "training loss", name, fmean(losses))
        record("deep", "gradient change", name, fmean(changes))
        record("deep", "accuracy", name, test(trained, new)[1])


def judge(results: Results) -> Verdict:
    (small, large), (other, other_large) = (
        [results.values(panel, norm, size) for panel, size in (("loss", 2), ("accuracy", 128))]
        for norm in ("batch", "layer")
    )
    deep = {
        series: [results.values("deep", series, name) for name in ("none", "before", "after")]
        for series in results.series("deep")
    }
    none, before, _ = deep["training loss"]
    rough, smooth, _ = deep["gradient change"]
    _, first, second = deep["accuracy"]
    return Verdict(
        decide(paired(small, other), paired(other, small)),
        {"small": 2, "large": 128},
        {
            "large": decide(paired(large, other_large, by=0.02), equivalent(large, other_large)),
            "faster": decide(paired(none, before), paired(before, none)),
            "smooth": decide(paired(rough, smooth), paired(smooth, rough)),
            "place": decide(equivalent(first, second), paired(first, second, 0.02) or paired(second, first, 0.02)),
        },
    )
