"""Forward and reverse mode of automatic differentiation: what each costs, and what each must keep.

A network is a chain y = f_L(... f_1(x)), x with n and y with m numbers. Its Jacobian J = J_L ... J_1 is (m, n).

    forward mode   carries v_k = J_k v_{k-1} along with the value. One pass gives J v: one column of J for v = e_j.
                   All of J needs n passes. Only the current value and its tangent are kept.
    reverse mode   computes all values first, then carries g_{k-1} = g_k J_k back. One pass gives g J: one row of J.
                   All of J needs m passes back. J_k depends on the value at layer k, so every value is kept.

A loss is one number, m = 1, of very many weights: reverse mode gives the whole gradient for about the price of a second
evaluation, and pays with memory. `detach` takes a value out of the graph: the derivative stops there. With u = x x,
the derivative of u x is 3 x^2, that of detach(u) x is u = x^2.
"""

import torch
from torch import Tensor

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, decide
from regard.lab.toys import generator_of

FORWARD, REVERSE = "forward", "reverse"
WIDTH, DEPTH = 16, 4
SIZES = (1, 4, 16, 64, 256)
DEPTHS = (2, 4, 8, 16, 32)
ATTACHED, DETACHED = "u x", "detach(u) x"
MODES = {FORWARD: Text("forward mode", "前向模式"), REVERSE: Text("reverse mode", "反向模式")}


class Cost:
    """Multiplications by weights, and the most numbers that are kept at one time."""

    def __init__(self) -> None:
        self.multiplications, self.kept = 0, 0


def build_weights(inputs: int, outputs: int, depth: int, random: torch.Generator) -> list[Tensor]:
    """The matrices of a network with tanh after each of them."""
    sizes = [inputs, *[WIDTH] * (depth - 1), outputs]
    shapes = zip(sizes[1:], sizes[:-1], strict=True)
    return [torch.randn(shape, generator=random, dtype=torch.float64) / shape[1] ** 0.5 for shape in shapes]


def forward_mode(weights: list[Tensor], x: Tensor, cost: Cost) -> Tensor:
    """The Jacobian (m, n), a column in each pass."""
    columns = []
    for tangent in torch.eye(len(x), dtype=x.dtype):
        value = x
        for matrix in weights:
            value = torch.tanh(matrix @ value)
            tangent = (1 - value**2) * (matrix @ tangent)
            cost.multiplications += 2 * matrix.numel()
            cost.kept = max(cost.kept, value.numel() + tangent.numel())
        columns.append(tangent)
    return torch.stack(columns, dim=1)


def reverse_mode(weights: list[Tensor], x: Tensor, cost: Cost) -> Tensor:
    """The Jacobian (m, n), a row in each pass back."""
    values = [x]
    for matrix in weights:
        values.append(torch.tanh(matrix @ values[-1]))
        cost.multiplications += matrix.numel()
    rows = []
    for gradient in torch.eye(len(values[-1]), dtype=x.dtype):
        for matrix, value in zip(reversed(weights), reversed(values), strict=False):
            gradient = (gradient * (1 - value**2)) @ matrix
            cost.multiplications += matrix.numel()
            cost.kept = max(cost.kept, sum(len(value) for value in values) + len(gradient))
        rows.append(gradient)
    return torch.stack(rows)


def derivative(x: Tensor, detach: bool) -> Tensor:
    """The derivative of the sum of u x, u = x x, with u in the graph or not."""
    x = x.clone().requires_grad_()
    u = x * x
    ((u.detach() if detach else u) * x).sum().backward()
    assert x.grad is not None
    return x.grad


DETACH = "004:63-80"
"""The place of the question about detach, which is judged on its own."""


class Autodiff(Experiment):
    """Multiplications for a Jacobian over inputs and outputs; numbers kept over depth; detach."""

    name = "autodiff"
    topic = "foundations"
    title = Text("Forward or reverse mode?", "前向模式还是反向模式？")
    questions = (
        Question(
            "004:61",
            Text("What do forward and reverse mode cost?", "前向累积与反向传播的代价各是多少？"),
            Text(
                "Both keep the value of every node; reverse mode computes the whole graph in O(n), forward mode takes "
                "O(n) for every node.",
                "二者都要保存每个节点的值，内存 O(n)；反向计算整张图为 O(n)，正向累积计算每个节点都是 O(n)。",
            ),
        ),
        Question(
            DETACH,
            Text("What does detach() do?", "detach() 有什么作用？"),
            Text(
                "It takes a value out of the graph: the derivative is x squared and not three x squared.",
                "把某个值从计算图中分离出来：导数由 3x² 变为 x²。",
            ),
        ),
    )
    hypothesis = Text(
        "Both modes keep the value of every node; reverse mode needs one pass for a gradient, forward mode one for "
        "every "
        "input.",
        "两种模式都要保存每个节点的值；求梯度时反向模式只需一遍，前向模式每个输入都要一遍。",
    )
    varied = Text("the number of inputs, of outputs and of layers", "输入个数、输出个数与层数")
    measured = Text(
        "multiplications for all derivatives, and the most numbers kept at one time",
        "求全部导数的乘法次数，以及同时保存的数的最大个数",
    )
    refuted_if = Text(
        "forward mode keeps no more for a deep network, or its cost does not grow with the inputs",
        "前向模式保存的数不随层数增加，或其代价不随输入个数增长",
    )
    panels = (
        Panel(
            "inputs",
            Text("gradient of one output by many inputs", "一个输出对多个输入的梯度"),
            Text("inputs", "输入个数"),
            Text("multiplications", "乘法次数"),
            log="xy",
            names=MODES,
        ),
        Panel(
            "outputs",
            Text("derivatives of many outputs by one input", "多个输出对一个输入的导数"),
            Text("outputs", "输出个数"),
            Text("multiplications", "乘法次数"),
            log="xy",
            names=MODES,
        ),
        Panel(
            "kept",
            Text("memory", "内存"),
            Text("layers", "层数"),
            Text("numbers kept", "保存的数"),
            log="x",
            names=MODES,
        ),
        Panel(
            "detach",
            Text("derivative of u x, where u = x x", "u x 的导数，其中 u = x x"),
            Text("x", "x"),
            Text("derivative", "导数"),
            names={ATTACHED: Text("u in the graph", "u 在图中"), DETACHED: Text("u.detach()", "u.detach()")},
        ),
    )
    papers = ("Baydin et al. 2018, section 3",)
    seconds = 1

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        random = generator_of(seed, "weights")
        for mode, jacobian in ((FORWARD, forward_mode), (REVERSE, reverse_mode)):
            for size in SIZES:
                for panel, inputs, outputs in (("inputs", size, 1), ("outputs", 1, size)):
                    cost, weights = Cost(), build_weights(inputs, outputs, DEPTH, random)
                    jacobian(weights, torch.randn(inputs, generator=random, dtype=torch.float64), cost)
                    record(panel, mode, size, cost.multiplications)
            for depth in DEPTHS:
                cost, weights = Cost(), build_weights(WIDTH, 1, depth, random)
                jacobian(weights, torch.randn(WIDTH, generator=random, dtype=torch.float64), cost)
                record("kept", mode, depth, cost.kept)
        x = torch.arange(4.0)
        for series, detach in ((ATTACHED, False), (DETACHED, True)):
            for place, value in zip(x.tolist(), derivative(x, detach).tolist(), strict=True):
                record("detach", series, place, value)

    def judge(self, results: Results) -> Verdict:
        def ratio(panel: str, first: str, second: str) -> float:
            return results.mean(panel, first, SIZES[-1]) / results.mean(panel, second, SIZES[-1])

        def growth(mode: str) -> float:
            return results.mean("kept", mode, DEPTHS[-1]) / results.mean("kept", mode, DEPTHS[0])

        slower = ratio("inputs", FORWARD, REVERSE)
        deeper = DEPTHS[-1] / DEPTHS[0]
        keeps_all = growth(FORWARD) > deeper / 2
        squares = all(
            results.mean("detach", series, x) == factor * float(x) ** 2
            for series, factor in ((ATTACHED, 3), (DETACHED, 1))
            for x in results.xs("detach", series)
        )
        return Verdict(
            decide(slower > 2 and keeps_all, slower < 2 or growth(FORWARD) < 1.5),
            Text(
                "For {size:.0f} inputs and one output, forward mode needs {slower:.0f} times the multiplications of "
                "reverse mode; for one input and {size:.0f} outputs, reverse mode needs {outputs:.0f} times those of "
                "forward mode. In a network {deeper:.0f} times as deep, reverse mode keeps {reverse:.1f} times as "
                "many "
                "numbers, forward mode {forward:.1f} times.",
                "{size:.0f} 个输入、一个输出时，前向模式的乘法次数是反向模式的 {slower:.0f} 倍；一个输入、{size:.0f} "
                "个输出时，反向模式是前向模式的 {outputs:.0f} 倍。网络加深到 {deeper:.0f} 倍时，反向模式保存的数为 "
                "{reverse:.1f} 倍，前向模式为 {forward:.1f} 倍。",
            ),
            {
                "size": SIZES[-1],
                "slower": slower,
                "outputs": ratio("outputs", REVERSE, FORWARD),
                "deeper": deeper,
                "reverse": growth(REVERSE),
                "forward": growth(FORWARD),
            },
            {DETACH: decide(squares, not squares)},
        )
