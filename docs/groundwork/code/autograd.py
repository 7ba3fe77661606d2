"""Reverse mode in 30 lines: record every step with its pull, then walk back once."""

import numpy as np


class Variable:
    """An array, its parents, and for each parent a function from the gradient of this array to that of the parent."""

    def __init__(self, value, parents=()):
        self.value, self.parents, self.grad = np.asarray(value, dtype=float), parents, 0.0

    def __mul__(self, other):
        a, b = self.value, other.value
        return Variable(a * b, [(self, lambda g: g * b), (other, lambda g: g * a)])

    def __matmul__(self, other):
        a, b = self.value, other.value
        return Variable(a @ b, [(self, lambda g: g @ b.T), (other, lambda g: a.T @ g)])

    def softmax(self):
        p = np.exp(self.value - self.value.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        return Variable(p, [(self, lambda g: p * (g - (g * p).sum(-1, keepdims=True)))])

    def transpose(self):
        return Variable(self.value.T, [(self, lambda g: g.T)])

    def sum(self):
        return Variable(self.value.sum(), [(self, lambda g: g * np.ones_like(self.value))])

    def backward(self):
        order, seen = [], set()

        def visit(node):  # parents before children
            if node not in seen:
                seen.add(node)
                for parent, _ in node.parents:
                    visit(parent)
                order.append(node)

        visit(self)
        self.grad = np.ones_like(self.value)
        for node in reversed(order):
            for parent, pull in node.parents:
                parent.grad = parent.grad + pull(node.grad)


def attention(q, k, v):
    return (q @ k.transpose() * Variable(np.full((len(q.value), len(k.value)), q.value.shape[1] ** -0.5))).softmax() @ v


random = np.random.default_rng(0)
q, k, v, weights = (Variable(random.normal(size=shape)) for shape in ((2, 4), (3, 4), (3, 4), (2, 4)))
loss = (attention(q, k, v) * weights).sum()
loss.backward()
print(f"loss {loss.value:.4f}")
print("its gradient by the first query:", q.grad[0].round(4))
shifted = Variable(q.value + 1e-6 * np.eye(2, 4))
change = (attention(shifted, k, v) * weights).sum().value - loss.value
print(f"q_11 and q_22 grow by 1e-6: it grows by 1e-6 times {change / 1e-6:.4f}; g_11 + g_22 = {np.trace(q.grad):.4f}")
