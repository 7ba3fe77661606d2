"""REINFORCE: learning where to look from how well it went, for attention that draws its places (attention/hard.py).

What is raised is the expected log-likelihood of the target over the places s drawn, a lower bound of the likelihood
itself (Xu et al. 2015, equation 10; the estimator is Williams 1992):

    L       = E_s [ log p(y | s) ]  <=  log p(y)
    dL/dw   = E_s [ d log p(y | s)/dw  +  sum_t (R_t - b_t) d log p(s_t)/dw ]                       equation 11
    R_t     = sum_{u >= t} gamma^(u - t) log p(y_u | y_<u, s_<=u)

The first term is cross-entropy as ever. In the second a place is made likelier if the words from t on went better than
expected. Words before t cannot depend on s_t, and b_t may be anything that does not: leaving those out and taking this
away change no expectation, only how much a single draw strays from it. The sum minimised has that gradient:

    cross-entropy + sum_t [ -rho (R_t - b_t) log p(s_t)  -  eta H(s_t)  +  1/2 (R_t - b_t)^2 ]

with R_t - b_t a plain number in the first and b_t learning in the last. The entropy H keeps attention from settling on
one place before it knows better.

rho and eta are lambda_r and lambda_e of the paper, which does not give them; the values are those of the authors'
program. gamma = 1 is the equation above. A place matters most to the word it was drawn for, and the words after it are
mostly noise: a smaller gamma gives up a little truth for a calmer gradient. The paper's b is a running mean of
log p(y | s); here it is a function of the decoder's state (b_t), a parameter that is saved and resumed like any other.

B sentences, T positions, D model, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.layers.embeddings import OutputProjection
from regard.losses.crossentropy import Loss
from regard.losses.projected import AT_ONCE

STRENGTH, ENTROPY, DISCOUNT = 0.1, 0.002, 0.5  # rho, eta, gamma


def reinforce(
    loss: Loss,
    projection: OutputProjection,
    labels: Tensor,
    strength: float = STRENGTH,
    entropy: float = ENTROPY,
    discount: float = DISCOUNT,
    ignore: int = 0,
) -> Loss:
    """Add the REINFORCE terms of the samples of a projection to its loss.

    Where `loss` is the mean of several passes over the same sentences (R-Drop), labels (B, T) are those of one.
    """
    samples = projection.samples
    assert samples is not None, "the decoder sampled no alignments"
    hidden, weight = projection.without_bias()  # (B, T, D), (V, D)
    passes = len(hidden) // len(labels)
    labels = labels.repeat(passes, 1)
    rewards = log_likelihoods(hidden, weight, labels, ignore)  # (B, T)
    advantage = returns(rewards, discount) - samples.baseline
    terms = advantage.square() / 2 - strength * advantage.detach() * samples.log_p - entropy * samples.entropy
    return Loss(loss.sum + (terms * (labels != ignore)).sum() / passes, loss.count, loss.nll)


@torch.no_grad()
def log_likelihoods(hidden: Tensor, weight: Tensor, labels: Tensor, ignore: int = 0) -> Tensor:
    """log p(y_t) of every position (B, T), 0 where there is no label; scores are made for some rows at a time."""
    rows = max(1, AT_ONCE.get(hidden.device.type, 2**24) // weight.size(0))
    exact = torch.promote_types(hidden.dtype, torch.float32)
    found = []
    for h, y in zip(hidden.flatten(0, 1).split(rows), labels.flatten().split(rows), strict=True):
        log_p = F.linear(h, weight).log_softmax(dim=-1, dtype=exact)
        found.append(log_p.gather(1, y[:, None])[:, 0] * (y != ignore))
    return torch.cat(found).view(labels.shape)


def returns(rewards: Tensor, discount: float) -> Tensor:
    """R_t = sum_{u >= t} gamma^(u - t) r_u, (B, T) -> (B, T)."""
    places = torch.arange(rewards.size(1), dtype=rewards.dtype, device=rewards.device)
    later = places - places[:, None]  # (T, T): how long after t is u?
    shares = discount ** later.clamp(min=0) * (later >= 0)
    return (rewards[:, None] * shares).sum(dim=-1)
