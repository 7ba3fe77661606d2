"""Cross-entropy of a last layer's scores without ever holding them all.

    L = cross-entropy(h W^T, y),    dL/dh = (p - q) W,    dL/dW = (p - q)^T h

The scores of a batch of 25,000 words over 32,000 are 1.6 GB in bf16, more than the rest of the last layers together.
But each row is needed once, to become p - q; so a few thousand rows are scored at a time, turned into their gradient
in place, multiplied on to h and W, and forgotten. The gradient is ready when the loss is, and backward only scales it.

M positions, D model, V vocabulary.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.losses.crossentropy import Loss

# Scores held at a time: half a gigabyte in bf16 on a GPU, what fits a cache on a CPU.
AT_ONCE = {"cuda": 2**28, "cpu": 2**21}


def projected_cross_entropy(
    hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float = 0.0, ignore: int = 0
) -> Loss:
    """hidden (*, D), scored by the rows of weight (V, D), against labels (*); `ignore` marks what does not count."""
    hidden, labels = hidden.flatten(0, -2), labels.flatten()
    real = labels != ignore
    if not hidden.is_cuda:  # to leave out padding saves work, but a GPU's host would have to wait for the number
        hidden, labels = hidden[real], labels[real]
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
        hidden, weight = hidden.to(dtype), weight.to(dtype)
    differentiable = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    objective, nll = ProjectedCrossEntropy.apply(hidden, weight, labels, smoothing, ignore, differentiable)  # type: ignore[no-untyped-call]
    return Loss(objective, real.sum(), nll)


class ProjectedCrossEntropy(torch.autograd.Function):
    """Loss and gradients chunk by chunk."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float, ignore: int, differentiable: bool
    ) -> tuple[Tensor, Tensor]:
        with torch.autocast(hidden.device.type, enabled=False):
            exact = torch.promote_types(hidden.dtype, torch.float32)
            sums = torch.zeros(2, dtype=exact, device=hidden.device)
            dh, dw = torch.empty_like(hidden), torch.zeros_like(weight, dtype=exact)
            rows = max(1, AT_ONCE.get(hidden.device.type, 2**24) // len(weight))
            for h, y, out in zip(hidden.split(rows), labels.split(rows), dh.split(rows), strict=True):
                z = F.linear(h, weight)
                sums += torch.stack(visit(z, y, smoothing, ignore))
                if differentiable:
                    torch.mm(z, weight, out=out)
                    dw.addmm_(z.T, h) if dw.dtype == z.dtype else dw.add_(z.T @ h)
        ctx.save_for_backward(dh, dw)
        objective, nll = sums[0], sums[1]
        ctx.mark_non_differentiable(nll)
        return objective, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        dh, dw = ctx.saved_tensors
        return dh * gradients[0].to(dh.dtype), dw * gradients[0], None, None, None, None


def visit(z: Tensor, labels: Tensor, smoothing: float, ignore: int) -> tuple[Tensor, Tensor]:
    """Scores z (M, V) become dL/dz = p - q in place; returned are the objective and the nll, summed."""
    if z.is_cuda:
        from regard.losses.rows import visit_rows  # needs triton, which comes with torch for GPUs

        return visit_rows(z, labels, smoothing, ignore)
    real, places = labels != ignore, labels[:, None]
    log_p = torch.log_softmax(z, dim=-1, dtype=torch.promote_types(z.dtype, torch.float32))
    nll = -(log_p.gather(1, places)[:, 0] * real).sum()
    uniform = -(log_p.mean(dim=-1) * real).sum() if smoothing else torch.zeros_like(nll)
    torch.exp(log_p, out=log_p).sub_(smoothing / z.size(1))
    log_p.scatter_add_(1, places, torch.full_like(places, smoothing - 1, dtype=log_p.dtype))
    z.copy_(log_p.mul_(real[:, None]) if not bool(real.all()) else log_p)
    return (1 - smoothing) * nll + smoothing * uniform, nll
