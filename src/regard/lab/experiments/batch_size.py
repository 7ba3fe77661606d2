"""Batch size and learning rate: proportional for SGD, by the square root for Adam.

The gradient of a batch of B examples is the true gradient plus noise of variance s^2 / B. With a fixed number of
examples, a batch k times as large means k times fewer steps.

    SGD    w <- w - eta g               The same way in fewer steps needs eta k. The noise of a step grows by k^2 / k
                                        and there are k times fewer steps, so the noise in the end is the same, too.
    Adam   w <- w - eta m / sqrt(v)     Where noise dominates, sqrt(v) is about s / sqrt(B): a larger batch makes the
                                        steps larger by sqrt(k) of itself, so eta needs only the other sqrt(k).

The rule for SGD ends where a step becomes too large for the curvature, eta > 2 / lambda_max. The task is linear
regression with much noise. All rates are tried at once: a row of weights for each.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import generator_of

FEATURES, NOISE, EXAMPLES = 10, 3.0, 4096
BATCHES = (4, 16, 64, 256)
RATES = tuple(2.0 ** (power / 2) for power in range(-24, 0))
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
SGD, ADAM = "sgd", "adam"
SAME, ROOT, LINEAR = "same", "root", "linear"
NAMES = {SGD: Text("SGD", "SGD"), ADAM: Text("Adam", "Adam")}


class Sgd:
    """w <- w - eta g for several rates at once."""

    def __init__(self, rates: Tensor) -> None:
        self.rates = rates

    def step(self, gradient: Tensor) -> Tensor:
        """The change of the weights (..., rates, FEATURES)."""
        return -self.rates[:, None] * gradient


class Adam(Sgd):
    """Adam for several rates at once (Kingma and Ba 2015, algorithm 1)."""

    def __init__(self, rates: Tensor) -> None:
        super().__init__(rates)
        self.first, self.second, self.steps = torch.zeros(()), torch.zeros(()), 0

    def step(self, gradient: Tensor) -> Tensor:
        self.steps += 1
        self.first = BETA1 * self.first + (1 - BETA1) * gradient
        self.second = BETA2 * self.second + (1 - BETA2) * gradient**2
        mean = self.first / (1 - BETA1**self.steps)
        deviation = (self.second / (1 - BETA2**self.steps)).sqrt()
        return -self.rates[:, None] * mean / (deviation + EPSILON)


def final_errors(optimizer: Sgd, batch: int, repeats: int, random: torch.Generator) -> Tensor:
    """The squared distance to the true weights after EXAMPLES examples, mean over `repeats` data sets: (rates,)."""
    truth = torch.randn(repeats, FEATURES, 1, generator=random)
    truth = truth / truth.norm(dim=1, keepdim=True)
    weights = torch.zeros(repeats, len(optimizer.rates), FEATURES)
    for _ in range(EXAMPLES // batch):
        x = torch.randn(repeats, batch, FEATURES, generator=random)
        y = x @ truth + NOISE * torch.randn(repeats, batch, 1, generator=random)  # (repeats, batch, 1)
        residual = weights @ x.mT - y.mT  # (repeats, rates, batch)
        weights = weights + optimizer.step(2 * residual @ x / batch)
    errors = (weights - truth.mT).square().sum(dim=-1).mean(dim=0)
    return errors.nan_to_num(math.inf, math.inf)


def best_rate(rates: Sequence[float], errors: Sequence[float]) -> float:
    """The minimum of a parabola through the lowest error and its neighbours, on logarithmic axes."""
    lowest = int(np.argmin(errors))
    near = slice(max(lowest - 2, 0), lowest + 3)
    x, y = np.log(rates[near]), np.log(errors[near])
    if not np.isfinite(y).all() or len(x) < 5:
        return rates[lowest]
    curvature, slope, _ = np.polyfit(x, y, 2)
    return float(np.exp(np.clip(-slope / (2 * curvature), x[0], x[-1]))) if curvature > 0 else rates[lowest]


class BatchSize(Experiment):
    """The best rate over the batch size, and three rules for a larger batch."""

    name = "batch-size"
    topic = "training"
    title = Text("Batch size and learning rate", "批量大小与学习率")
    questions = (
        Question(
            "004:145, 004:153",
            Text("How should the learning rate change with the batch size?", "批量变大时学习率该怎么变？"),
            Text(
                "If the batch is several times larger, the rate should be as many times larger.",
                "一般来说 batch size 扩大几倍，lr 就该扩大几倍。",
            ),
        ),
    )
    hypothesis = Text(
        "The best learning rate is proportional to the batch size, with SGD and with Adam.",
        "最佳学习率与批量大小成正比，SGD 与 Adam 都是如此。",
    )
    varied = Text(
        "batch size, learning rate and optimizer; the number of examples is fixed",
        "批量大小、学习率与优化器；样本总数固定",
    )
    measured = Text(
        "the rate with the lowest error, and the exponent p in rate ~ batch^p",
        "误差最低的学习率，以及关系式 学习率 ~ 批量^p 中的指数 p",
    )
    refuted_if = Text("an exponent is far from one", "某个指数远离一")
    panels = (
        Panel(
            "best",
            Text("best learning rate", "最佳学习率"),
            Text("batch size", "批量大小"),
            Text("learning rate", "学习率"),
            log="xy",
            names=NAMES,
        ),
        Panel(
            "rules",
            Text("error of the largest batch, rate from the smallest", "最大批量的误差，学习率由最小批量推算"),
            Text("rule", "规则"),
            Text("squared error", "平方误差"),
            kind="bars",
            log="y",
            names={
                **NAMES,
                SAME: Text("same rate", "学习率不变"),
                ROOT: Text("rate x √k", "学习率 × √k"),
                LINEAR: Text("rate x k", "学习率 × k"),
            },
        ),
        Panel(
            "exponent",
            Text("exponent of the best rate", "最佳学习率的指数"),
            Text("optimizer", "优化器"),
            Text("exponent", "指数"),
            kind="bars",
            names=NAMES,
        ),
    )
    papers = ("Goyal et al. 2017", "Malladi et al. 2022")
    seconds = 2

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        repeats = effort.pick(32, 8)
        for name, build in ((SGD, Sgd), (ADAM, Adam)):
            best = []
            for batch in BATCHES:
                errors = final_errors(build(torch.tensor(RATES)), batch, repeats, generator_of(seed, "data", batch))
                best.append(best_rate(RATES, errors.tolist()))
                record("best", name, batch, best[-1])
            times = BATCHES[-1] / BATCHES[0]
            rates = torch.tensor([best[0], best[0] * times**0.5, best[0] * times])
            errors = final_errors(build(rates), BATCHES[-1], repeats, generator_of(seed, "rules"))
            for rule, error in zip((SAME, ROOT, LINEAR), errors.tolist(), strict=True):
                record("rules", name, rule, min(error, 1e6))
            record("exponent", "exponent", name, float(np.polyfit(np.log(BATCHES), np.log(best), 1)[0]))

    def judge(self, results: Results) -> Verdict:
        sgd, adam = (results.values("exponent", "exponent", name) for name in (SGD, ADAM))
        proportional = [min(values) > 0.8 and max(values) < 1.2 for values in (sgd, adam)]
        return Verdict(
            decide(all(proportional), above([0.8], sgd) or above([0.8], adam)),
            Text(
                "The best rate grows with the batch size to the power {sgd:.2f} for SGD and {adam:.2f} for Adam. "
                "With a "
                "batch {times:.0f} times as large, multiplying the rate by as much gives an error of {sgd_linear:.3f} "
                "with SGD and {adam_linear:.3f} with Adam; multiplying it by the square root {sgd_root:.3f} and "
                "{adam_root:.3f}.",
                "最佳学习率随批量的 {sgd:.2f} 次方（SGD）和 {adam:.2f} 次方（Adam）增长。批量扩大 {times:.0f} 倍时，"
                "学习率"
                "同倍扩大的误差为 {sgd_linear:.3f}（SGD）和 {adam_linear:.3f}（Adam）；只扩大平方根倍的误差为 "
                "{sgd_root:.3f} 和 {adam_root:.3f}。",
            ),
            {
                "sgd": results.mean("exponent", "exponent", SGD),
                "adam": results.mean("exponent", "exponent", ADAM),
                "times": BATCHES[-1] / BATCHES[0],
                "sgd_linear": results.mean("rules", SGD, LINEAR),
                "adam_linear": results.mean("rules", ADAM, LINEAR),
                "sgd_root": results.mean("rules", SGD, ROOT),
                "adam_root": results.mean("rules", ADAM, ROOT),
            },
        )
