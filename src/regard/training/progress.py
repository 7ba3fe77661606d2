"""Progress of a run and the sums of its log lines; both are part of a checkpoint, so that resuming is exact."""

import math
import time
from dataclasses import asdict, dataclass, field

import torch
from torch import Tensor

from regard.errors import UserError
from regard.files import JsonObject
from regard.reading import check_dataclass
from regard.runtime import World
from regard.training.distributed import all_reduce_max, all_reduce_sum
from regard.training.settings import improves
from regard.training.task import Baseline

WINDOW = {"objective", "nll", "count", "tokens", "seconds"}
"""The sums of a log line."""
FALLING = 0.01
"""A validation loss that is lower by this share than that of the best checkpoint is falling."""
RANDOM_WEIGHTS = "random_weights"
"""The key of an import's checkpoint for the names of weights that were filled with random values."""


@dataclass
class TrainingProgress:
    """Progress of training; written to state.json of a checkpoint."""

    step: int = 0
    epoch: float = 0.0
    tokens: int = 0
    seconds: float = 0.0
    monitor: str = ""
    """The metric of `best` and `score`."""
    best: float | None = None
    best_step: int | None = None
    best_loss: float | None = None
    """The validation loss of the best checkpoint, which decides between equal scores."""
    bad_validations: int = 0
    """Validations since the best one, for early stopping."""
    not_learning: int = 0
    """Validations in a row that were no better than the baseline, from the last one on whose loss fell."""
    score: float | None = None
    """The monitored metric of the last validation."""
    validated_step: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    window: dict[str, float] = field(default_factory=dict)
    """The sums of the unfinished log line."""

    @classmethod
    def from_json(cls, values: JsonObject, where: str = "progress") -> "TrainingProgress":
        """Read what `to_json` returned, checked; an imported model has the names of its random weights beside it."""
        own = {name: value for name, value in values.items() if name != RANDOM_WEIGHTS}
        progress = check_dataclass(own, cls, where)
        window = progress.window
        counts = (progress.step, progress.tokens, progress.validated_step, progress.bad_validations)
        if (
            min(counts) < 0
            or not math.isfinite(progress.seconds)
            or (window and (window.keys() != WINDOW or not all(map(math.isfinite, window.values()))))
        ):
            raise UserError(f"{where} is damaged: it contains impossible numbers", code="damaged-file", where=where)
        if progress.best_loss is None and progress.best_step == progress.validated_step:
            progress.best_loss = progress.metrics.get("loss")
        return progress

    def set_monitor(self, monitor: str) -> None:
        """Set the monitored metric; the best score of another metric is discarded, since it cannot be compared."""
        if self.monitor not in ("", monitor):
            self.best = self.best_step = self.best_loss = self.score = None
            self.bad_validations = 0
        self.monitor = monitor

    def compare(self, baseline: Baseline | None, metrics: dict[str, float]) -> None:
        """Count validations without learning, before `record_validation`; a loss that still falls is learning."""
        before, loss = self.best_loss, metrics.get("loss")
        if baseline is None or baseline.is_beaten(metrics):
            self.not_learning = 0
        elif before is not None and loss is not None and loss < (1 - FALLING) * before:
            self.not_learning = 1
        else:
            self.not_learning += 1

    def record_validation(self, metrics: dict[str, float]) -> bool:
        """Record the metrics of this step; return True if its checkpoint is the best one so far.

        Of equal scores the one with the lower loss is better, and of equal losses the later one. If nothing but the
        step is better, the validation counts as one without improvement.
        """
        score, loss = metrics[self.monitor], metrics.get("loss")
        self.metrics, self.score, self.validated_step = dict(metrics), score, self.step
        tied, lower, same = score == self.best, False, True
        if loss is not None and self.best_loss is not None:
            lower, same = loss < self.best_loss, loss == self.best_loss
        better = improves(self.monitor, score, self.best) or (tied and lower)
        is_best = better or (tied and same)
        self.bad_validations = 0 if better else self.bad_validations + 1
        if is_best:
            self.best, self.best_step, self.best_loss = score, self.step, loss
        return is_best

    def to_json(self) -> JsonObject:
        """Return plain values; floats keep every bit."""
        return asdict(self)


class LogAccumulator:
    """Sums since the last line of the log.

    They stay on the device, so that no step waits for them. They are part of a checkpoint, so that a line across an
    interruption equals the line of an uninterrupted run.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._first_non_finite = torch.zeros((), dtype=torch.int64, device=device)
        self.clear()

    def clear(self) -> None:
        """Start a new line."""
        self._sums = torch.zeros(2, dtype=torch.float64, device=self._device)
        self.count = self.tokens = 0
        self.seconds = 0.0
        self.started = time.perf_counter()

    def add(self, number: int, sums: Tensor, norm: Tensor, count: int, tokens: int) -> None:
        """Add step `number`: this rank's `sums` of objective and nll, and the token counts of the whole step."""
        non_finite = ~torch.isfinite(sums.sum() + norm)
        self._first_non_finite = torch.where(non_finite & (self._first_non_finite == 0), number, self._first_non_finite)
        self._sums += sums
        self.count += count
        self.tokens += tokens

    def pause(self) -> None:
        """Stop the clock while something other than training runs; waits for the device."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        now = time.perf_counter()
        self.seconds += now - self.started
        self.started = now

    def resume(self) -> None:
        self.started = time.perf_counter()

    def reduce(self, world: World) -> None:
        """Sum over all ranks on rank 0; the others keep zero, so that a second call counts nothing twice."""
        total = all_reduce_sum(self._sums, world)
        self._sums = total if world.is_main else torch.zeros_like(total)

    def first_non_finite(self, world: World) -> int:
        """Return the first step with a non-finite loss or gradient on any rank; 0 if there is none."""
        return all_reduce_max(int(self._first_non_finite), world)

    def means(self) -> tuple[float, float]:
        """Return objective and nll per target token; on rank 0, after `reduce`."""
        objective, nll = self._sums.tolist()
        return objective / max(1, self.count), nll / max(1, self.count)

    def to_json(self) -> dict[str, float]:
        """Return the sums as plain values; after `reduce`."""
        objective, nll = self._sums.tolist()
        return {"objective": objective, "nll": nll, "count": self.count, "tokens": self.tokens, "seconds": self.seconds}

    def load(self, saved: dict[str, float], world: World) -> None:
        """Restore saved values; the loss sums are totals over all ranks, so only rank 0 loads them."""
        self.clear()
        if saved and world.is_main:
            self._sums += torch.tensor([saved["objective"], saved["nll"]], dtype=torch.float64, device=self._device)
        self.count, self.tokens = int(saved.get("count", 0)), int(saved.get("tokens", 0))
        self.seconds = saved.get("seconds", 0.0)
