"""Initialisation: the spread of values and gradients through 20 layers."""

import torch
from torch import nn

WIDTH, DEPTH, BATCH = 256, 20, 512


def spread(initialise, activation, seed=0):
    """Standard deviation of the values after 20 layers, and that of the gradient at the input of the first."""
    torch.manual_seed(seed)
    x = h = torch.randn(BATCH, WIDTH, requires_grad=True)
    for _ in range(DEPTH):
        layer = nn.Linear(WIDTH, WIDTH)
        if initialise is not None:
            initialise(layer.weight)
            nn.init.zeros_(layer.bias)
        h = activation(layer(h))
    (gradient,) = torch.autograd.grad(h, x, torch.randn(BATCH, WIDTH))
    return h.std().item(), gradient.std().item()


schemes = {
    "torch default, U(-1/sqrt n, 1/sqrt n)": None,
    "Glorot, Var w = 2 / (n_in + n_out)": nn.init.xavier_uniform_,
    "He, Var w = 2 / n_in": lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu"),
    "orthogonal, W W^T = I": nn.init.orthogonal_,
    "orthogonal times sqrt 2": lambda w: nn.init.orthogonal_(w, 2**0.5),
    "normal with std 1": nn.init.normal_,
    "all zeros": nn.init.zeros_,
}
print(f"{'after 20 layers of width 256':38}   tanh: value, gradient     relu: value, gradient")
for name, initialise in schemes.items():
    columns = [f"{value:10.2g} {gradient:10.2g}" for value, gradient in
               (spread(initialise, function) for function in (torch.tanh, torch.relu))]  # fmt: skip
    print(f"{name:38}", "    ".join(columns))
