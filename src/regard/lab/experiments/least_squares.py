"""Linear regression: the gradient of the squared error, its sign, and the closed form.

    L(w) = ||y - X w||^2,    dL/dw = 2 (X w - y)^T X = -2 (y - X w)^T X

With b = y - X w the chain rule gives 2 b^T (-I) X = -2 (y - X w)^T X. Writing (X w - y) for b there changes the sign of
the result: -2 (X w - y)^T X points downhill. Setting the gradient to zero hides the slip, since both have the same root

    w* = (X^T X)^-1 X^T y

but a step against the wrong gradient climbs. The bias is a weight of a column of ones in X.
"""

import torch
from torch import Tensor

from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import generator_of

EXAMPLES, FEATURES = 100, 5
WRONG, RIGHT, CLOSED = "-2 (Xw - y)' X", "2 (Xw - y)' X", "w*"
STEPS = (0, 1, 2, 5, 10, 20, 50)


def gradient(x: Tensor, y: Tensor, w: Tensor, formula: str) -> Tensor:
    """The gradient of ||y - x w||^2 by w, with the sign of the formula."""
    sign = -1 if formula == WRONG else 1
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


def measure(seed: int, effort: Effort, record: Record) -> None:
    random = generator_of(seed, "data")
    x, start, truth = (
        torch.randn(shape, generator=random, dtype=torch.float64)
        for shape in ((EXAMPLES, FEATURES), (FEATURES + 1,), (FEATURES + 1,))
    )
    x = torch.cat([x, x.new_ones(EXAMPLES, 1)], dim=1)  # a column of ones for the bias
    y = x @ truth + 0.5 * torch.randn(EXAMPLES, generator=random, dtype=torch.float64)
    reference = numerical_gradient(x, y, start)
    root = closed_form(x, y)
    for formula in (WRONG, RIGHT):
        direction = gradient(x, y, start, formula)
        record("cosine", "cosine", formula, float(torch.cosine_similarity(direction, reference, dim=0)))
        w = start
        for step in range(max(STEPS) + 1):
            if step in STEPS:
                record("error", formula, step, float(squared_error(x, y, w)))
            w = w - 2e-3 * gradient(x, y, w, formula)
    for step in STEPS:
        record("error", CLOSED, step, float(squared_error(x, y, root)))
    for name, w in (("start", start), (CLOSED, root)):
        record("root", "gradient", name, float(gradient(x, y, w, RIGHT).abs().max()))


def judge(results: Results) -> Verdict:
    wrong, right = (results.values("cosine", "cosine", formula) for formula in (WRONG, RIGHT))
    zero = max(results.values("root", "gradient", CLOSED))
    return Verdict(
        decide(above(wrong, [0.999]) and zero < 1e-6, above(right, [0.999]) or zero > 1e-3),
        {
            "wrong": results.mean("cosine", "cosine", WRONG), "right": results.mean("cosine", "cosine", RIGHT),
            "zero": zero, "steps": STEPS[-1],
        },
    )  # fmt: skip
