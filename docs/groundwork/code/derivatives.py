"""The four shapes of a derivative, and the chain rule as a product of matrices (numerator layout)."""

import numpy as np


def jacobian(f, x, h=1e-6):
    """dy / dx of shape (m, n), by differences: row i is the derivative of y_i, column j that by x_j."""
    x = np.atleast_1d(np.asarray(x, dtype=float))
    columns = [(np.atleast_1d(f(x + h * e)) - np.atleast_1d(f(x - h * e))) / (2 * h) for e in np.eye(len(x))]
    return np.stack(columns, axis=1)


cases = {
    "number by number": (lambda x: x[0] ** 2, [2.0]),
    "number by vector": (lambda x: x[0] ** 2 + 2 * x[1] ** 2, [1.0, 1.0]),
    "vector by number": (lambda x: np.array([2 * x[0], 3 * x[0], x[0] ** 2]), [1.0]),
    "vector by vector": (lambda x: np.array([x[0] * x[1], x[0], 5 * x[1]]), [2.0, 3.0]),
}
for name, (f, x) in cases.items():
    J = jacobian(f, x)
    print(f"{name}: shape {J.shape}, {np.round(J, 3).tolist()}")

# The chain rule: loss = ||b||^2, b = y - a, a = X w
random = np.random.default_rng(0)
X, y, w = random.normal(size=(5, 3)), random.normal(size=5), random.normal(size=3)
b = y - X @ w
chain = (2 * b[None]) @ (-np.eye(5)) @ X  # (1, 5) (5, 5) (5, 3) = (1, 3)
print("chain rule ", chain.round(4))
print("differences", jacobian(lambda w: ((y - X @ w) ** 2).sum(), w).round(4))
print("the sign that is often lost: -2 (X w - y)^T X =", (-2 * (X @ w - y) @ X).round(4))
