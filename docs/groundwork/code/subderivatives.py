"""Subderivatives: at a corner every slope of a line below the function will do."""

import torch


def is_subderivative(f, at, slope):
    """True if the line through (at, f(at)) with this slope is nowhere above f."""
    x = torch.linspace(-3, 3, 601, dtype=torch.float64)
    return bool((f(x) >= f(torch.tensor(at)) + slope * (x - at) - 1e-12).all())


for name, f in {"|x|": torch.abs, "relu": torch.relu}.items():
    slopes = [s / 4 for s in range(-6, 7) if is_subderivative(f, 0.0, s / 4)]
    x = torch.zeros((), requires_grad=True)
    f(x).backward()
    print(f"{name:5} at 0: all slopes from {slopes[0]} to {slopes[-1]}; torch takes {x.grad.item()}")

ties = torch.ones(3, requires_grad=True)
ties.amax().backward()
print("max of three equal numbers: torch shares the derivative:", ties.grad.tolist())

for slope in (-1.0, 0.0, 0.7):  # any choice works: |x - 1| + |x + 1| / 2 has its minimum at the corner x = 1
    x = 3.0
    for step in range(1, 4001):
        a, b = x - 1, x + 1
        g = (slope if abs(a) < 1e-9 else a / abs(a)) + 0.5 * (slope if abs(b) < 1e-9 else b / abs(b))
        x -= g / step
    print(f"with {slope:4} at the corner, 4,000 steps of size 1 / k end at x = {x:.3f}")
