"""Gradient clipping: a gradient that is too long keeps its direction and gets the length theta."""

import numpy as np


def clip(g, theta):
    """min(1, theta / ||g||) g."""
    return min(1.0, theta / np.linalg.norm(g)) * g


def gradient(u, steps=20):
    """d/du of (h_20 - 1)^2 / 2 for the linear recurrence h_t = u h_(t-1) + 0.1, through all steps."""
    h, dh = 0.0, 0.0  # the state and its derivative by u
    for _ in range(steps):
        h, dh = u * h + 0.1, h + u * dh
    return (h - 1) * dh, (h - 1) ** 2 / 2


for theta in (np.inf, 1.0):
    u, losses = 1.4, []
    for _ in range(60):
        g, loss = gradient(u)
        losses.append(loss)
        u = u - 0.02 * clip(np.array([g]), theta)[0]
        if not np.isfinite(u) or abs(u) > 1e6:
            break
    ending = f"{losses[-1]:.4f}" if losses[-1] < 1e6 else "diverges"
    print(f"theta {theta}: loss {losses[0]:.1f} -> {ending}, {len(losses)} steps")

g = np.array([3.0, 4.0])
print("clipped to 1:", clip(g, 1.0), "clipped to 10:", clip(g, 10.0))
print("each component clipped to [-1, 1] points elsewhere:", np.clip(g, -1, 1))
