"""Linear regression: the closed form, the gradient, and stochastic gradient descent."""

import numpy as np

random = np.random.default_rng(0)
N, true_w, true_b = 1000, np.array([2.0, -3.4]), 4.2
X = random.normal(size=(N, 2))
y = X @ true_w + true_b + 0.5 * random.normal(size=N)
X1 = np.c_[X, np.ones(N)]  # a column of ones: the bias is one more weight


def closed_form(X, y):
    """w with X^T X w = X^T y, where the gradient is zero; solve, do not invert."""
    return np.linalg.solve(X.T @ X, X.T @ y)


def gradient(w, X, y):
    """d/dw of 1/N ||X w - y||^2, of the shape of w: 2/N X^T (X w - y)."""
    return 2 / len(X) * X.T @ (X @ w - y)


best = closed_form(X1, y)
print("closed form      ", best.round(4), f"gradient there: {abs(gradient(best, X1, y)).max():.6f}")

w = np.zeros(3)
for _ in range(200):
    w -= 0.1 * gradient(w, X1, y)
print("gradient descent ", w.round(4))

for rate in (0.1, 0.01):
    w = np.zeros(3)
    for _ in range(10):  # epochs
        for batch in random.permutation(N).reshape(-1, 10):
            w -= rate * gradient(w, X1[batch], y[batch])
    print(f"SGD, rate {rate:4}   {w.round(4)} distance from the closed form {np.linalg.norm(w - best):.3f}")
