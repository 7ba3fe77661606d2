"""Feature scaling: gradient descent needs as many steps as the condition number of the features.

    L(w) = 1/n ||X w - y||^2,    its curvature is H = 2/n X^T X,    condition number k = lambda_max / lambda_min

A step must not be larger than 2 / lambda_max, the limit of the steepest direction; with the rate 1 / lambda_max the
error in the flattest direction shrinks by 1 - 1/k only, so about k steps are needed. If one feature is in metres and
another in millimetres, k is about 1000^2. Subtracting the mean of each feature and dividing by its standard deviation
makes k small, and the solution is the same.
"""

import torch
from torch import Tensor

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import generator_of

EXAMPLES, FEATURES, GOAL, LIMIT = 200, 4, 0.01, 200_000
RAW, SCALED = "raw", "scaled"
NAMES = {RAW: Text("as they are", "未缩放"), SCALED: Text("mean zero, deviation one", "均值为零、标准差为一")}


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


class FeatureScaling(Experiment):
    """Steps of gradient descent over the ratio of the scales of the features."""

    name = "feature-scaling"
    topic = "foundations"
    title = Text("Feature scaling", "特征缩放")
    questions = (
        Question(
            "001:138-140",
            Text("Why are features scaled?", "为什么要做特征缩放？"),
            Text("So that the model converges faster.", "为了模型更快地收敛。"),
        ),
    )
    hypothesis = Text("With scaled features gradient descent needs fewer steps.", "特征缩放后梯度下降所需步数更少。")
    varied = Text("the ratio of the largest and the smallest scale of a feature", "特征最大尺度与最小尺度之比")
    measured = Text(
        "condition number, and steps until one percent of the removable error is left",
        "条件数，以及可消除误差只剩百分之一时的步数",
    )
    refuted_if = Text("scaled features need as many steps", "缩放后所需步数一样多")
    panels = (
        Panel(
            "steps",
            Text("steps of gradient descent", "梯度下降的步数"),
            Text("ratio of the scales", "尺度之比"),
            Text("steps", "步数"),
            log="xy",
            names=NAMES,
        ),
        Panel(
            "condition",
            Text("condition number", "条件数"),
            Text("ratio of the scales", "尺度之比"),
            Text("condition number", "条件数"),
            log="xy",
            names=NAMES,
        ),
    )
    papers = ("LeCun et al. 1998, Efficient BackProp",)
    seconds = 2

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
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

    def judge(self, results: Results) -> Verdict:
        largest = max(int(x) for x in results.xs("steps", RAW))
        raw, scaled = (results.values("steps", name, largest) for name in (RAW, SCALED))
        return Verdict(
            decide(above(raw, [2 * steps for steps in scaled]), not above(raw, scaled)),
            Text(
                "If the scales differ by a factor of {ratio:.0f}, gradient descent needs {raw:.0f} steps, and "
                "{scaled:.0f} with scaled features; the condition number falls from {before:.0f} to {after:.1f}.",
                "尺度相差 {ratio:.0f} 倍时，梯度下降需要 {raw:.0f} 步，缩放后只需 {scaled:.0f} 步；"
                "条件数由 {before:.0f} 降到 {after:.1f}。",
            ),
            {
                "ratio": largest,
                "raw": results.mean("steps", RAW, largest),
                "scaled": results.mean("steps", SCALED, largest),
                "before": results.mean("condition", RAW, largest),
                "after": results.mean("condition", SCALED, largest),
            },
        )
