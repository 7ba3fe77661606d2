"""REINFORCE for attention that samples its positions (attention/recurrent_attention.py).

The objective is the expected log-likelihood of the target over the sampled positions s, a lower bound of the
log-likelihood (Xu et al. 2015, equation 10; the estimator is Williams 1992):

    L       = E_s [ log p(y | s) ]  <=  log p(y)
    dL/dw   = E_s [ d log p(y | s)/dw  +  sum_t (R_t - b_t) d log p(s_t)/dw ]                       equation 11
    R_t     = sum_{u >= t} gamma^(u - t) log p(y_u | y_<u, s_<=u)

The first term is cross-entropy. The second makes a position more likely if the tokens from t on are predicted better
than expected. Tokens before t do not depend on s_t, and b_t does not either: leaving them out and subtracting b_t
change no expectation, only the variance. The minimised sum has that gradient:

    cross-entropy + sum_t [ -rho (R_t - b_t) log p(s_t)  -  eta H(s_t)  +  1/2 (R_t - b_t)^2 ]

R_t - b_t is a constant in the first term, and b_t learns in the last. The entropy H keeps attention from settling on
one position too early.

rho and eta are lambda_r and lambda_e of the paper, which does not give their values; those here are from the authors'
code. gamma = 1 is the equation above. A position matters most for the token it was sampled for, and later tokens
mostly add noise: a smaller gamma has some bias and less variance. In the paper b is a running mean of log p(y | s);
here it is a function of the decoder state (b_t), a parameter that is saved and resumed like any other.

B sentences, T positions, D model, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.attend import to_float32
from regard.layers.embeddings import OutputProjection
from regard.losses.crossentropy import Loss
from regard.losses.projected import MAX_LOGITS

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
    """log p(y_t) of every position (B, T), 0 where there is no label; computed for some rows at a time."""
    rows = max(1, MAX_LOGITS.get(hidden.device.type, 2**24) // weight.size(0))
    parts = []
    for h, y in zip(hidden.flatten(0, 1).split(rows), labels.flatten().split(rows), strict=True):
        log_p = to_float32(F.linear(h, weight)).log_softmax(dim=-1)
        parts.append(log_p.gather(1, y[:, None])[:, 0] * (y != ignore))
    return torch.cat(parts).view(labels.shape)


def returns(rewards: Tensor, discount: float) -> Tensor:
    """R_t = sum_{u >= t} gamma^(u - t) r_u, (B, T) -> (B, T)."""
    positions = torch.arange(rewards.size(1), dtype=rewards.dtype, device=rewards.device)
    delay = positions - positions[:, None]  # (T, T): u - t
    weights = discount ** delay.clamp(min=0) * (delay >= 0)
    return (rewards[:, None] * weights).sum(dim=-1)
