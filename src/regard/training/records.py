"""What there is to say about a run in training, and who may be told: the values, and the protocol of a log."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class TrainRecord:
    """The steps since the last record, in means over their target tokens."""

    step: int
    epoch: float
    loss: float
    nll: float
    learning_rate: float
    gradient_norm: float
    tokens: int
    """Real source and target tokens since the run began."""
    tokens_per_second: float
    seconds: float
    seconds_left: float

    @property
    def perplexity(self) -> float:
        """exp(nll): among how many equally likely tokens the model still hesitates."""
        return math.exp(min(self.nll, 700.0))


@dataclass(frozen=True)
class ValidationRecord:
    """One validation: what it measured, whether it is the best so far, and samples to read."""

    step: int
    metrics: dict[str, float]
    best: bool
    seconds: float
    samples: Sequence[tuple[str, str, str]] = ()


class Log(Protocol):
    """Who listens to a run. Rank 0 alone speaks."""

    def begin(self, step: int, max_steps: int) -> None:
        """Training is about to go on after `step`."""
        ...

    def step(self, number: int) -> None:
        """One step was trained; what it was like is told by the next `train`."""
        ...

    def train(self, record: TrainRecord) -> None:
        """Some steps were trained."""
        ...

    def validation(self, record: ValidationRecord) -> None:
        """The model was validated."""
        ...

    def note(self, text: str) -> None:
        """Something the user should know."""
        ...

    def end(self) -> None:
        """Training is over, in whatever way."""
        ...
