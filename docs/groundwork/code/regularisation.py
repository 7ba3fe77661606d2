"""Regularisation: weight decay is ridge regression, an L1 penalty gives zeros."""

import numpy as np

random = np.random.default_rng(0)
N, useful, useless = 60, 4, 16
X = random.normal(size=(N, useful + useless))
w_true = np.r_[np.array([3.0, -2.0, 1.5, 1.0]), np.zeros(useless)]
y = X @ w_true + random.normal(size=N)


def ridge(X, y, strength):
    """The minimum of ||X w - y||^2 + strength ||w||^2."""
    return np.linalg.solve(X.T @ X + strength * np.eye(X.shape[1]), X.T @ y)


def decayed_descent(X, y, strength, rate=1e-3, steps=5000):
    """Gradient descent on ||X w - y||^2 alone; each step also shrinks w: w <- (1 - 2 rate strength) w - rate g."""
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        w = (1 - 2 * rate * strength) * w - rate * 2 * X.T @ (X @ w - y)
    return w


def lasso(X, y, strength, rate=1e-3, steps=5000):
    """||X w - y||^2 + strength ||w||_1: a step of the first term, then a move towards zero that stops there."""
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        w = w - rate * 2 * X.T @ (X @ w - y)
        w = np.sign(w) * np.maximum(abs(w) - rate * strength, 0)
    return w


print(f"weight decay = ridge: {np.allclose(decayed_descent(X, y, 10.0), ridge(X, y, 10.0))}")
for name, w in (("none", ridge(X, y, 0.0)), ("ridge", ridge(X, y, 10.0)), ("lasso", lasso(X, y, 30.0))):
    error, zeros = np.linalg.norm(w - w_true), (w[useful:] == 0).sum()
    print(f"{name:5}: ||w||_2 {np.linalg.norm(w):.2f}, zeros among the useless weights: {zeros:2}, error {error:.2f}")
