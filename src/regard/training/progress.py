"""What a run must remember beside its weights, so that going on after any interruption changes nothing."""

import time
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.runtime import World
from regard.training.distributed import add_up, agree


@dataclass
class Progress:
    """How far training has come; written to a checkpoint's state.json."""

    step: int = 0
    epoch: float = 0.0
    tokens: int = 0
    seconds: float = 0.0
    monitor: str = ""
    """The metric that `best` and `score` are of."""
    best: float | None = None
    best_step: int | None = None
    stale: int = 0
    """Validations since the best one."""
    score: float | None = None
    """The monitored metric of the latest validation."""
    validated_step: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    window: dict[str, float] = field(default_factory=dict)
    """The sums of the log line that was being gathered."""

    def watch(self, monitor: str) -> None:
        """From now on `monitor` decides: the best of another metric is no mark to be compared with."""
        if self.monitor not in ("", monitor):
            self.best = self.best_step = self.score = None
            self.stale = 0
        self.monitor = monitor

    def to_json(self) -> dict[str, Any]:
        """Plain values; floats keep every bit."""
        return asdict(self)


class Window:
    """Sums since the last line of the log.

    They stay on the device, so that no step waits for them; they are part of a checkpoint, so that a line gathered
    across an interruption is the line an uninterrupted run would have written.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._first_bad = torch.zeros((), dtype=torch.int64, device=device)
        self.clear()

    def clear(self) -> None:
        """Begin a new line."""
        self._sums = torch.zeros(2, dtype=torch.float64, device=self._device)
        self.count = self.tokens = 0
        self.seconds = 0.0
        self.started = time.perf_counter()

    def add(self, number: int, sums: Tensor, norm: Tensor, count: int, tokens: int) -> None:
        """Take in step `number`: this rank's `sums` of objective and nll, and what the whole step counted."""
        bad = ~torch.isfinite(sums.sum() + norm)
        self._first_bad = torch.where(bad & (self._first_bad == 0), number, self._first_bad)
        self._sums += sums
        self.count += count
        self.tokens += tokens

    def pause(self) -> None:
        """Stop the clock for what is not training; the device's work so far is waited for."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        now = time.perf_counter()
        self.seconds += now - self.started
        self.started = now

    def go_on(self) -> None:
        """Let the clock run again."""
        self.started = time.perf_counter()

    def fold(self, world: World) -> None:
        """Gather the sums of all ranks on rank 0; the others keep zero, so that folding twice counts nothing twice."""
        total = add_up(self._sums, world)
        self._sums = total if world.is_main else torch.zeros_like(total)

    def first_bad(self, world: World) -> int:
        """The first step whose loss or gradient was not finite, on any rank; 0 if there was none."""
        return agree(int(self._first_bad), world)

    def means(self) -> tuple[float, float]:
        """Objective and nll per target token; on rank 0, after `fold`."""
        objective, nll = self._sums.tolist()
        return objective / max(1, self.count), nll / max(1, self.count)

    def to_json(self) -> dict[str, float]:
        """The sums as plain values, after `fold`."""
        objective, nll = self._sums.tolist()
        return {"objective": objective, "nll": nll, "count": self.count, "tokens": self.tokens, "seconds": self.seconds}

    def load(self, saved: dict[str, float], world: World) -> None:
        """Go on from saved sums; they are the whole world's, so rank 0 alone takes them."""
        self.clear()
        if saved and world.is_main:
            self._sums += torch.tensor([saved["objective"], saved["nll"]], dtype=torch.float64, device=self._device)
        self.count, self.tokens = int(saved.get("count", 0)), int(saved.get("tokens", 0))
        self.seconds = saved.get("seconds", 0.0)
