"""Cross-entropy with label smoothing, and R-Drop on top of it.

    L = -sum_v q(v) log p(v),   q(v) = (1 - eps) [v = y] + eps / V      Szegedy et al. 2016; Vaswani et al. 2017, 5.4

Label smoothing makes the model less certain: perplexity gets worse, accuracy and BLEU better.

`*` any leading shape of positions, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.attend import to_float32
from regard.plugins import Registry

RowLoss = Callable[[Tensor, Tensor], Tensor]
"""The loss of every position: logits (N, V) in float32, labels (N,) -> (N,)."""


def negative_log_likelihood(logits: Tensor, labels: Tensor) -> Tensor:
    """-log p(y): logits (N, V), labels (N,) -> (N,)."""
    return F.cross_entropy(logits, labels, reduction="none")


LOSSES: Registry[RowLoss] = Registry("loss", {"cross_entropy": negative_log_likelihood})
"""The training objectives by their names in a recipe. The tasks compute cross-entropy themselves, with smoothing."""
L = TypeVar("L", bound=RowLoss)


def register_loss(name: str) -> Callable[[L], L]:
    """Add a training objective: use `@register_loss("name")` on a function (logits (N, V), labels (N,)) -> (N,)."""
    return LOSSES.adder(name)


@dataclass(frozen=True)
class Loss:
    """The objective summed over all labelled positions, their number, and the sum of the negative log-likelihood."""

    sum: Tensor
    count: Tensor
    nll: Tensor


def cross_entropy(logits: Tensor, labels: Tensor, smoothing: float = 0.0, ignore: int = 0) -> Loss:
    """logits (*, V) against labels (*); positions labelled `ignore` (padding) do not count.

    This is the reference; training computes the same without all logits in memory (projected.py).
    """
    log_p, mask = F.log_softmax(to_float32(logits), dim=-1), labels != ignore
    nll = -(log_p.gather(-1, labels.masked_fill(~mask, 0)[..., None])[..., 0] * mask).sum()
    uniform = -(log_p.mean(dim=-1) * mask).sum()
    return Loss((1 - smoothing) * nll + smoothing * uniform, mask.sum(), nll.detach())


def registered_loss(name: str, logits: Tensor, labels: Tensor, ignore: int = 0) -> Loss:
    """A loss of `LOSSES`: logits (*, V) against labels (*); positions labelled `ignore` do not count."""
    logits, labels = to_float32(logits.flatten(0, -2)), labels.flatten().long()
    mask = labels != ignore
    classes = labels.masked_fill(~mask, 0)
    zero = logits.new_zeros(())
    nll = torch.where(mask, negative_log_likelihood(logits, classes), zero).sum()
    return Loss(torch.where(mask, LOSSES[name](logits, classes), zero).sum(), mask.sum(), nll.detach())


def r_drop(first: Tensor, second: Tensor, labels: Tensor, ignore: int = 0) -> Tensor:
    """Divergence of two passes with different dropout, summed over labelled positions (Liang et al. 2021, equation 2):

    1/2 [ KL(p_1 || p_2) + KL(p_2 || p_1) ]
    """
    log_p, log_q = (F.log_softmax(x.flatten(0, -2).float(), dim=-1) for x in (first, second))
    both = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(dim=-1)  # KL(p || q) + KL(q || p)
    return 0.5 * (both * (labels.flatten() != ignore)).sum()
