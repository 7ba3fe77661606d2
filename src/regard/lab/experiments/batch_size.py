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

from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import generator_of

FEATURES, NOISE, EXAMPLES = 10, 3.0, 4096
BATCHES = (4, 16, 64, 256)
RATES = tuple(2.0 ** (power / 2) for power in range(-24, 0))
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


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


def measure(seed: int, effort: Effort, record: Record) -> None:
    repeats = effort.pick(32, 8)
    for name, build in (("sgd", Sgd), ("adam", Adam)):
        best = []
        for batch in BATCHES:
            errors = final_errors(build(torch.tensor(RATES)), batch, repeats, generator_of(seed, "data", batch))
            best.append(best_rate(RATES, errors.tolist()))
            record("best", name, batch, best[-1])
        times = BATCHES[-1] / BATCHES[0]
        rates = torch.tensor([best[0], best[0] * times**0.5, best[0] * times])
        errors = final_errors(build(rates), BATCHES[-1], repeats, generator_of(seed, "rules"))
        for rule, error in zip(("same", "root", "linear"), errors.tolist(), strict=True):
            record("rules", name, rule, min(error, 1e6))
        record("exponent", "exponent", name, float(np.polyfit(np.log(BATCHES), np.log(best), 1)[0]))


def judge(results: Results) -> Verdict:
    sgd, adam = (results.values("exponent", "exponent", name) for name in ("sgd", "adam"))
    proportional = [min(values) > 0.8 and max(values) < 1.2 for values in (sgd, adam)]
    decided = decide(all(proportional), above([0.8], sgd) or above([0.8], adam))
    return Verdict(decided, {"times": BATCHES[-1] / BATCHES[0]})
