"""Dot product or additive score: equal in the number of operations, but one of them is a matrix product.

    scaled dot   q_i^T k_j / sqrt(d)             Q K^T is one matrix product; n^2 numbers are kept for the gradient
    additive     v^T tanh(W q_i + U k_j)         a tanh for every pair and hidden unit; n^2 d numbers are kept

Both need about n^2 d multiplications, or tanh, for n positions. But a matrix product runs through optimized kernels,
and the additive score has to hold the hidden layer of all pairs. The memory is counted exactly: all tensors that
autograd keeps for the backward pass. The last panel trains one head of several widths to report the previous word:
there the dot product suffers without its scale.
"""

import statistics
from functools import partial

import torch
from torch import Tensor

from regard.attention.scored_attention import ScoredAttention
from regard.attention.scoring import SCORINGS
from regard.lab.costs import fastest, saved_bytes
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import OneHead, fit_toy, generator_of, previous_words, seeded, tagging_loss

WORDS, LENGTH, WIDTH, HEAD = 16, 12, 32, 32
COSTS = ("scaled_dot", "additive")


def attention_costs(score: str, length: int, seed: int) -> tuple[float, int]:
    """CPU milliseconds of attention of `length` positions, and the bytes that it keeps for the backward pass."""
    seeded(seed, "weights", score)
    attention = ScoredAttention(SCORINGS[score](HEAD, HEAD, HEAD))
    generator = generator_of(seed, "vectors", length)
    q, k, v = (torch.randn(1, 1, length, HEAD, generator=generator).requires_grad_() for _ in range(3))
    distances = torch.zeros(length, length)

    def run() -> Tensor:
        return attention(q, attention.keys(k), v, distances, None, 0.0)[0]

    size = saved_bytes(run)
    with torch.no_grad():
        return 1000 * fastest(run, repeats=3), size


def measure(seed: int, effort: Effort, record: Record) -> None:
    batch = partial(previous_words, words=WORDS, length=LENGTH)
    for score in COSTS:
        for length in effort.pick((64, 128, 256, 512, 1024), (64, 256)):
            milliseconds, size = attention_costs(score, length, seed)
            record("time", score, length, milliseconds)
            record("memory", score, length, size)
    for score in ("dot", *COSTS):
        for width in effort.pick((4, 16, 64, 256), (4, 256)):
            seeded(seed, "weights", width)
            steps = effort.pick(100, 25)
            model = OneHead(score, width, WORDS, LENGTH, WIDTH)
            losses = fit_toy(model, batch, tagging_loss, steps=steps, rate=1e-2, seed=seed)
            record("loss", score, width, statistics.fmean(losses))


def judge(results: Results) -> Verdict:
    lengths = [float(x) for x in results.xs("time", "additive")]
    time, memory = (
        [
            slow / fast
            for fast, slow in zip(*(results.values(panel, score, lengths[-1]) for score in COSTS), strict=True)
        ]
        for panel in ("time", "memory")
    )
    return Verdict(
        decide(above([*time, *memory], [1.5]), above([1.0], time) or above([1.0], memory)),
        {"length": lengths[-1], "slower": statistics.fmean(time), "larger": statistics.fmean(memory), "wide": 256},
    )
