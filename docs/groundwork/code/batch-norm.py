"""Batch norm: its formula, training and evaluation, recurrent states, smoothness."""

import torch
from torch import nn


class BatchNorm(nn.Module):
    """y = g (x - mean) / sqrt(var + eps) + b, mean and variance of each feature over the batch: x (N, D)."""

    def __init__(self, width, eps=1e-5, momentum=0.1):
        super().__init__()
        self.g, self.b = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.mean, self.var, self.eps, self.momentum = torch.zeros(width), torch.ones(width), eps, momentum

    def forward(self, x):
        mean, var = self.mean, self.var
        if self.training:
            mean, var = x.mean(0), x.var(0, correction=0)
            self.mean = torch.lerp(self.mean, mean.detach(), self.momentum)
            self.var = torch.lerp(self.var, x.detach().var(0), self.momentum)  # with N - 1, as in torch
        return self.g * (x - mean) / (var + self.eps).sqrt() + self.b


torch.manual_seed(0)
norm, x = BatchNorm(3), 5 + 2 * torch.randn(64, 3)
print(f"training: mean {norm(x).mean().abs():.3f}, std {norm(x).std(correction=0):.3f};", end=" ")
print(f"one row in batches of 64 and 8: {torch.dist(norm(x)[0], norm(x[:8])[0]):.2f} apart")
norm.eval()
print(f"evaluation: one row in batches of 64 and 8: {torch.dist(norm(x)[0], norm(x[:8])[0]):.2f} apart")

W, U, h = torch.randn(3, 8) / 3**0.5, 0.98 * torch.linalg.qr(torch.randn(8, 8))[0], torch.zeros(1000, 8)
stds = []
for _ in range(30):  # a linear recurrent network: every step has its own statistics
    h = torch.randn(1000, 3) @ W + h @ U
    stds.append(h.std().item())
print("std of recurrent states after 1, 5 and 30 steps:", *(f"{stds[t - 1]:.2f}" for t in (1, 5, 30)))


def turn(norm, seed, length=0.2):
    """The cosine of the gradients before and after one step of this length, in a network of six layers."""
    torch.manual_seed(seed)
    net = nn.Sequential(*(m for _ in range(6) for m in (nn.Linear(32, 32), norm(32), nn.ReLU())), nn.Linear(32, 1))
    x, y, gradients = torch.randn(256, 32), torch.randn(256, 1), []
    for _ in range(2):
        found = torch.autograd.grad(((net(x) - y) ** 2).mean(), [*net.parameters()])
        gradients.append(torch.cat([g.flatten() for g in found]))
        with torch.no_grad():
            for parameter, g in zip(net.parameters(), found, strict=True):
                parameter -= length * g / gradients[-1].norm()
    return torch.cosine_similarity(*gradients, dim=0).item()


for name, kind in (("without", nn.Identity), ("with", BatchNorm)):
    print(f"{name} batch norm, cosine of the gradients around a step: {sum(turn(kind, s) for s in range(10)) / 10:.2f}")
