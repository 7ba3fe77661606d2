"""detach, no_grad and eval(): three switches that are often confused."""

import torch
from torch import nn

x = torch.arange(4.0, requires_grad=True)
for name, u in (("u = x x", x * x), ("detach(u)", (x * x).detach())):
    (gradient,) = torch.autograd.grad((u * x).sum(), x)
    print(f"{name:9}: the derivative of u x is {gradient.tolist()}")


def kept_bytes(model, x):
    """Bytes that the forward pass keeps for the backward pass, without the weights."""
    kept, weights = {}, {p.data_ptr() for p in model.parameters()}

    def pack(tensor):
        if tensor.data_ptr() not in weights:
            kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = model(x)  # keep the output: otherwise its memory would be used again
    return sum(kept.values()), y


torch.manual_seed(0)
layers = [module for _ in range(4) for module in (nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Tanh(), nn.Dropout(0.5))]
model, batch = nn.Sequential(*layers), torch.randn(32, 64)
for mode in ("train", "eval"):
    model.train(mode == "train")
    for recorded in (True, False):
        with torch.set_grad_enabled(recorded):
            before = model[1].running_mean.clone()
            size, y = kept_bytes(model, batch)
            same = torch.equal(y, model(batch))
            moved = not torch.equal(before, model[1].running_mean)
            name = f"{mode}(), {'gradients' if recorded else 'no_grad()'}"
        print(f"{name:20} keeps {size:6} bytes; two passes are equal: {same!s:5}; batch statistics move: {moved}")
