"""Mean or sum: the reduction of a loss changes the step, not the minimum."""

import torch
import torch.nn.functional as F


def loss_after(reduction, batch_size, rate, steps=60):
    """The mean loss of linear regression after some steps; 1e9 if it diverged."""
    torch.manual_seed(0)
    X, w = torch.randn(batch_size, 8, dtype=torch.float64), torch.zeros(8, dtype=torch.float64, requires_grad=True)
    y = X @ torch.arange(1.0, 9.0, dtype=torch.float64)
    for _ in range(steps):
        (gradient,) = torch.autograd.grad(F.mse_loss(X @ w, y, reduction=reduction), w)
        w = (w - rate * gradient).detach().requires_grad_()
    return min(torch.nan_to_num(F.mse_loss(X @ w, y), nan=1e9).item(), 1e9)


rates = [2.0**-k for k in range(16)]
print("batch size   best rate: mean        sum    the sum's times the batch size")
for batch_size in (16, 64, 256, 1024):
    best = {kind: min(rates, key=lambda rate: loss_after(kind, batch_size, rate)) for kind in ("mean", "sum")}
    print(f"{batch_size:10} {best['mean']:17.5f} {best['sum']:10.5f} {best['sum'] * batch_size:12.2f}")

X, y = torch.randn(64, 8), torch.randn(64)
for kind in ("mean", "sum"):
    w = torch.zeros(8, requires_grad=True)
    (gradient,) = torch.autograd.grad(F.mse_loss(X @ w, y, reduction=kind), w)
    print(f"{kind}: norm of the gradient of one batch of 64: {gradient.norm():.2f}")
