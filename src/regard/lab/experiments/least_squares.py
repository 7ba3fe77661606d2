"""Linear regression: the gradient of the squared error, its sign, and the closed form.

    L(w) = ||y - X w||^2,    dL/dw = 2 (X w - y)^T X = -2 (y - X w)^T X

With b = y - X w the chain rule gives 2 b^T (-I) X = -2 (y - X w)^T X. Writing (X w - y) for b there changes the sign of
the result: -2 (X w - y)^T X points downhill. Setting the gradient to zero hides the slip, since both have the same root

    w* = (X^T X)^-1 X^T y

but a step against the wrong gradient climbs. The bias is a weight of a column of ones in X.
"""

import torch
from torch import Tensor

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import generator_of

EXAMPLES, FEATURES = 100, 5
NOTE, RIGHT, CLOSED, START = "-2 (Xw - y)' X", "2 (Xw - y)' X", "w*", "start"
STEPS = (0, 1, 2, 5, 10, 20, 50)
RATE = 2e-3

NAMES = {
    NOTE: Text("-2 (Xw - y)ᵀ X, as in the notes", "-2 (Xw - y)ᵀ X，笔记的公式"),
    RIGHT: Text("2 (Xw - y)ᵀ X", "2 (Xw - y)ᵀ X"),
    CLOSED: Text("closed form w*", "解析解 w*"),
}


def gradient(x: Tensor, y: Tensor, w: Tensor, formula: str) -> Tensor:
    """The gradient of ||y - x w||^2 by w, with the sign of the formula."""
    sign = -1 if formula == NOTE else 1
    return sign * 2 * (x @ w - y) @ x


def numerical_gradient(x: Tensor, y: Tensor, w: Tensor, step: float = 1e-5) -> Tensor:
    """Central differences of ||y - x w||^2."""
    moves = step * torch.eye(len(w), dtype=w.dtype)
    return torch.stack([(squared_error(x, y, w + m) - squared_error(x, y, w - m)) / (2 * step) for m in moves])


def squared_error(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """||y - x w||^2."""
    return (y - x @ w).square().sum()


def closed_form(x: Tensor, y: Tensor) -> Tensor:
    """w* = (X^T X)^-1 X^T y."""
    return torch.linalg.solve(x.T @ x, x.T @ y)


CLOSED_FORM, DESCENT = "004:86-134, 004:51-59", "004:135-141"
"""Places of two questions in the notes whose answers are judged on their own."""


class LeastSquares(Experiment):
    """Both signs against the numerical gradient; gradient descent and the closed form."""

    name = "least-squares"
    topic = "foundations"
    title = Text("The gradient and root of least squares", "最小二乘的梯度与解析解")
    questions = (
        Question(
            "004:121-126",
            Text("What is the gradient of ||y - Xw||²?", "||y - Xw||² 的梯度是什么？"),
            Text("-2 (Xw - y)ᵀ X", "-2 (Xw - y)ᵀ X"),
        ),
        Question(
            CLOSED_FORM,
            Text("What is the closed form of linear regression?", "线性回归的解析解是什么？"),
            Text("w* = (XᵀX)⁻¹ Xᵀ y", "w* = (XᵀX)⁻¹ Xᵀ y"),
        ),
        Question(
            DESCENT,
            Text("How does gradient descent find the weights?", "梯度下降如何找到参数？"),
            Text("Steps in the direction of the negative gradient.", "不断在负梯度的方向上更新参数。"),
        ),
    )
    hypothesis = Text(
        "The gradient is -2 (Xw - y)ᵀ X, and it is zero at w* = (XᵀX)⁻¹ Xᵀ y.",
        "梯度为 -2 (Xw - y)ᵀ X，且在 w* = (XᵀX)⁻¹ Xᵀ y 处为零。",
    )
    varied = Text("the sign of the formula; the number of steps", "公式的符号；步数")
    measured = Text(
        "cosine with the numerical gradient; squared error after steps of gradient descent",
        "与数值梯度的余弦；梯度下降若干步后的平方误差",
    )
    refuted_if = Text(
        "the numerical gradient has the opposite direction, or is not zero at w*",
        "数值梯度方向相反，或在 w* 处不为零",
    )
    panels = (
        Panel(
            "cosine",
            Text("direction, against the numerical gradient", "方向：与数值梯度比较"),
            Text("formula", "公式"),
            Text("cosine", "余弦"),
            kind="bars",
            names=NAMES,
        ),
        Panel(
            "error",
            Text("gradient descent with each formula", "用各公式做梯度下降"),
            Text("step", "步数"),
            Text("squared error", "平方误差"),
            log="y",
            names=NAMES,
        ),
        Panel(
            "root",
            Text("largest component of the gradient", "梯度的最大分量"),
            Text("weights", "参数"),
            Text("gradient", "梯度"),
            kind="bars",
            log="y",
            names={START: Text("at the start", "起点"), CLOSED: Text("at w*", "w* 处")},
        ),
    )
    seconds = 1

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        random = generator_of(seed, "data")
        x, start, truth = (
            torch.randn(shape, generator=random, dtype=torch.float64)
            for shape in ((EXAMPLES, FEATURES), (FEATURES + 1,), (FEATURES + 1,))
        )
        x = torch.cat([x, x.new_ones(EXAMPLES, 1)], dim=1)  # a column of ones for the bias
        y = x @ truth + 0.5 * torch.randn(EXAMPLES, generator=random, dtype=torch.float64)
        reference = numerical_gradient(x, y, start)
        root = closed_form(x, y)
        for formula in (NOTE, RIGHT):
            direction = gradient(x, y, start, formula)
            record("cosine", "cosine", formula, float(torch.cosine_similarity(direction, reference, dim=0)))
            w = start
            for step in range(max(STEPS) + 1):
                if step in STEPS:
                    record("error", formula, step, float(squared_error(x, y, w)))
                w = w - RATE * gradient(x, y, w, formula)
        for step in STEPS:
            record("error", CLOSED, step, float(squared_error(x, y, root)))
        for place, w in ((START, start), (CLOSED, root)):
            record("root", "gradient", place, float(gradient(x, y, w, RIGHT).abs().max()))

    def judge(self, results: Results) -> Verdict:
        note, right = (results.values("cosine", "cosine", formula) for formula in (NOTE, RIGHT))
        zero = max(results.values("root", "gradient", CLOSED))
        closed = decide(zero < 1e-6, zero > 1e-3)
        descent = results.values("error", RIGHT, max(STEPS)), results.values("error", NOTE, max(STEPS))
        return Verdict(
            decide(above(note, [0.999]) and zero < 1e-6, above(right, [0.999]) or zero > 1e-3),
            Text(
                "The cosine with the numerical gradient is {note:.3f} for the formula of the notes and {right:.3f} "
                "with the opposite sign. The closed form holds for both: at w* the gradient is {zero:.0e}. After "
                "{steps:.0f} steps the squared error is {error:.1f} with the right sign (at w* {least:.1f}), with the "
                "other {wrong:.0e}.",
                "笔记的公式与数值梯度的余弦为 {note:.3f}，符号相反的公式为 {right:.3f}。解析解对两者都成立：w* 处梯"
                "度为 "
                "{zero:.0e}。{steps:.0f} 步之后，符号正确时平方误差为 {error:.1f}（w* 处 {least:.1f}），"
                "符号错误时为 {wrong:.0e}。",
            ),
            {
                "note": results.mean("cosine", "cosine", NOTE),
                "right": results.mean("cosine", "cosine", RIGHT),
                "zero": zero,
                "steps": max(STEPS),
                "error": results.mean("error", RIGHT, max(STEPS)),
                "least": results.mean("error", CLOSED, max(STEPS)),
                "wrong": results.mean("error", NOTE, max(STEPS)),
            },
            {CLOSED_FORM: closed, DESCENT: decide(above(descent[1], descent[0]), above(descent[0], descent[1]))},
        )
