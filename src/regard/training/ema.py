"""A moving average of weights: it forgets the noise of the last steps and mostly scores better than each of them."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


def decay_at(step: int, decay: float) -> float:
    """min(decay, (1 + step) / (10 + step)): early on the average must follow quickly, or it keeps random weights."""
    return min(decay, (1 + step) / (10 + step))


class Ema:
    """shadow <- d · shadow + (1 - d) · weights after every step, with d = `decay_at(step)`; by parameter name."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._parameters = dict(model.named_parameters())
        self.shadow: dict[str, Tensor] = {name: p.detach().clone() for name, p in self._parameters.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights as they are after `step`."""
        weights = [parameter.detach() for parameter in self._parameters.values()]
        torch._foreach_lerp_(list(self.shadow.values()), weights, 1 - decay_at(step, self.decay))

    @torch.no_grad()
    def load(self, weights: dict[str, Tensor]) -> None:
        """Go on from an average that was saved; names it does not know are buffers or tied, and are left out."""
        for name, shadow in self.shadow.items():
            shadow.copy_(weights[name])

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Lend the average to the model; afterwards the model has its own weights again, to the bit."""
        own = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
        self._write(self.shadow)
        try:
            yield
        finally:
            self._write(own)

    @torch.no_grad()
    def _write(self, weights: dict[str, Tensor]) -> None:
        for name, parameter in self._parameters.items():
            parameter.copy_(weights[name])
