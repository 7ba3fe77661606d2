"""Losses of a last layer's scores without ever holding them all.

    L = loss(h W^T, y),    dL/dh = dL/dz W,    dL/dW = (dL/dz)^T h,    z = h W^T

The scores of a batch of 25,000 words over 32,000 are 1.6 GB in bf16, more than the rest of the last layers together.
But each row is needed once, to become its own gradient; so a few thousand rows are scored at a time, turned into
dL/dz in place, multiplied on to h and W, and forgotten. The gradient is ready with the loss; backward only scales it.

M positions, D model, V vocabulary, C passes over the same positions (two with R-Drop).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels import kernels_available
from regard.layers.embeddings import OutputProjection
from regard.losses.crossentropy import Loss

# Scores z (C, M, V) become dL/dz in place; the objective and the negative log-likelihood, summed, are returned (2,).
Visit = Callable[[Tensor, Tensor], Tensor]

# Products of 16-bit numbers are several times slower where a row of scores does not begin at such a multiple.
ALIGNED = 64

# Scores held at a time: half a gigabyte in bf16 on a GPU, what fits a cache on a CPU.
AT_ONCE = {"cuda": 2**28, "cpu": 2**21}


def projected_cross_entropy(
    projection: OutputProjection, labels: Tensor, smoothing: float = 0.0, ignore: int = 0
) -> Loss:
    """Cross-entropy of the logits (*, V) of a projection against labels (*); `ignore` marks padding."""
    hidden, weight = projection.without_bias()
    visit = partial(smoothed, smoothing=smoothing, ignore=ignore)
    return _projected(hidden.flatten(0, -2)[None], weight, labels.flatten(), visit, ignore)


def projected_r_drop(
    projection: OutputProjection, labels: Tensor, strength: float, smoothing: float = 0.0, ignore: int = 0
) -> Loss:
    """Mean cross-entropy of two passes plus their divergence (Liang et al. 2021, equation 4, halved).

    The hidden states hold both passes one after the other along the first dimension; labels are those of one pass.
    """
    hidden, weight = projection.without_bias()
    visit = partial(paired, smoothing=smoothing, strength=strength, ignore=ignore)
    return _projected(hidden.reshape(2, -1, hidden.size(-1)), weight, labels.flatten(), visit, ignore)


def _projected(hidden: Tensor, weight: Tensor, labels: Tensor, visit: Visit, ignore: int) -> Loss:
    real = labels != ignore
    if not hidden.is_cuda:  # to leave out padding saves work, but a GPU's host would have to wait for the number
        hidden, labels = hidden[:, real], labels[real]
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
        hidden, weight = hidden.to(dtype), weight.to(dtype)
    differentiable = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    sums = Projected.apply(hidden, weight, labels, visit, differentiable)  # type: ignore[no-untyped-call]
    return Loss(sums[0], real.sum(), sums[1].detach())


class Projected(torch.autograd.Function):
    """Some rows at a time: hidden (C, M, D), weight (V, D), labels (M,) -> objective and nll (2,)."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, visit: Visit, differentiable: bool) -> Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            exact = torch.promote_types(hidden.dtype, torch.float32)
            sums = torch.zeros(2, dtype=exact, device=hidden.device)
            words = weight.size(0)
            if weight.is_cuda and words % ALIGNED:  # rows of zeros, whose scores nobody reads: their gradients are zero
                weight = F.pad(weight, (0, 0, 0, -words % ALIGNED))
            dh, dw = torch.empty_like(hidden), torch.zeros_like(weight, dtype=exact)
            rows = max(1, AT_ONCE.get(hidden.device.type, 2**24) // (weight.size(0) * hidden.size(0)))
            for h, y, out in zip(hidden.split(rows, 1), labels.split(rows), dh.split(rows, 1), strict=True):
                z = F.linear(h, weight)
                sums += visit(z[..., :words], y)
                if differentiable:
                    out.copy_(z @ weight)
                    flat, before = z.flatten(0, 1).T, h.flatten(0, 1)
                    dw.addmm_(flat, before) if dw.dtype == z.dtype else dw.add_(flat @ before)
        ctx.save_for_backward(dh, dw[:words])
        return sums

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        dh, dw = ctx.saved_tensors
        scale = gradients[0][0]  # of the objective; nobody differentiates the likelihood
        return dh * scale.to(dh.dtype), dw * scale, None, None, None


def smoothed(z: Tensor, labels: Tensor, smoothing: float, ignore: int) -> Tensor:
    """Cross-entropy with label smoothing of z (1, M, V): dL/dz = p - q."""
    if z.is_cuda and kernels_available():
        from regard.losses.rows import visit_rows

        return visit_rows(z, labels, smoothing, ignore)
    real, places = labels != ignore, labels[:, None]
    log_p = torch.log_softmax(z[0], dim=-1, dtype=torch.promote_types(z.dtype, torch.float32))
    nll = -(log_p.gather(1, places)[:, 0] * real).sum()
    uniform = -(log_p.mean(dim=-1) * real).sum() if smoothing else nll
    dz = log_p.exp_().sub_(smoothing / z.size(-1))
    dz.scatter_add_(1, places, torch.full_like(places, smoothing - 1, dtype=dz.dtype))
    torch.mul(dz, real[:, None], out=z[0]) if z.dtype == dz.dtype else z.copy_(dz * real[:, None])
    return torch.stack([(1 - smoothing) * nll + smoothing * uniform, nll])


def paired(z: Tensor, labels: Tensor, smoothing: float, strength: float, ignore: int) -> Tensor:
    """R-Drop of z (2, M, V), whose softmaxes are p and r:

    L = 1/2 [ CE(p) + CE(r) ] + strength/4 [ KL(p || r) + KL(r || p) ]
    d KL(p || r) / dz_p = p (log p/r - KL(p || r)),    d KL(r || p) / dz_p = p - r
    """
    if z.is_cuda and kernels_available():
        from regard.losses.rows import visit_pairs

        return visit_pairs(z, labels, smoothing, strength, ignore)
    real, places = (labels != ignore)[:, None], labels[None, :, None].expand(2, -1, 1)
    log_p = torch.log_softmax(z, dim=-1, dtype=torch.promote_types(z.dtype, torch.float32))
    p, log_r = log_p.exp(), log_p.flip(0)  # each pass, and the other one
    apart = log_p - log_r
    divergence = (p * apart).sum(dim=-1, keepdim=True)
    nll = -(log_p.gather(2, places) * real).sum() / 2
    uniform = -(log_p.mean(dim=-1, keepdim=True) * real).sum() / 2
    dz = p - smoothing / z.size(-1) + strength / 2 * (p * (apart - divergence) + p - p.flip(0))
    dz.scatter_add_(2, places, torch.full_like(places, smoothing - 1, dtype=dz.dtype))
    z.copy_(dz * real / 2)
    objective = (1 - smoothing) * nll + smoothing * uniform + strength / 4 * (divergence * real).sum()
    return torch.stack([objective, nll])
