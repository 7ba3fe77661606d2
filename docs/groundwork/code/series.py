"""Numeric series: predict the next value from the last tau values; one step ahead and k steps ahead."""

import torch
from torch import nn

torch.manual_seed(0)
T, TAU, TRAIN = 1000, 4, 600
time = torch.arange(1.0, T + 1)
x = torch.sin(0.01 * time) + 0.2 * torch.randn(T)
windows = torch.stack([x[i : T - TAU + i] for i in range(TAU)], dim=1)  # row t: x_(t-tau) .. x_(t-1)
targets = x[TAU:]


def linear_model():
    """Least squares in closed form, with a bias."""
    A = torch.cat([windows[:TRAIN], torch.ones(TRAIN, 1)], dim=1)
    w = torch.linalg.lstsq(A, targets[:TRAIN]).solution
    return lambda rows: rows @ w[:-1] + w[-1]


def mlp_model():
    net = nn.Sequential(nn.Linear(TAU, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(300):
        loss = ((net(windows[:TRAIN])[:, 0] - targets[:TRAIN]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return lambda rows: net(rows)[:, 0].detach()


def ahead(model, k):
    """The squared error k steps ahead on the rest of the series: predictions become inputs."""
    rows = windows[TRAIN : len(windows) - k + 1]
    for _ in range(k):
        y = model(rows)
        rows = torch.cat([rows[:, 1:], y[:, None]], dim=1)
    return ((y - targets[TRAIN + k - 1 :]) ** 2).mean().item()


print(f"steps ahead      1      4     16     64   (the noise has variance 0.04, the series {x[TRAIN:].var():.2f})")
for name, model in (("linear", linear_model()), ("MLP", mlp_model()), ("last value", lambda rows: rows[:, -1])):
    print(f"{name:11}", *(f"{ahead(model, k):6.3f}" for k in (1, 4, 16, 64)))
