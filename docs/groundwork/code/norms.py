"""Norms: the length of a vector or a matrix, in three ways."""

import numpy as np


def l1(x):
    return np.abs(x).sum()


def l2(x):
    return np.sqrt((x**2).sum())


def frobenius(X):
    return np.sqrt((X**2).sum())


x = np.array([3.0, -4.0])
print(f"x = {x}:  L1 {l1(x)}, L2 {l2(x)}; without absolute values the sum is {x.sum()}")

X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
singular = np.linalg.svd(X, compute_uv=False)
print(f"Frobenius {frobenius(X):.4f} = L2 of the singular values {l2(singular):.4f}")

random = np.random.default_rng(0)
for norm in (l1, l2):  # what makes a function a norm
    a, b = random.normal(size=(2, 1000, 5))
    triangle = max(norm(u + v) - norm(u) - norm(v) for u, v in zip(a, b, strict=True))
    print(
        f"{norm.__name__}: ||-2 x|| = {norm(-2 * x) / norm(x)} ||x||, ||u + v|| - ||u|| - ||v|| at most {triangle:.2f}"
    )
