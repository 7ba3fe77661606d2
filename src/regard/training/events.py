"""Events of a training run, and the protocol of a log that receives them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True)
class TrainingStarted:
    """Training starts, or resumes after `step`."""

    step: int
    max_steps: int


@dataclass(frozen=True)
class StepCompleted:
    """One optimizer step was trained."""

    step: int


@dataclass(frozen=True)
class TrainRecord:
    """Metrics of the steps since the last record, averaged over their target tokens."""

    step: int
    epoch: float
    loss: float
    nll: float
    learning_rate: float
    gradient_norm: float
    tokens: int
    """Source and target tokens, without padding, since the start of the run."""
    tokens_per_second: float
    seconds: float
    seconds_left: float

    @property
    def perplexity(self) -> float:
        """exp(nll), the perplexity of a target token."""
        return math.exp(min(self.nll, 700.0))


@dataclass(frozen=True)
class ValidationRecord:
    """Metrics of one validation; `best` is True if it is the best one so far."""

    step: int
    metrics: dict[str, float]
    best: bool
    seconds: float
    samples: Sequence[tuple[str, str, str]] = ()


@dataclass(frozen=True)
class Note:
    """A message for the user."""

    text: str


@dataclass(frozen=True)
class TrainingEnded:
    """Training ended, was interrupted or failed."""


Event: TypeAlias = TrainingStarted | StepCompleted | TrainRecord | ValidationRecord | Note | TrainingEnded


class Log(Protocol):
    """A receiver of events; only rank 0 sends them. A log ignores the events that it does not need."""

    def log(self, event: Event) -> None:
        """Receive one event."""
