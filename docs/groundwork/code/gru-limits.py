"""Limits of the GRU: open and closed gates make it an RNN, an MLP, or a copy."""

import torch
from torch import nn

OPEN, CLOSED = 1e9, -1e9  # as biases of a gate: sigmoid gives exactly 1 and 0


def gru_step(x, h, W, U, b, d):
    """r, z = sigmoid(..); n = tanh(W_n x + b_n + r (U_n h + d_n)); h' = (1 - z) n + z h. Rows of W, U: r, z, n."""
    (xr, xz, xn), (hr, hz, hn) = (x @ W.T + b).chunk(3, -1), (h @ U.T + d).chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    n = torch.tanh(xn + r * hn)
    return (1 - z) * n + z * h


def set_gates(cell, reset, update):
    K = cell.hidden_size
    with torch.no_grad():
        cell.bias_ih[:K] = reset
        cell.bias_ih[K : 2 * K] = update


torch.manual_seed(0)
cell = nn.GRUCell(5, 4).double()
x, h = torch.randn(3, 5).double(), torch.randn(3, 4).double()
weights = (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
print("our step equals torch's:", torch.allclose(gru_step(x, h, *weights), cell(x, h), atol=1e-14))

(W, U, b, d), K = weights, 4
cases = {
    "r = 1, z = 0: an RNN, tanh(W x + b + U h + d)": (
        OPEN, CLOSED, lambda: torch.tanh(x @ W[2 * K :].T + b[2 * K :] + h @ U[2 * K :].T + d[2 * K :])),
    "r = 0, z = 0: an MLP of the input, tanh(W x + b)": (
        CLOSED, CLOSED, lambda: torch.tanh(x @ W[2 * K :].T + b[2 * K :])),
    "z = 1: a copy of the state, whatever r and x are": (OPEN, OPEN, lambda: h),
}  # fmt: skip
for name, (reset, update, expected) in cases.items():
    set_gates(cell, reset, update)
    print(f"{name}: {torch.allclose(cell(x, h), expected(), atol=1e-14)}")
