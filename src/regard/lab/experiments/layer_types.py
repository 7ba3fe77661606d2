"""Four kinds of layers in numbers: table 1 of the Transformer, measured.

                              complexity     sequential operations   path length
    self-attention            n^2 d          1                       1
    recurrent                 n d^2          n                       n
    convolution, kernel k     k n d^2        1                       n / k (log_k n if dilated)
    restricted to r           r n d          1                       n / r

n positions, d width. The paper counts the operation itself, without the projections of attention: that is what the
exponents of time and memory measure. Sequential operations are the longest chain in the graph that autograd records.
The path length is the number of layers, or of state updates of the recurrent one, until the gradient of the last output
with respect to the first input is not zero.

"Self-attention is faster than recurrence when n < d" compares n^2 d and n d^2. The last panel compares whole layers,
projections included, at n = d / 4, d / 2 and d: both are timed in turn, so that other programs slow both, and the
median of the ratios counts. A GRU step by step is the loop in Python; the fused one runs inside torch.
"""

import statistics
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.layouts import Padded
from regard.attention.multihead import MultiHeadAttention
from regard.attention.windowed import local_attention
from regard.lab.costs import exponent, fastest, longest_chain, saved_bytes, time_ratio
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import generator_of, seeded
from regard.layers.convolution import GatedConvolution
from regard.layers.recurrent import RecurrentLayer

KERNEL, WINDOW, WIDTH, LENGTH = 3, 16, 64, 512
SHORT = 128
"""Up to this length the GRU is computed step by step, so that its chain of operations can be counted."""
SHARES = (4, 2, 1)
"""n = d / share."""
ATTENTION, RECURRENT, CONVOLUTION, RESTRICTED = "self-attention", "recurrent", "convolution", "restricted"


def operation(kind: str, width: int) -> Callable[[Tensor], Tensor]:
    """The operation of a layer, (1, n, d) -> (1, n, d), with weights but without the projections of attention."""
    if kind == RECURRENT:
        layer = RecurrentLayer("gru", width, width)
        return lambda x: layer.read(x)[0] if x.size(1) <= SHORT else layer(x)[0]
    if kind == CONVOLUTION:
        return GatedConvolution(width, KERNEL, KERNEL // 2, dropout=0.0)
    if kind == RESTRICTED:
        return restricted
    return lambda x: attend(x, x, x)[0]


def restricted(x: Tensor) -> Tensor:
    """Attention to the positions at most WINDOW away, with one head."""
    heads = x[:, :, None]  # (1, n, 1, d)
    return local_attention(heads, heads, heads, torch.ones(x.shape[:2], dtype=torch.bool), WINDOW).flatten(2)


def self_attention(attention: MultiHeadAttention, x: Tensor) -> Tensor:
    """A whole layer of self-attention (B, n, d)."""
    layout = Padded(torch.full((x.size(0),), x.size(1)), x.size(1))
    return attention(x, x, layout.pattern(layout))


def path_length(kind: str, x: Tensor) -> int:
    """Layers, or state updates, until the last position depends on the first one of x (1, n, d)."""
    x = x.detach().double().requires_grad_()  # a gradient through many layers is tiny
    if kind == RECURRENT:
        layer = RecurrentLayer("gru", x.size(2), x.size(2)).double()
        inputs = layer.inputs(x)
        hidden = layer.step(inputs[:, 0], layer.initial_state(1))
        for t in range(1, x.size(1)):
            hidden = layer.step(inputs[:, t], hidden)
        assert torch.autograd.grad(hidden[0].sum(), x)[0][0, 0].any()
        return x.size(1) - 1
    y, layers = x, 0
    while True:
        run = operation(kind, x.size(2))
        y, layers = (run.double() if isinstance(run, nn.Module) else run)(y), layers + 1
        if torch.autograd.grad(y[0, -1].sum(), x, retain_graph=True)[0][0, 0].any():
            return layers


def measure_costs(kind: str, seed: int, effort: Effort, record: Record) -> None:
    """Time over n and over d, and memory over n."""
    lengths, widths = effort.pick((256, 512, 1024, 2048), (256, 1024)), effort.pick((128, 256, 512), (64, 256))
    seconds, memory = [], []
    for n, d in [(n, WIDTH) for n in lengths] + [(LENGTH, d) for d in widths]:
        seeded(seed, "weights", kind, d)
        run = operation(kind, d)
        x = torch.randn(1, n, d, generator=generator_of(seed, "x", n, d), requires_grad=True)
        memory.append(saved_bytes(partial(run, x)))
        with torch.no_grad():
            seconds.append(fastest(partial(run, x), repeats=3))
    count = len(lengths)
    for n, time in zip(lengths, seconds, strict=False):
        record("time", kind, n, 1000 * time)
    record("exponents", "time, n", kind, exponent(lengths, seconds[:count]))
    record("exponents", "time, d", kind, exponent(widths, seconds[count:]))
    record("exponents", "memory, n", kind, exponent(lengths, memory[:count]))


def measure_paths(kind: str, seed: int, effort: Effort, record: Record) -> None:
    """Longest chain of operations and path length over n."""
    lengths, chains, paths = effort.pick((16, 32, 64, 128), (16, 32, 64)), [], []
    for n in lengths:
        seeded(seed, "weights", kind)
        x = torch.randn(1, n, WIDTH, generator=generator_of(seed, "path", n), requires_grad=True)
        chains.append(longest_chain(operation(kind, WIDTH)(x)))
        paths.append(path_length(kind, x))
        record("sequential", kind, n, chains[-1])
        record("path", kind, n, paths[-1])
    record("exponents", "sequential, n", kind, exponent(lengths, chains))
    record("exponents", "path, n", kind, exponent(lengths, paths))


@torch.no_grad()
def measure_speed(seed: int, effort: Effort, record: Record) -> None:
    """Time of a GRU over that of a layer of self-attention, at most as many positions as the width."""
    for d in effort.pick((128, 256, 512), (32, 128)):
        seeded(seed, "weights", d)
        attention, gru = partial(self_attention, MultiHeadAttention(d, 4)), RecurrentLayer("gru", d, d)
        runs = (("fused GRU", 1, gru.forward), ("fused GRU, batch", 16, gru.forward), ("GRU step by step", 1, gru.read))
        for name, batch, recurrent in runs:
            for share in SHARES:
                x = torch.randn(batch, d // share, d, generator=generator_of(seed, "x", d, share))
                record(
                    "speed", name, f"d = {d}, n = d / {share}", time_ratio(partial(recurrent, x), partial(attention, x))
                )


def measure(seed: int, effort: Effort, record: Record) -> None:
    for kind in (ATTENTION, RECURRENT, CONVOLUTION, RESTRICTED):
        measure_costs(kind, seed, effort, record)
        measure_paths(kind, seed, effort, record)
    measure_speed(seed, effort, record)


def judge(results: Results) -> Verdict:
    """Confirmed if attention is faster in nine cells of ten, by the median over seeds; refuted if not in half."""
    cells = [
        statistics.median(results.values("speed", series, x))
        for series in results.series("speed")
        for x in results.xs("speed", series)
    ]
    faster = sum(ratio > 1 for ratio in cells)
    shorter = all(
        above(results.values("exponents", series, RECURRENT), results.values("exponents", series, ATTENTION), 0.5)
        for series in ("sequential, n", "path, n")
    )
    return Verdict(
        decide(faster >= 0.9 * len(cells), faster <= 0.5 * len(cells)),
        {"faster": faster, "cells": len(cells), "least": min(cells), "most": max(cells)},
        {"paths": decide(shorter, not shorter)},
    )
