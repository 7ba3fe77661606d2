"""Losses of an output projection without all logits in memory.

    L = loss(h W^T, y),    dL/dh = dL/dz W,    dL/dW = (dL/dz)^T h,    z = h W^T

The logits of a batch of 25,000 tokens over a vocabulary of 32,000 take 1.6 GB in bf16, more than all else of the last
layers. But each row is needed only once, to compute its own gradient. So the logits of a few thousand rows are computed
at a time, turned into dL/dz in place, multiplied by W and h, and discarded. The gradient is ready with the loss;
backward only scales it.

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
from regard.losses.crossentropy import Loss, registered_loss

# Turns logits z (C, M, V) into dL/dz in place and returns the sums of the objective and of the nll, (2,).
GradientInPlace = Callable[[Tensor, Tensor], Tensor]
# Matrix products of 16-bit numbers are several times slower if rows of logits are not aligned to such a multiple.
ALIGNED = 64
# Logits in memory at a time: half a gigabyte in bf16 on a GPU, what fits a cache on a CPU.
MAX_LOGITS = {"cuda": 2**28, "cpu": 2**21}


def projected_loss(
    projection: OutputProjection, labels: Tensor, smoothing: float = 0.0, name: str = "cross_entropy"
) -> Loss:
    """Cross-entropy of the logits (*, V) of a projection against labels (*), or the registered loss `name` of them."""
    if name == "cross_entropy":
        return projected_cross_entropy(projection, labels, smoothing)
    return registered_loss(name, projection.logits(), labels)


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


def _projected(hidden: Tensor, weight: Tensor, labels: Tensor, visit: GradientInPlace, ignore: int) -> Loss:
    mask = labels != ignore
    if not hidden.is_cuda:  # dropping padding saves work; on a GPU the host would have to wait for the number
        hidden, labels = hidden[:, mask], labels[mask]
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
        hidden, weight = hidden.to(dtype), weight.to(dtype)
    differentiable = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    sums = Projected.apply(hidden, weight, labels, visit, differentiable)  # type: ignore[no-untyped-call]
    return Loss(sums[0], mask.sum(), sums[1].detach())


class Projected(torch.autograd.Function):
    """Loss and gradient by rows: hidden (C, M, D), weight (V, D), labels (M,) -> objective and nll (2,)."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, visit: GradientInPlace, differentiable: bool
    ) -> Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            exact = torch.promote_types(hidden.dtype, torch.float32)
            sums = torch.zeros(2, dtype=exact, device=hidden.device)
            vocabulary = weight.size(0)
            if weight.is_cuda and vocabulary % ALIGNED:  # rows of zeros; their logits are not used
                weight = F.pad(weight, (0, 0, 0, -vocabulary % ALIGNED))
            dh, dw = torch.empty_like(hidden), torch.zeros_like(weight, dtype=exact)
            rows = max(1, MAX_LOGITS.get(hidden.device.type, 2**24) // (weight.size(0) * hidden.size(0)))
            for h, y, out in zip(hidden.split(rows, 1), labels.split(rows), dh.split(rows, 1), strict=True):
                z = F.linear(h, weight)
                sums += visit(z[..., :vocabulary], y)
                if differentiable:
                    torch.mm(z[0], weight, out=out[0]) if len(z) == 1 else out.copy_(z @ weight)
                    _add_product(dw, z.flatten(0, 1).T, h.flatten(0, 1))
        ctx.save_for_backward(dh, dw[:vocabulary])
        return sums

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        dh, dw = ctx.saved_tensors
        scale = gradients[0][0]  # of the objective; the likelihood has no gradient
        return dh * scale.to(dh.dtype), dw * scale, None, None, None


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += a b, summed in total's type, which may be wider."""
    if total.dtype == a.dtype:
        total.addmm_(a, b)
    elif a.is_cuda:
        torch.addmm(total, a, b, out_dtype=total.dtype, out=total)
    else:
        total.add_(a @ b)


def smoothed(z: Tensor, labels: Tensor, smoothing: float, ignore: int) -> Tensor:
    """Cross-entropy with label smoothing of z (1, M, V): dL/dz = p - q."""
    if z.is_cuda and kernels_available():
        from regard.losses.rows import logits_to_gradient_

        return logits_to_gradient_(z, labels, smoothing, ignore)
    mask, index = labels != ignore, labels[:, None]
    log_p = torch.log_softmax(z[0], dim=-1, dtype=torch.promote_types(z.dtype, torch.float32))
    nll = -(log_p.gather(1, index)[:, 0] * mask).sum()
    uniform = -(log_p.mean(dim=-1) * mask).sum() if smoothing else nll
    dz = log_p.exp_().sub_(smoothing / z.size(-1))
    dz.scatter_add_(1, index, torch.full_like(index, smoothing - 1, dtype=dz.dtype))
    torch.mul(dz, mask[:, None], out=z[0]) if z.dtype == dz.dtype else z.copy_(dz * mask[:, None])
    return torch.stack([(1 - smoothing) * nll + smoothing * uniform, nll])


def paired(z: Tensor, labels: Tensor, smoothing: float, strength: float, ignore: int) -> Tensor:
    """R-Drop of z (2, M, V), whose softmaxes are p and r:

    L = 1/2 [ CE(p) + CE(r) ] + strength/4 [ KL(p || r) + KL(r || p) ]
    d KL(p || r) / dz_p = p (log p/r - KL(p || r)),    d KL(r || p) / dz_p = p - r
    """
    if z.is_cuda and kernels_available():
        from regard.losses.rows import paired_logits_to_gradient_

        return paired_logits_to_gradient_(z, labels, smoothing, strength, ignore)
    mask, index = (labels != ignore)[:, None], labels[None, :, None].expand(2, -1, 1)
    log_p = torch.log_softmax(z, dim=-1, dtype=torch.promote_types(z.dtype, torch.float32))
    p, log_r = log_p.exp(), log_p.flip(0)  # each pass, and the other pass
    ratio = log_p - log_r  # log p/r
    divergence = (p * ratio).sum(dim=-1, keepdim=True)
    nll = -(log_p.gather(2, index) * mask).sum() / 2
    uniform = -(log_p.mean(dim=-1, keepdim=True) * mask).sum() / 2
    dz = p - smoothing / z.size(-1) + strength / 2 * (p * (ratio - divergence) + p - p.flip(0))
    dz.scatter_add_(2, index, torch.full_like(index, smoothing - 1, dtype=dz.dtype))
    z.copy_(dz * mask / 2)
    objective = (1 - smoothing) * nll + smoothing * uniform + strength / 4 * (divergence * mask).sum()
    return torch.stack([objective, nll])
