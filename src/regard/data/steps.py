"""The steps of training: what is computed before the weights move once, and the endless row of them, prepared ahead.

Which examples a step has is for the batches of a task to say, by its number and a seed alone (`batching.py`,
`columns.py`, `pretraining_batches.py`). From there on all tasks are alike.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from regard.data.prefetch import prefetch


@dataclass(frozen=True)
class Tensors:
    """A batch: tensors, and what is known of them."""

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def to(self, device: torch.device | str) -> Self:
        """The batch on `device`; a copy from pinned memory does not wait."""
        return self.each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin(self) -> Self:
        """The batch in page-locked memory, from where a GPU copies while it computes."""
        return self.each(lambda tensor: tensor.pin_memory())

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The batch with every tensor changed."""
        return replace(self, **{name: change(tensor) for name, tensor in self.tensors().items()})


@dataclass(frozen=True)
class Step:
    """One rank's share of a step, and the size of the whole step over all ranks."""

    micro: Sequence[Any]
    """A batch for each accumulation."""
    count: int
    """What is asked in the step (target tokens, hidden words, labels), by which its loss is divided."""
    tokens: int
    """All tokens of the step, for measuring speed."""
    epoch: int

    def pin(self) -> "Step":
        """The step in page-locked memory."""
        return replace(self, micro=[batch.pin() for batch in self.micro])


class Numbered(Protocol):
    """Steps by their numbers."""

    def batch(self, step: int) -> Step: ...


@dataclass(frozen=True)
class StepsAhead:
    """All steps from any number on, prepared by a thread while the step before is computed."""

    batches: Numbered
    pinned: bool

    def __call__(self, first: int) -> Generator[Step, None, None]:
        return prefetch(self._step(number) for number in count(first))

    def _step(self, number: int) -> Step:
        step = self.batches.batch(number)
        return step.pin() if self.pinned else step
