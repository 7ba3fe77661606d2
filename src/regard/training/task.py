"""What training asks of a task and of its data. Whoever offers these can be trained; no task is named here."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn


class Batch(Protocol):
    """Tensors that can be moved to a device."""

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """All tensors by name. A recorded step copies the tensors of the next batch over those of the first one."""
        ...

    def to(self, device: torch.device) -> Self:
        """The same batch on `device`."""
        ...


B = TypeVar("B", bound=Batch)
B_co = TypeVar("B_co", bound=Batch, covariant=True)
B_contra = TypeVar("B_contra", bound=Batch, contravariant=True)


class Loss(Protocol):
    """Sums over the real target tokens of one batch: they are divided once, by the tokens of the whole step."""

    @property
    def sum(self) -> Tensor:
        """The objective: what is differentiated."""
        ...

    @property
    def nll(self) -> Tensor:
        """Plain negative log-likelihood in nats, without smoothing or penalties: perplexity is exp(nll / count)."""
        ...


class Sample(NamedTuple):
    """One validation example, for people to read."""

    source: str
    reference: str
    output: str


@dataclass(frozen=True)
class Validation:
    """What a validation found: metrics by name, and a few samples."""

    metrics: dict[str, float]
    samples: Sequence[tuple[str, str, str]] = field(default_factory=list)


class Task(Protocol[B_contra]):
    """What is learned: a loss to descend, and a validation to judge by."""

    def loss(self, model: nn.Module, batch: B_contra) -> Loss:
        """The training objective on one batch; `model` is called through its `forward` alone."""
        ...

    def validate(self, model: nn.Module) -> Validation:
        """Judge the model, which is in evaluation mode and without gradients, on data it does not learn from."""
        ...


@runtime_checkable
class Carrying(Protocol):
    """A task whose batches continue one another: what the model remembers between them is part of the training.

    Rank r computes the parts r * accumulation and on of every step, and each remembers for itself.
    """

    carried: dict[str, Tensor]
    """By `part.name`, the parts of this process alone. The task fills it; resuming fills it before the first batch."""


def carried_by(task: Any) -> dict[str, Tensor]:
    """What a task carries from batch to batch, the very dictionary; an empty one for a task that carries nothing."""
    return task.carried if isinstance(task, Carrying) else {}


class Step(Protocol[B_co]):
    """This process's share of one optimizer step, and the size of the whole."""

    @property
    def micro_batches(self) -> Sequence[B_co]:
        """The batches this process computes, one after another; as many on every rank."""
        ...

    @property
    def count(self) -> int:
        """Real target tokens of the step over all ranks and micro-batches: the same number on every rank."""
        ...

    @property
    def tokens(self) -> int:
        """Real source and target tokens of the step over all ranks: what throughput counts."""
        ...

    @property
    def epoch(self) -> float:
        """Passes over the data completed before this step."""
        ...


Steps: TypeAlias = Callable[[int], Iterator[Step[B]]]
"""`steps(n)` is the stream of steps from the n-th on, counted from 0; it depends on the seed and n alone."""
