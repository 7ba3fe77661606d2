"""Connectionist temporal classification (CTC): a text's probability, summed over its alignments (Graves et al. 2006).

At every position t the model predicts a token or a blank. A path is a token or blank for each position. It writes the
text that is left if repeated tokens are merged and then blanks removed: a a _ a b b -> a a b. So

    p(y | x) = sum over all paths that write y of product_t p_t(path_t)

The paths of y pass through the states l = _ y_1 _ y_2 ... y_U _ from left to right, and alpha_t(s) is the probability
of all beginnings of paths that are in state s at t (equations 5 to 8):

    alpha_1(1) = p_1(_),   alpha_1(2) = p_1(y_1)
    alpha_t(s) = [alpha_(t-1)(s) + alpha_(t-1)(s-1) + alpha_(t-1)(s-2)] p_t(l_s)
    p(y | x)   = alpha_T(2U + 1) + alpha_T(2U)

The third term, which skips a blank, is there only if l_s is a token and not the same token as l_(s-2). All is computed
with logarithms.

B texts, T positions, U tokens of the longest text, K = 2U + 1 states, V vocabulary with the blank.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.attend import to_float32
from regard.losses.crossentropy import Loss

NEVER = -1e30
"""The logarithm of a probability of zero: finite, so that its gradient is zero and not NaN."""


def states(targets: Tensor, blank: int) -> Tensor:
    """Texts (B, U) -> l (B, K): a blank before, between and after the tokens."""
    spread = targets.new_full((len(targets), 2 * targets.size(1) + 1), blank)
    spread[:, 1::2] = targets
    return spread


def path_log_probability(emissions: Tensor, labels: Tensor, lengths: Tensor, target_lengths: Tensor) -> Tensor:
    """log p(y | x), (B,), by the forward algorithm: the readable reference of `ctc_loss`.

    `emissions` (B, T, K) are log p_t(l_s) for the `labels` l (B, K). The gradient with respect to emissions[b, t, s] is
    the probability, given y, that the path is in state s at position t.
    """
    # A blank is skipped on the way to a token, unless the token is the same as the one before.
    skips = F.pad(labels[:, 2:] != labels[:, :-2], (2, 0))[:, : labels.size(1)]
    first = torch.arange(labels.size(1), device=labels.device) < 2
    alpha = torch.where(first, emissions[:, 0], NEVER)  # (B, K)
    rows = [alpha]
    for t in range(1, emissions.size(1)):
        one = F.pad(alpha, (1, 0), value=NEVER)[:, :-1]
        two = torch.where(skips, F.pad(alpha, (2, 0), value=NEVER)[:, :-2], NEVER)
        alpha = torch.stack([alpha, one, two]).logsumexp(dim=0) + emissions[:, t]
        rows.append(alpha)
    batch = torch.arange(len(labels), device=labels.device)
    last = torch.stack(rows, dim=1)[batch, lengths - 1]  # (B, K)
    final = last.gather(1, 2 * target_lengths[:, None])[:, 0]
    before = last.gather(1, (2 * target_lengths[:, None] - 1).clamp(min=0))[:, 0]
    return torch.logaddexp(final, before.masked_fill(target_lengths == 0, NEVER))


def state_posteriors(log_p: Tensor, target: Tensor, blank: int) -> Tensor:
    """log p_t (T, V) and a text (U,) -> (T, K): the probability of each state at each position, given the text."""
    labels = states(target[None], blank)
    with torch.enable_grad():
        emissions = log_p[None, :, labels[0]].detach().double().requires_grad_()
        sizes = (torch.tensor([size], device=log_p.device) for size in (len(log_p), len(target)))
        (gradient,) = torch.autograd.grad(path_log_probability(emissions, labels, *sizes).sum(), emissions)
    return gradient[0]


def ctc_loss(logits: Tensor, lengths: Tensor, labels: Tensor, blank: int) -> Loss:
    """-log p(y | x) of logits (B, T, V) against labels (B, U + 1), summed, and their number; by torch's function.

    A row of labels is a text and its end symbol, which has no path here, and is filled up with blanks. A row of blanks
    only does not count. A text without a path, because it has more tokens than positions, has a loss of zero.
    """
    log_p = to_float32(logits).log_softmax(dim=-1).transpose(0, 1)  # (T, B, V)
    sizes = (labels != blank).sum(dim=1)
    texts = labels.masked_fill(torch.arange(labels.size(1), device=labels.device) >= sizes[:, None] - 1, blank)
    nll = F.ctc_loss(log_p, texts, lengths, (sizes - 1).clamp(min=0), blank, reduction="none", zero_infinity=True)
    total = (nll * (sizes > 0)).sum()
    return Loss(total, sizes.sum(), total.detach())
