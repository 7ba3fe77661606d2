"""Automatic differentiation from nothing, in numpy: reverse mode with a tape, forward mode with dual numbers.

A program is a chain of primitives y = f(x_1, x_2, ..), and each knows its Jacobians J_i = dy / dx_i in two ways:

    pull   g -> g J_1, g J_2, ..              from a gradient of the output to gradients of the inputs
    push   t_1, t_2, .. -> sum_i J_i t_i      from tangents of the inputs to the tangent of the output

    reverse mode   evaluate the program and record each primitive on a tape; then walk the tape from its end and pull.
                   One walk gives the gradient of one number by all inputs. The tape keeps every value that a pull
                   needs, so memory grows with the length of the program.
    forward mode   compute with dual numbers (x, t): push the tangent along with the value. One evaluation gives the
                   derivative of all outputs along one direction. Nothing is kept.

A gradient by n inputs is one walk in reverse mode and n evaluations in forward mode. `Tape.no_grad` stops recording,
`detach` makes a constant of a value.

    tape = Tape()
    x = tape.variable(np.arange(4.0))
    tape.gradients((x * x * x).sum(), x)           [array([0., 3., 12., 27.])]

regard trains with torch, which does the same for far more primitives and on a GPU; tests compare the two in float64.
See Baydin et al. 2018, "Automatic Differentiation in Machine Learning: a Survey".
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Union

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64] | tuple[npt.NDArray[np.int64], ...]
Operand = Union["Variable", Array, float]


@dataclass(frozen=True)
class Primitive:
    """A function of arrays with its Jacobians; x are its inputs and y is its output."""

    evaluate: Callable[..., Array]
    """(*x) -> y"""
    pull: Callable[..., tuple[Array, ...]]
    """(g, y, *x) -> g J_i for each input; g has the shape of y. Broadcast axes are summed by the caller."""
    push: Callable[..., Array]
    """(t, y, *x) -> sum_i J_i t_i; t has a tangent for each input."""


def elementwise(evaluate: Callable[[Array], Array], slope: Callable[[Array, Array], Array]) -> Primitive:
    """A function of each number with derivative slope(y, x): its Jacobian is diagonal."""
    return Primitive(evaluate, lambda g, y, x: (g * slope(y, x),), lambda t, y, x: t[0] * slope(y, x))


def linear(evaluate: Callable[[Array], Array], transposed: Callable[[Array, Array], Array]) -> Primitive:
    """A linear function y = A x: a tangent goes through it as x does, a gradient through transposed(g, x) = g A."""
    return Primitive(evaluate, lambda g, y, x: (transposed(g, x),), lambda t, y, x: evaluate(t[0]))


ADD = Primitive(lambda a, b: a + b, lambda g, y, a, b: (g, g), lambda t, y, a, b: t[0] + t[1])
MULTIPLY = Primitive(lambda a, b: a * b, lambda g, y, a, b: (g * b, g * a), lambda t, y, a, b: t[0] * b + a * t[1])
MATMUL = Primitive(
    lambda a, b: a @ b,
    lambda g, y, a, b: (g @ b.swapaxes(-1, -2), a.swapaxes(-1, -2) @ g),
    lambda t, y, a, b: t[0] @ b + a @ t[1],
)
EXP = elementwise(np.exp, lambda y, x: y)
LOG = elementwise(np.log, lambda y, x: 1 / x)
TANH = elementwise(np.tanh, lambda y, x: 1 - y**2)
RELU = elementwise(lambda x: np.maximum(x, 0.0), lambda y, x: (x > 0).astype(x.dtype))  # at 0 the subderivative 0


def power(exponent: float) -> Primitive:
    return elementwise(lambda x: x**exponent, lambda y, x: exponent * x ** (exponent - 1))


def sum_over(axes: int | tuple[int, ...] | None) -> Primitive:
    """The sum over some axes, or over all; summed axes stay with size 1."""
    return linear(lambda x: np.sum(x, axis=axes, keepdims=True), lambda g, x: np.broadcast_to(g, x.shape))


def reshape(shape: tuple[int, ...]) -> Primitive:
    return linear(lambda x: x.reshape(shape), lambda g, x: g.reshape(x.shape))


def transpose(axes: tuple[int, ...]) -> Primitive:
    return linear(lambda x: x.transpose(axes), lambda g, x: g.transpose(np.argsort(axes).tolist()))


def select(index: Index) -> Primitive:
    """x[index], for example the rows of token ids in an embedding matrix; rows selected twice get both gradients."""

    def scatter(g: Array, x: Array) -> Array:
        total = np.zeros_like(x)
        np.add.at(total, index, g)
        return total

    return linear(lambda x: x[index], scatter)


class Variable:
    """An array in a program. On its own it is a constant; `Recorded` and `Dual` carry derivatives."""

    def __init__(self, value: npt.ArrayLike) -> None:
        self.value: Array = np.asarray(value, dtype=np.float64)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def __add__(self, other: Operand) -> "Variable":
        return apply(ADD, self, other)

    def __mul__(self, other: Operand) -> "Variable":
        return apply(MULTIPLY, self, other)

    def __matmul__(self, other: Operand) -> "Variable":
        return apply(MATMUL, self, other)

    def __pow__(self, exponent: float) -> "Variable":
        return apply(power(exponent), self)

    def __neg__(self) -> "Variable":
        return self * -1.0

    def __sub__(self, other: Operand) -> "Variable":
        return self + (-other if isinstance(other, Variable) else -np.asarray(other))

    def __truediv__(self, other: Operand) -> "Variable":
        return self * (other**-1.0 if isinstance(other, Variable) else 1.0 / np.asarray(other))

    def __getitem__(self, index: Index) -> "Variable":
        return apply(select(index), self)

    __radd__, __rmul__ = __add__, __mul__

    def sum(self, axes: int | tuple[int, ...] | None = None) -> "Variable":
        return apply(sum_over(axes), self)

    def mean(self, axes: int | tuple[int, ...] | None = None) -> "Variable":
        total = self.sum(axes)
        return total * (total.value.size / self.value.size)

    def exp(self) -> "Variable":
        return apply(EXP, self)

    def log(self) -> "Variable":
        return apply(LOG, self)

    def tanh(self) -> "Variable":
        return apply(TANH, self)

    def relu(self) -> "Variable":
        return apply(RELU, self)

    def reshape(self, *shape: int) -> "Variable":
        return apply(reshape(shape), self)

    def transpose(self, *axes: int) -> "Variable":
        return apply(transpose(axes), self)

    def detach(self) -> "Variable":
        """The value as a constant: no derivative goes through it."""
        return Variable(self.value)


class Recorded(Variable):
    """A variable whose history is on a tape."""

    def __init__(self, value: npt.ArrayLike, tape: "Tape") -> None:
        super().__init__(value)
        self.tape = tape


class Dual(Variable):
    """A value with its tangent, the derivative along one direction."""

    def __init__(self, value: npt.ArrayLike, tangent: npt.ArrayLike) -> None:
        super().__init__(value)
        self.tangent: Array = np.asarray(tangent, dtype=np.float64)


def apply(primitive: Primitive, *inputs: Operand) -> Variable:
    """One step of a program: evaluate a primitive, and push the tangents or record the step."""
    variables = [item if isinstance(item, Variable) else Variable(item) for item in inputs]
    arrays = [item.value for item in variables]
    y = primitive.evaluate(*arrays)
    if any(isinstance(item, Dual) for item in variables):
        tangents = [x.tangent if isinstance(x, Dual) else np.zeros_like(x.value) for x in variables]
        return Dual(y, primitive.push(tangents, y, *arrays))
    tape = next((item.tape for item in variables if isinstance(item, Recorded)), None)
    return Variable(y) if tape is None or not tape.recording else tape.record(primitive, variables, y)


@dataclass
class Tape:
    """The steps of a program in the order of their evaluation: (primitive, inputs, output)."""

    recording: bool = True
    steps: list[tuple[Primitive, list[Variable], Recorded]] = field(default_factory=list)
    pulls: int = 0
    """Number of pulls of all walks so far."""

    def variable(self, value: npt.ArrayLike) -> Recorded:
        """A new input of the program."""
        return Recorded(value, self)

    def record(self, primitive: Primitive, inputs: list[Variable], y: Array) -> Recorded:
        output = Recorded(y, self)
        self.steps.append((primitive, inputs, output))
        return output

    @contextmanager
    def no_grad(self) -> Iterator[None]:
        """Do not record, so that nothing is kept."""
        before, self.recording = self.recording, False
        try:
            yield
        finally:
            self.recording = before

    @property
    def kept_bytes(self) -> int:
        """Memory of all arrays on the tape, each counted once; views count as their arrays."""
        arrays = (item.value for _, inputs, output in self.steps for item in (*inputs, output))
        owners = {id(owner): owner for array in arrays for owner in [array if array.base is None else array.base]}
        return sum(owner.nbytes for owner in owners.values())

    def gradients(self, y: Variable, *inputs: Variable) -> list[Array]:
        """dy / dx for each input x, of its shape; y is one number. One walk from the end of the tape to its start."""
        if y.value.size != 1:
            raise ValueError(f"a gradient is that of one number; y has shape {y.shape}")
        found: dict[int, Array] = {id(y): np.ones_like(y.value)}
        for primitive, operands, output in reversed(self.steps):
            if id(output) not in found:
                continue  # y does not depend on this step
            g = found.pop(id(output))
            self.pulls += 1
            pulled = primitive.pull(g, output.value, *(item.value for item in operands))
            for operand, gradient in zip(operands, pulled, strict=True):
                if isinstance(operand, Recorded):
                    found[id(operand)] = found.get(id(operand), 0.0) + sum_to(gradient, operand.shape)
        return [found.get(id(x), np.zeros_like(x.value)) for x in inputs]


def sum_to(g: Array, shape: tuple[int, ...]) -> Array:
    """The transpose of broadcasting: sum over the axes along which an array of `shape` was repeated."""
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    return g.sum(axis=tuple(axis for axis, size in enumerate(shape) if size == 1 < g.shape[axis]), keepdims=True)


def reverse_gradient(f: Callable[..., Variable], *inputs: Array) -> list[Array]:
    """The gradient of f by all inputs: one evaluation and one walk."""
    tape = Tape()
    variables = [tape.variable(x) for x in inputs]
    return tape.gradients(f(*variables), *variables)


def forward_derivative(f: Callable[..., Variable], inputs: Sequence[Array], tangents: Sequence[Array]) -> Array:
    """The derivative of f along one direction: one evaluation."""
    y = f(*(Dual(x, t) for x, t in zip(inputs, tangents, strict=True)))
    return y.tangent if isinstance(y, Dual) else np.zeros_like(y.value)


def forward_gradient(f: Callable[..., Variable], *inputs: Array) -> list[Array]:
    """The gradient of f by all inputs: one evaluation for each number in them."""
    zeros = [np.zeros_like(x) for x in inputs]
    found = [np.zeros_like(x) for x in inputs]
    for number, x in enumerate(inputs):
        for place in np.ndindex(x.shape):
            tangents = [zero.copy() for zero in zeros]
            tangents[number][place] = 1.0
            found[number][place] = forward_derivative(f, inputs, tangents).item()
    return found
