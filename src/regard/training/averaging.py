"""Averages of weights: the exponential moving average in training, and the mean of several checkpoints.

Both remove the noise of single steps and mostly score better than the last weights.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.training.checkpoint import read_weights
from regard.training.sharding import local_part, part_like
from regard.training.weights import Tensors


def decay_at(step: int, decay: float) -> float:
    """min(decay, (1 + step) / (10 + step)): smaller at the start, so that the initial weights vanish soon."""
    return min(decay, (1 + step) / (10 + step))


class Ema:
    """shadow <- d · shadow + (1 - d) · weights after every step, with d = `decay_at(step)`; by parameter name."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._parameters = dict(model.named_parameters())
        self.shadow: dict[str, Tensor] = {name: p.detach().clone() for name, p in self._parameters.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Update the average with the weights after `step`."""
        weights = [local_part(parameter.detach()) for parameter in self._parameters.values()]
        shadow = [local_part(average) for average in self.shadow.values()]
        torch._foreach_lerp_(shadow, weights, 1 - decay_at(step, self.decay))

    @torch.no_grad()
    def load(self, weights: dict[str, Tensor]) -> None:
        """Restore a saved average; buffers and tied weights in `weights` are ignored."""
        for name, shadow in self.shadow.items():
            shadow.copy_(part_like(weights[name], shadow))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Give the model the averaged weights in this context; afterwards it has its own weights again, to the bit."""
        raw = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
        self._write(self.shadow)
        try:
            yield
        finally:
            self._write(raw)

    @torch.no_grad()
    def _write(self, weights: dict[str, Tensor]) -> None:
        for name, parameter in self._parameters.items():
            parameter.copy_(weights[name])


def average_checkpoints(paths: Sequence[Path]) -> Tensors:
    """Average every floating-point tensor, summed in float64; other tensors must be equal.

    Only one checkpoint is in memory at a time, beside the sum.
    """
    if not paths:
        raise UserError("the run has no checkpoints to average", "train the run first", code="no-checkpoint")
    first = read_weights(paths[0])
    sums = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in first.items()}
    for path in paths[1:]:
        weights = read_weights(path)
        for name in sorted(first.keys() | weights.keys()):
            shapes = [tuple(tensors[name].shape) if name in tensors else None for tensors in (first, weights)]
            if shapes[0] != shapes[1]:
                sizes = f"{name} is {shapes[1] or 'missing'} and {shapes[0] or 'missing'}"
                problem = f"{path} and {paths[0]} are checkpoints of different models: {sizes}"
                raise UserError(problem, "average checkpoints of one run", code="other-model", where=path)
        for name, tensor in weights.items():
            if tensor.is_floating_point():
                sums[name] += tensor
            elif not torch.equal(tensor, first[name]):
                reason = "which has no average because it is not a float tensor"
                problem = f"{path} and {paths[0]} differ in {name}, {reason}"
                raise UserError(problem, code="other-model", where=path)
    return {
        name: (total / len(paths)).to(first[name].dtype) if first[name].is_floating_point() else total
        for name, total in sums.items()
    }
