"""Forward mode with dual numbers: a value and its derivative along one direction, computed together."""

import numpy as np


class Dual:
    """x + t e with e^2 = 0: the rules of sums and products are those of derivatives."""

    count = 0  # products so far

    def __init__(self, value, tangent):
        self.value, self.tangent = value, tangent

    def __add__(self, other):
        return Dual(self.value + other.value, self.tangent + other.tangent)

    def __mul__(self, other):
        Dual.count += 1
        return Dual(self.value * other.value, self.tangent * other.value + self.value * other.tangent)

    def tanh(self):
        y = np.tanh(self.value)
        return Dual(y, (1 - y**2) * self.tangent)


def loss(weights, x):
    """A chain of neurons: y = tanh(w_3 tanh(w_2 tanh(w_1 x)))."""
    for w in weights:
        x = (w * x).tanh()
    return x


for size in (3, 10, 30):
    w = np.linspace(0.8, 1.2, size)
    Dual.count, gradient = 0, []
    for direction in np.eye(size):  # one evaluation for each weight
        gradient.append(loss([Dual(*pair) for pair in zip(w, direction, strict=True)], Dual(0.5, 0.0)).tangent)
    forward = Dual.count

    xs, reverse = [0.5], 0  # reverse mode by hand: keep the values, then walk back once
    for weight in w:
        xs.append(np.tanh(weight * xs[-1]))
        reverse += 1
    g, walked = 1.0, []
    for weight, before, after in zip(w[::-1], xs[-2::-1], xs[:0:-1], strict=True):
        g *= 1 - after**2
        walked.insert(0, g * before)
        g, reverse = g * weight, reverse + 2
    costs = f"{forward:3} dual products, 1 value kept; reverse mode {reverse:2} products, {len(xs)} values kept"
    print(f"{size:2} weights: forward mode {costs}; equal: {np.allclose(gradient, walked)}")
