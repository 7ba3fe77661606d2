"""Feature scaling: gradient descent needs as many steps as the condition number of the features.

    L(w) = 1/n ||X w - y||^2,    its curvature is H = 2/n X^T X,    condition number k = lambda_max / lambda_min

A step must not be larger than 2 / lambda_max, the limit of the steepest direction; with the rate 1 / lambda_max the
error in the flattest direction shrinks by 1 - 1/k only, so about k steps are needed. If one feature is in metres and
another in millimetres, k is about 1000^2. Subtracting the mean of each feature and dividing by its standard deviation
makes k small, and the solution is the same.
"""

import torch
from torch import Tensor

from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import generator_of

EXAMPLES, FEATURES, GOAL, LIMIT = 200, 4, 0.01, 200_000
RAW, SCALED = "raw", "scaled"


def standardise(x: Tensor) -> Tensor:
    """Each feature with mean 0 and standard deviation 1."""
    return (x - x.mean(dim=0)) / x.std(dim=0)


def descend(x: Tensor, y: Tensor) -> tuple[float, int]:
    """The condition number, and the steps of gradient descent until 1 % of the error that can be removed is left."""
    curvature = 2 * x.T @ x / len(x)
    values = torch.linalg.eigvalsh(curvature)
    best = torch.linalg.solve(curvature, 2 * x.T @ y / len(x))
    gap = -best  # w - w*, from w = 0
    start = gap @ curvature @ gap
    update = torch.eye(len(best), dtype=x.dtype) - curvature / values[-1]  # of w - w* in one step
    for step in range(LIMIT):
        if gap @ curvature @ gap <= GOAL * start:
            return float(values[-1] / values[0]), step
        gap = update @ gap
    return float(values[-1] / values[0]), LIMIT


def measure(seed: int, effort: Effort, record: Record) -> None:
    random = generator_of(seed, "data")
    x = torch.randn(EXAMPLES, FEATURES, generator=random, dtype=torch.float64)
    # Every feature has an effect of the same size on y, in whatever unit it is measured.
    y = standardise(x).sum(dim=1) + 0.1 * torch.randn(EXAMPLES, generator=random, dtype=torch.float64)
    for ratio in (1, 3, 10, 30, 100):
        units = torch.logspace(0, 1, FEATURES, base=ratio, dtype=torch.float64)
        for name, features in ((RAW, x * units), (SCALED, standardise(x * units))):
            condition, steps = descend(features, y - y.mean())
            record("steps", name, ratio, steps)
            record("condition", name, ratio, condition)


def judge(results: Results) -> Verdict:
    raw, scaled = (results.values("steps", name, 100) for name in (RAW, SCALED))
    return Verdict(decide(above(raw, [2 * steps for steps in scaled]), not above(raw, scaled)), {"ratio": 100})
