"""Protocols of training: what a task, its batches and its losses must offer. No task is named here."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from regard.training.settings import LOWER_IS_BETTER


class TrainingBatch(Protocol):
    """Tensors that can be moved to a device."""

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """All tensors by name. A CUDA graph copies the tensors of the next batch over those of the first one."""

    def to(self, device: torch.device) -> Self:
        """Return the batch on `device`."""


B = TypeVar("B", bound=TrainingBatch)
B_co = TypeVar("B_co", bound=TrainingBatch, covariant=True)
B_contra = TypeVar("B_contra", bound=TrainingBatch, contravariant=True)


class TrainingLoss(Protocol):
    """Sums over the target tokens of one batch, without padding; the loop divides by the tokens of the whole step."""

    @property
    def sum(self) -> Tensor:
        """The objective, which is differentiated."""

    @property
    def nll(self) -> Tensor:
        """Negative log-likelihood in nats, without label smoothing or penalties: perplexity is exp(nll / count)."""


class Sample(NamedTuple):
    """One validation example with the model's output, shown in the log."""

    source: str
    reference: str
    output: str


class Baseline(NamedTuple):
    """The score of a model that ignores its input; a model that learns is soon better."""

    name: str
    metric: str
    value: float
    margin: float = 0.0
    """The share of `value` by which a loss must be lower to count as better."""

    def is_beaten(self, metrics: Mapping[str, float]) -> bool:
        """True if a model with these validation metrics has learnt more than the baseline knows."""
        score = metrics.get(self.metric, math.inf)
        if self.metric in LOWER_IS_BETTER:
            return score < (1 - self.margin) * self.value
        return score > self.value + 1e-9


@dataclass(frozen=True)
class Validation:
    """Result of a validation: metrics by name, a few samples, and what a model without learning would reach."""

    metrics: dict[str, float]
    samples: Sequence[tuple[str, str, str]] = field(default_factory=list)
    baseline: Baseline | None = None
    remedy: str = ""
    """What to try if the model is no better than the baseline."""


class Trainable(Protocol[B_contra]):
    """A task that can be trained: it has a loss and a validation."""

    def loss(self, model: nn.Module, batch: B_contra) -> TrainingLoss:
        """Compute the training objective of one batch; DDP requires that `model` is called through `forward` only."""

    def validate(self, model: nn.Module) -> Validation:
        """Evaluate the model on the validation data; the caller has set eval() and no_grad()."""


@runtime_checkable
class Stateful(Protocol):
    """A task that carries recurrent state across batches (truncated BPTT); checkpoints include the state.

    Rank r computes the micro-batches r * accumulation, r * accumulation + 1, ... of every step; each has its own state.
    """

    recurrent_state: dict[str, Tensor]
    """By `micro-batch.name`, for the micro-batches of this process. The task writes it; resuming restores it."""


def recurrent_state_of(task: object) -> dict[str, Tensor]:
    """Return the dictionary itself of a stateful task, so that it can be filled; an empty one for other tasks."""
    return task.recurrent_state if isinstance(task, Stateful) else {}


class TrainingStep(Protocol[B_co]):
    """The share of one optimizer step that this process computes, and the size of the whole step."""

    @property
    def micro_batches(self) -> Sequence[B_co]:
        """The batches that this process computes one after another; every rank has equally many."""

    @property
    def count(self) -> int:
        """Target tokens of the step without padding, over all ranks and micro-batches; equal on every rank."""

    @property
    def tokens(self) -> int:
        """Source and target tokens of the step without padding, over all ranks; for the throughput."""

    @property
    def epoch(self) -> float:
        """Epochs completed before this step."""


Steps: TypeAlias = Callable[[int], Iterator[TrainingStep[B]]]
"""`steps(n)` yields the steps from number n on, counted from 0; they depend on the seed and n only."""
