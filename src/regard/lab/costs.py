"""The cost of a computation: time, memory for the gradient, and how both grow."""

import math
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

LEAST_SECONDS = 0.002
"""A measurement calls a function often enough to take this long."""


def fastest(function: Callable[[], object], repeats: int = 5) -> float:
    """CPU seconds of one call: the smallest of several measurements, since other programs only make it slower."""
    calls, seconds = 1, measure(function, 1)
    while seconds < LEAST_SECONDS:
        calls *= 2
        seconds = measure(function, calls)
    return min(seconds, *(measure(function, calls) for _ in range(repeats - 1))) / calls


def time_ratio(first: Callable[[], object], second: Callable[[], object], repeats: int = 5) -> float:
    """CPU time of `first` over that of `second`: both in turn, several times, and the median of the ratios."""
    calls = [max(1, math.ceil(LEAST_SECONDS / max(measure(function, 2) / 2, 1e-7))) for function in (first, second)]
    ratios = [
        measure(first, calls[0]) / calls[0] / max(measure(second, calls[1]) / calls[1], 1e-9) for _ in range(repeats)
    ]
    return statistics.median(ratios)


def measure(function: Callable[[], object], calls: int) -> float:
    began = time.process_time()
    for _ in range(calls):
        function()
    return time.process_time() - began


def saved_bytes(function: Callable[[], Tensor]) -> int:
    """Bytes that autograd keeps for the backward pass; a tensor that is saved twice counts once."""
    storages: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        function()
    return sum(storages.values())


def exponent(xs: Sequence[float], ys: Sequence[float]) -> float:
    """p of the power law y = c x^p that fits best on logarithmic axes (least squares)."""
    u, v = [math.log(x) for x in xs], [math.log(y) for y in ys]
    mean_u, mean_v = math.fsum(u) / len(u), math.fsum(v) / len(v)
    covariance = math.fsum((a - mean_u) * (b - mean_v) for a, b in zip(u, v, strict=True))
    return covariance / math.fsum((a - mean_u) ** 2 for a in u)


def longest_chain(output: Tensor) -> int:
    """The number of operations that follow one another in the longest chain of the graph of `output`."""
    depths: dict[object, int] = {}
    stack: list[tuple[torch.autograd.graph.Node, bool]] = [(output.grad_fn, False)] if output.grad_fn else []
    while stack:
        node, visited = stack.pop()
        before = [parent for parent, _ in node.next_functions if parent is not None]
        if visited:
            depths[node] = 1 + max((depths[parent] for parent in before), default=0)
        elif node not in depths:
            stack.append((node, True))
            stack.extend((parent, False) for parent in before)
    return depths[output.grad_fn] if output.grad_fn else 0
