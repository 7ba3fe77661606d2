"""Cross-entropy with label smoothing, and R-Drop on top of it.

    L = -sum_v q(v) log p(v),   q(v) = (1 - eps) [v = y] + eps / V      Szegedy et al. 2016; Vaswani et al. 2017, 5.4

Smoothing makes the model unsure on purpose: perplexity suffers, accuracy and BLEU gain.

`*` any leading shape of positions, V vocabulary.
"""

from dataclasses import dataclass

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
    """logits (*, V) against labels (*); positions labelled `ignore` (padding) do not count.

    This is the page to read; training computes the same without ever holding all logits (projected.py).
    """
    exact = torch.promote_types(logits.dtype, torch.float32)
    log_p, real = F.log_softmax(logits, dim=-1, dtype=exact), labels != ignore
    nll = -(log_p.gather(-1, labels[..., None])[..., 0] * real).sum()
    uniform = -(log_p.mean(dim=-1) * real).sum()
    return Loss((1 - smoothing) * nll + smoothing * uniform, real.sum(), nll.detach())


def r_drop(first: Tensor, second: Tensor, labels: Tensor, ignore: int = 0) -> Tensor:
    """How far two passes with different dropout disagree, summed over real positions (Liang et al. 2021, equation 2):

    1/2 [ KL(p_1 || p_2) + KL(p_2 || p_1) ]
    """
    log_p, log_q = (F.log_softmax(x.flatten(0, -2).float(), dim=-1) for x in (first, second))
    both = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(dim=-1)  # KL(p || q) + KL(q || p)
    return 0.5 * (both * (labels.flatten() != ignore)).sum()
