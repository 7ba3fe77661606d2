"""The gradient is orthogonal to the contour line and points where the function grows fastest."""

import numpy as np


def f(x):
    return x[0] ** 2 + 2 * x[1] ** 2


def gradient(x):
    return np.array([2 * x[0], 4 * x[1]])


print("point on f = 4, gradient, gradient . tangent, steepest angle, angle of the gradient")
for t in (0.3, 1.2, 2.5):
    x = np.array([2 * np.cos(t), np.sqrt(2) * np.sin(t)])  # f(x) = 4 for every t: a contour line
    tangent = np.array([-2 * np.sin(t), np.sqrt(2) * np.cos(t)])  # dx / dt
    g = gradient(x)
    angles = np.linspace(-np.pi, np.pi, 3601)
    steps = x[:, None] + 1e-4 * np.stack([np.cos(angles), np.sin(angles)])
    steepest = angles[f(steps).argmax()]
    print(x.round(3), g.round(3), f"{abs(g @ tangent):.6f} {steepest:.3f} {np.arctan2(g[1], g[0]):.3f}")

x = np.array([2.0, 1.0])
for _ in range(30):  # gradient descent follows -g, at a right angle to each contour line that it crosses
    x = x - 0.1 * gradient(x)
print(f"after 30 steps against the gradient: f = {f(x):.1e}")
