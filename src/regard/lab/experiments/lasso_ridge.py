"""Lasso and ridge: a penalty against overfitting; L1 makes weights exactly zero, L2 only small.

    lasso   min_w  sum_i (w . x_i - y_i)^2 + lambda ||w||_1
    ridge   min_w  sum_i (w . x_i - y_i)^2 + lambda ||w||_2^2

The slope of w^2 vanishes at 0, so ridge shrinks a small weight less and less and never to 0: w = (X^T X + lambda I)^-1
X^T y. The slope of |w| is 1 however small w is, so lasso sets a weight to exactly 0 as soon as the data gain less than
lambda from it. Coordinate descent solves for one weight at a time, with r the residual without feature j:

    w_j = S(x_j . r, lambda / 2) / x_j . x_j,      S(a, t) = sign(a) max(|a| - t, 0)

The data are 30 examples of 20 features, of which four have an effect.
"""

import torch
from torch import Tensor

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import generator_of

EXAMPLES, FEATURES, USED, NOISE = 30, 20, 4, 2.0
LASSO, RIDGE = "lasso", "ridge"
STRENGTHS = (0.01, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
NAMES = {LASSO: Text("lasso (L1)", "Lasso（L1）"), RIDGE: Text("ridge (L2)", "岭回归（L2）")}


def ridge(x: Tensor, y: Tensor, strength: float) -> Tensor:
    """The weights that minimise the squared error plus `strength` times the sum of their squares."""
    return torch.linalg.solve(x.T @ x + strength * torch.eye(x.size(1), dtype=x.dtype), x.T @ y)


def lasso(x: Tensor, y: Tensor, strength: float, rounds: int = 300) -> Tensor:
    """The weights that minimise the squared error plus `strength` times the sum of their sizes."""
    weights = torch.zeros(x.size(1), dtype=x.dtype)
    squares, residual = x.square().sum(dim=0), y.clone()
    for _ in range(rounds):
        for j, column in enumerate(x.T):
            gain = column @ residual + squares[j] * weights[j]
            new = gain.sign() * (gain.abs() - strength / 2).clamp(min=0) / squares[j]
            residual += column * (weights[j] - new)
            weights[j] = new
    return weights


def sample(generator: torch.Generator, weights: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Random features, and the target with noise."""
    x = torch.randn(size, FEATURES, generator=generator, dtype=torch.float64)
    return x, x @ weights + NOISE * torch.randn(size, generator=generator, dtype=torch.float64)


class LassoRidge(Experiment):
    """Zero weights and test error over the strength of the penalty."""

    name = "lasso-ridge"
    topic = "foundations"
    title = Text("Lasso or ridge?", "Lasso 还是岭回归？")
    questions = (
        Question(
            "000:236-240",
            Text("What do L1 and L2 regularisation do?", "L1 与 L2 正则化有什么作用？"),
            Text(
                "They add the norm of the weights to the loss: lasso with L1, ridge with L2.",
                "在损失上加上权重的范数：L1 为 Lasso 回归，L2 为岭回归。",
            ),
        ),
        Question(
            "000:230-234",
            Text("Does regularisation prevent overfitting?", "正则化能防止过拟合吗？"),
            Text(
                "Extra information in the loss prevents overfitting and improves generalisation.",
                "在损失中引入额外信息，可以防止过拟合、提高泛化性能。",
            ),
        ),
    )
    hypothesis = Text(
        "Both penalties lower the test error; only L1 sets weights to exactly zero.",
        "两种惩罚都能降低测试误差；只有 L1 会把权重变为恰好零。",
    )
    varied = Text("the penalty and its strength lambda", "惩罚项及其强度 λ")
    measured = Text(
        "weights that are exactly zero; squared error on new data", "恰好为零的权重个数；新数据上的平方误差"
    )
    refuted_if = Text(
        "lasso has no zero weights, or ridge has some, or the penalty does not lower the error",
        "Lasso 没有零权重，或岭回归有，或惩罚项不能降低误差",
    )
    panels = (
        Panel(
            "zeros",
            Text("weights that are exactly zero, of twenty", "二十个权重中恰好为零的个数"),
            Text("lambda", "λ"),
            Text("weights", "权重个数"),
            log="x",
            names=NAMES,
        ),
        Panel(
            "error",
            Text("squared error on new data", "新数据上的平方误差"),
            Text("lambda", "λ"),
            Text("mean squared error", "均方误差"),
            log="x",
            names=NAMES,
        ),
        Panel(
            "found",
            Text("at the lambda with the lowest error", "误差最低的 λ 处"),
            Text("weights", "权重"),
            Text("weights that are exactly zero", "恰好为零的权重"),
            kind="bars",
            names={
                **NAMES,
                "used": Text("features with an effect", "有作用的特征"),
                "unused": Text("features without effect", "无作用的特征"),
            },
        ),
    )
    papers = ("Tibshirani 1996", "Hoerl and Kennard 1970")
    seconds = 4

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        random = generator_of(seed, "data")
        truth = torch.zeros(FEATURES, dtype=torch.float64)
        truth[:USED] = torch.tensor([3.0, -2.0, 2.0, -1.5], dtype=torch.float64)
        x, y = sample(random, truth, EXAMPLES)
        new_x, new_y = sample(random, truth, 5000)
        for name, solve in ((LASSO, lasso), (RIDGE, ridge)):
            errors: dict[float, tuple[float, Tensor]] = {}
            for strength in STRENGTHS:
                weights = solve(x, y, strength)
                errors[strength] = float((new_x @ weights - new_y).square().mean()), weights
                record("zeros", name, strength, int((weights == 0).sum()))
                record("error", name, strength, errors[strength][0])
            _, weights = min(errors.values(), key=lambda result: result[0])
            record("found", name, "used", int((weights[:USED] == 0).sum()))
            record("found", name, "unused", int((weights[USED:] == 0).sum()))

    def judge(self, results: Results) -> Verdict:
        unused = {name: results.values("found", name, "unused") for name in NAMES}
        least = {name: results.values("error", name, STRENGTHS[0]) for name in NAMES}
        ridge_zeros = max(max(results.values("zeros", RIDGE, strength)) for strength in STRENGTHS)
        best = {
            name: [min(values) for values in zip(*(results.values("error", name, x) for x in STRENGTHS), strict=True)]
            for name in NAMES
        }
        lower = all(a > b for name in NAMES for a, b in zip(least[name], best[name], strict=True))
        return Verdict(
            decide(lower and ridge_zeros == 0 and above(unused[LASSO], [0]), not lower or ridge_zeros > 0),
            Text(
                "At the lambda with the lowest error, lasso sets {unused:.1f} of the {all:.0f} useless weights to "
                "exactly zero, and "
                "{used:.1f} of the {true:.0f} useful ones; ridge {ridge:.0f}. With hardly any penalty the error on "
                "new data "
                "is {none:.1f}; at that lambda {lasso:.1f} with lasso and {ridge_error:.1f} with ridge.",
                "在误差最低的 λ 下，Lasso 把 {all:.0f} 个无用权重中的 {unused:.1f} 个变为恰好零，{true:.0f} 个有用权"
                "重中的 "
                "{used:.1f} 个；岭回归为 {ridge:.0f} 个。几乎没有惩罚时新数据误差为 {none:.1f}；误差最低的 λ 下 "
                "Lasso 为 "
                "{lasso:.1f}，岭回归为 {ridge_error:.1f}。",
            ),
            {
                "unused": results.mean("found", LASSO, "unused"),
                "used": results.mean("found", LASSO, "used"),
                "all": FEATURES - USED,
                "true": USED,
                "ridge": ridge_zeros,
                "none": results.mean("error", RIDGE, STRENGTHS[0]),
                "lasso": sum(best[LASSO]) / len(best[LASSO]),
                "ridge_error": sum(best[RIDGE]) / len(best[RIDGE]),
            },
        )
