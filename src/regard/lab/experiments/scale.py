"""The factor 1 / sqrt(d): without it wide heads attend to one key from the start, and their scores get no gradient.

If the components of a query q and a key k are independent with variance 1, q^T k is a sum of d products and has
variance d. The differences between scores grow as sqrt(d), and the softmax of them goes to 0 and 1. Its Jacobian is

    d a_i / d e_j = a_i ([i = j] - a_j),    trace = sum_i a_i (1 - a_i) = 1 - sum_i a_i^2

which is 0 for weights of 0 and 1: the scores learn nothing. The first two panels compute this for random queries and
keys. exp(H), with H the entropy of the weights, is the number of keys that attention effectively has. The last panel
trains one head of several widths to report the previous word, in a model whose width stays the same.
"""

import statistics
from functools import partial

import torch
from torch import Tensor

from regard.attention.scores import dot, scaled_dot
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import OneHead, fit_toy, generator_of, previous_words, seeded, tagging_loss

WORDS, LENGTH = 16, 12


def softmax_statistics(scores: Tensor) -> tuple[float, float]:
    """scores (T, S) -> effective keys exp(H) and trace of the softmax's Jacobian, each a mean over the rows."""
    log_p = scores.log_softmax(dim=-1)
    p = log_p.exp()
    entropy = -(p * log_p).sum(dim=-1)
    return float(entropy.exp().mean()), float(1 - p.square().sum(dim=-1).mean())


def measure(seed: int, effort: Effort, record: Record) -> None:
    batch = partial(previous_words, words=WORDS, length=LENGTH)
    for score, equation in (("dot", dot), ("scaled_dot", scaled_dot)):
        for width in (4, 16, 64, 256, 1024):
            generator = generator_of(seed, "vectors", width)
            q, k = (torch.randn(rows, width, generator=generator) for rows in (500, 32))
            keys, trace = softmax_statistics(equation(q, k))
            record("keys", score, width, keys)
            record("gradient", score, width, trace)
        for width in effort.pick((8, 32, 128, 256, 512), (8, 256)):
            seeded(seed, "weights", width)
            model = OneHead(score, width, WORDS, LENGTH, width=32)
            losses = fit_toy(model, batch, tagging_loss, steps=100, rate=1e-2, seed=seed)
            record("loss", score, width, statistics.fmean(losses))


def judge(results: Results) -> Verdict:
    unscaled, scaled = (results.values("loss", score, 256) for score in ("dot", "scaled_dot"))
    return Verdict(decide(above(unscaled, scaled, by=0.2), above(scaled, unscaled)))
