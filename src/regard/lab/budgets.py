"""Learning rates and training lengths, so that no verdict rests on one of each.

best_rate(loss, rates)     the rate with the lowest loss for `VALIDATION_SEED`, which no verdict uses
watched(loss, at, look)    a loss that also looks at the model before the given steps: one training, many budgets
"""

from collections.abc import Callable, Collection, Sequence

import torch
from torch import nn

from regard.errors import UserError
from regard.lab.toys import ToyLoss, ToyTensors
from regard.losses.crossentropy import Loss

VALIDATION_SEED = 1000
"""The seed that chooses learning rates."""


def best_rate(loss: Callable[[int, float], float], rates: Sequence[float]) -> float:
    """The rate at which `loss(seed, rate)` is lowest, with the validation seed; a rate that diverges is out."""
    return min(rates, key=lambda rate: loss_or_infinity(lambda: loss(VALIDATION_SEED, rate)))


def loss_or_infinity(loss: Callable[[], float]) -> float:
    """The loss of a training, infinite if it diverged."""
    try:
        return loss()
    except UserError as error:
        if error.code != "diverged":
            raise
        return float("inf")


def watched(loss: ToyLoss, at: Collection[int], look: Callable[[int, nn.Module], None]) -> ToyLoss:
    """`loss`, which calls look(step, model) in evaluation mode when this many steps are done."""
    done = -1

    def watch(model: nn.Module, batch: ToyTensors) -> Loss:
        nonlocal done
        done += 1
        if done in at:
            training = model.training
            with torch.no_grad():
                look(done, model.eval())
            model.train(training)
        return loss(model, batch)

    return watch
