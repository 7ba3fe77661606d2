"""Cross-entropy with label smoothing, and R-Drop on top of it.

    L = -sum_v q(v) log p(v),   q(v) = (1 - eps) [v = y] + eps / V      Szegedy et al. 2016; Vaswani et al. 2017, 5.4

Smoothing makes the model unsure on purpose: perplexity suffers, accuracy and BLEU gain.

M positions (any leading shape, flattened), V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Loss:
    """The objective summed over real positions, how many there were, and the plain negative log-likelihood sum."""

    sum: Tensor
    count: Tensor
    nll: Tensor


def cross_entropy(logits: Tensor, labels: Tensor, smoothing: float = 0.0, ignore: int = 0) -> Loss:
    """logits (*, V) against labels (*); positions labelled `ignore` (padding) do not count."""
    objective, nll = CrossEntropy.apply(logits.flatten(0, -2), labels.flatten(), smoothing, ignore)  # type: ignore[no-untyped-call]
    return Loss(objective, (labels != ignore).sum(), nll)


class CrossEntropy(torch.autograd.Function):
    """The sum over positions, with its gradient written down: dL / dlogits = p - q, belief minus truth.

    With log p(v) = z(v) - log sum exp z, the loss needs of each row of scores z only that logarithm, the label's score
    and the mean; so nothing of size (M, V) is kept but the scores themselves.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float, ignore: int) -> tuple[Tensor, Tensor]:
        z = logits.to(torch.promote_types(logits.dtype, torch.float32))
        total, real = z.logsumexp(dim=-1), labels != ignore  # (M,)
        nll = ((total - z.gather(1, labels[:, None])[:, 0]) * real).sum()
        uniform = ((total - z.mean(dim=-1)) * real).sum() if smoothing else torch.zeros_like(nll)
        ctx.save_for_backward(logits, labels, total)
        ctx.smoothing, ctx.ignore = smoothing, ignore
        ctx.mark_non_differentiable(nll)
        return (1 - smoothing) * nll + smoothing * uniform, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        logits, labels, total = ctx.saved_tensors
        weight = gradients[0] * (labels != ctx.ignore)  # (M,)
        p = logits.to(total.dtype, copy=True).sub_(total[:, None]).exp_()
        if ctx.smoothing:
            p -= ctx.smoothing / p.size(1)
        p.mul_(weight[:, None]).scatter_add_(1, labels[:, None], (weight * (ctx.smoothing - 1))[:, None])
        return p.to(logits.dtype), None, None, None


def r_drop(first: Tensor, second: Tensor, labels: Tensor, ignore: int = 0) -> Tensor:
    """How far two passes with different dropout disagree, summed over real positions (Liang et al. 2021, equation 2):

    1/2 [ KL(p_1 || p_2) + KL(p_2 || p_1) ]
    """
    log_p, log_q = (F.log_softmax(x.flatten(0, -2).float(), dim=-1) for x in (first, second))
    both = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(dim=-1)  # KL(p || q) + KL(q || p)
    return 0.5 * (both * (labels.flatten() != ignore)).sum()
