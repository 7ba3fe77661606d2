"""A matrix moves every point of the plane: draw a grid before and after."""

from pathlib import Path

import numpy as np

A = np.array([[1.2, 0.6], [-0.3, 0.9]])  # its columns are the places of (1, 0) and (0, 1)


def polylines(A, colour, x0):
    """The grid of the square from -2 to 2, each line moved by A."""
    t = np.linspace(-2, 2, 2)
    lines = [np.stack([t, np.full(2, c)]) for c in range(-2, 3)] + [np.stack([np.full(2, c), t]) for c in range(-2, 3)]
    for line in lines:
        x, y = A @ line  # (2, 2) @ (2, points)
        points = " ".join(f"{x0 + 30 * a:.1f},{130 - 30 * b:.1f}" for a, b in zip(x, y, strict=True))
        yield f'<polyline points="{points}" fill="none" stroke="{colour}"/>'
    for vector, stroke in ((A[:, 0], "#c0392b"), (A[:, 1], "#2e6fb7")):
        end = f'x2="{x0 + 30 * vector[0]:.1f}" y2="{130 - 30 * vector[1]:.1f}"'
        yield f'<line x1="{x0}" y1="130" {end} stroke="{stroke}" stroke-width="4"/>'


shapes = [*polylines(np.eye(2), "#999", 90), *polylines(A, "#999", 310)]
svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 440 260">{"".join(shapes)}</svg>\n'
Path("warp.svg").write_text(svg)

U, s, Vt = np.linalg.svd(A)
x = np.random.default_rng(0).normal(size=(2, 1000))
lengths = np.linalg.norm(A @ x, axis=0) / np.linalg.norm(x, axis=0)
print(f"areas are multiplied by |det A| = {abs(np.linalg.det(A)):.2f}")
print(f"lengths by {lengths.min():.3f} to {lengths.max():.3f}; singular values {s[1]:.3f} and {s[0]:.3f}")
print(f"A = rotation, stretch, rotation: {np.allclose(U @ np.diag(s) @ Vt, A)}")
middle = np.allclose(A @ x[:, :2].mean(axis=1), (A @ x[:, :2]).mean(axis=1))
print(f"the middle of two points stays in the middle: {middle}")
