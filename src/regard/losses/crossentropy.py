"""Cross-entropy with label smoothing, and R-Drop on top of it.

    L = -sum_v q(v) log p(v),   q(v) = (1 - eps) [v = y] + eps / V      Szegedy et al. 2016; Vaswani et al. 2017, 5.4

Smoothing makes the model unsure on purpose: perplexity suffers, accuracy and BLEU gain.

M positions (any leading shape, flattened), V vocabulary.
"""

from dataclasses import dataclass

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
    logits, labels = logits.flatten(0, -2), labels.flatten()
    real = labels != ignore
    log_p = F.log_softmax(logits.float(), dim=-1)  # (M, V)
    nll = F.nll_loss(log_p, labels, ignore_index=ignore, reduction="sum")
    if smoothing == 0.0:
        return Loss(nll, real.sum(), nll.detach())
    uniform = -(log_p.mean(dim=-1) * real).sum()
    return Loss((1 - smoothing) * nll + smoothing * uniform, real.sum(), nll.detach())


def r_drop(first: Tensor, second: Tensor, labels: Tensor, ignore: int = 0) -> Tensor:
    """How far two passes with different dropout disagree, summed over real positions (Liang et al. 2021, equation 2):

    1/2 [ KL(p_1 || p_2) + KL(p_2 || p_1) ]
    """
    log_p, log_q = (F.log_softmax(x.flatten(0, -2).float(), dim=-1) for x in (first, second))
    both = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(dim=-1)  # KL(p || q) + KL(q || p)
    return 0.5 * (both * (labels.flatten() != ignore)).sum()
