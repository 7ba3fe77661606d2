"""The training loop: it knows neither the task nor the model, and resuming it is exact.

The gradient of a step is that of (the objective summed over all target tokens of the step) / (their count), however
the step is cut into ranks and micro-batches: one rank with four micro-batches computes what four ranks with one do.
"""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Generic, Literal

import torch
from torch import nn

from regard.errors import UserError
from regard.runtime import World, autocast
from regard.training.checkpoint import Checkpoints
from regard.training.distributed import agree, from_main, unwrap
from regard.training.interruption import Interruption
from regard.training.records import Log, TrainRecord, ValidationRecord
from regard.training.schedule import Schedule
from regard.training.settings import TrainingSettings, improves
from regard.training.state import TrainingState
from regard.training.stepping import as_written, choose_stepping
from regard.training.task import B, Step, Steps, Task, Validation, carried_by

Reason = Literal["max_steps", "max_epochs", "max_minutes", "patience", "interrupted", "no more data"]


@dataclass(frozen=True)
class Outcome:
    """How a run ended: after which step and why, the best score and its step, and the last validation's metrics."""

    step: int
    reason: Reason
    best: float | None
    best_step: int | None
    metrics: dict[str, float]


def fit(
    task: Task[B],
    model: nn.Module,
    steps: Steps[B],
    settings: TrainingSettings,
    world: World,
    checkpoints: Checkpoints,
    log: Log,
    schedule: Schedule,
) -> Outcome:
    """Train `model`, as `place` returned it, to the first bound; go on from the newest checkpoint if there is one."""
    run = _Run(task, model, settings, world, checkpoints, log, schedule)
    with run.opened() as interruption, closing(_closable(steps(run.progress.step))) as stream:
        reason: Reason = "no more data"
        for step in stream:
            stop = run.reason_to_stop(step, interruption.requested)
            if stop:
                reason = stop
                break
            run.train(step)
            run.tell_step()
            if run.due(settings.log_every):
                run.report()
            improved = run.due(settings.validate_every) and run.validate()
            if improved or run.due(settings.checkpoint_every or settings.validate_every):
                run.save()
        run.finish(reason)
    progress = run.progress
    return Outcome(progress.step, reason, progress.best, progress.best_step, progress.metrics)


class _Run(Generic[B]):
    """The verbs of the loop, over the state they change."""

    def __init__(
        self,
        task: Task[B],
        model: nn.Module,
        settings: TrainingSettings,
        world: World,
        checkpoints: Checkpoints,
        log: Log,
        schedule: Schedule,
    ) -> None:
        self.task, self.model, self.settings, self.world = task, model, settings, world
        self.checkpoints, self.log, self.schedule = checkpoints, log, schedule
        self.state = TrainingState(unwrap(model), settings, world, carried_by(task))
        self.remarks = self.state.resume(checkpoints)
        self.progress, self.window = self.state.progress, self.state.window
        self.norm = torch.zeros(())
        self.take = choose_stepping(task, model, self.state, settings, world)
        self._first_step, self._seconds_before = self.progress.step, self.progress.seconds
        self._began = time.monotonic()

    @contextmanager
    def opened(self) -> Iterator[Interruption]:
        """Tell the log when training begins and that it is over, and take Ctrl-C as a request."""
        self._tell(lambda log: log.begin(self.progress.step, self.settings.max_steps))
        if self.remarks:
            self._tell(lambda log: log.note("\n".join(self.remarks)))
        self.model.train()
        try:
            with Interruption(patient=self.world.size > 1) as interruption:
                self.window.go_on()
                yield interruption
        finally:
            self._tell(lambda log: log.end())

    def due(self, every: int) -> bool:
        """Whether the step just trained is one of `every` so many."""
        return self.progress.step % every == 0

    def train(self, step: Step[B]) -> None:
        """One optimizer step, and one move of the average."""
        number = self.progress.step + 1
        sums, self.norm = self.take(step, self.schedule(number))
        if self.state.ema:
            self.state.ema.update(number)
        self.window.add(number, sums, self.norm, step.count, step.tokens)
        self.progress.step, self.progress.epoch = number, float(step.epoch)
        self.progress.tokens += step.tokens

    def reason_to_stop(self, step: Step[B], interrupted: bool) -> Reason | None:
        """Why `step` shall not be trained any more, the same on every rank; None to go on."""
        settings, progress = self.settings, self.progress
        self._tick()
        out_of_time = 0 < settings.max_minutes * 60 <= progress.seconds
        asked = agree(2 if interrupted else 1 if out_of_time else 0, self.world)
        if progress.step >= settings.max_steps:
            return "max_steps"
        if 0 < settings.max_epochs <= step.epoch:
            return "max_epochs"
        if settings.patience and progress.stale >= settings.patience:
            return "patience"
        return (None, "max_minutes", "interrupted")[asked]

    def tell_step(self) -> None:
        """Let whoever draws a bar move it."""
        self._tell(lambda log: log.step(self.progress.step))

    def report(self) -> None:
        """One line of the log about the steps since the last, and begin the next."""
        self._report()
        self.window.clear()

    def validate(self) -> bool:
        """Judge the weights to use, on rank 0 while the others wait; return whether they are the best so far."""
        self.window.pause()
        self.state.refuse_nonsense(self.checkpoints)
        found = from_main(self._judge() if self.world.is_main else Validation({}), self.world)
        score = self._monitored(found.metrics)
        progress = self.progress
        progress.metrics, progress.score, progress.validated_step = dict(found.metrics), score, progress.step
        improved = improves(self.settings.monitor, score, progress.best)
        if improved:
            progress.best, progress.best_step, progress.stale = score, progress.step, 0
        else:
            progress.stale += 1
        self._tick()
        samples = list(found.samples)[: self.settings.samples]
        record = ValidationRecord(progress.step, progress.metrics, improved, progress.seconds, samples)
        self._tell(lambda log: log.validation(record))
        self.window.go_on()
        return improved

    def save(self) -> None:
        """Write a checkpoint of the step just trained."""
        self.window.pause()
        self._tick()
        self.state.save(self.checkpoints)
        self.window.go_on()

    def finish(self, reason: Reason) -> None:
        """Leave the run complete: its last steps reported, judged and saved; when interrupted, only saved."""
        if reason != "interrupted":
            if self.window.count and self.progress.step > self._first_step:
                self._report()
            if self.progress.validated_step != self.progress.step:
                self.validate()
                self.state.forget_saved()
        self.save()

    def _judge(self) -> Validation:
        bare = self.state.model
        bare.eval()
        with self.state.averaged(), torch.no_grad(), autocast(self.world), as_written(self.world):
            found = self.task.validate(bare)
        self.model.train()
        return found

    def _monitored(self, metrics: dict[str, float]) -> float:
        if self.settings.monitor not in metrics:
            raise UserError(
                f"training.monitor is {self.settings.monitor!r}, which this task does not measure",
                f"write one of {', '.join(sorted(metrics))}",
            )
        return metrics[self.settings.monitor]

    def _report(self) -> None:
        self.window.pause()
        self.state.refuse_nonsense(self.checkpoints)
        self.window.fold(self.world)
        self._tick()
        progress, window = self.progress, self.window
        loss, nll = window.means()
        record = TrainRecord(
            step=progress.step,
            epoch=progress.epoch,
            loss=loss,
            nll=nll,
            learning_rate=self.schedule(progress.step),
            gradient_norm=float(self.norm),
            tokens=progress.tokens,
            tokens_per_second=window.tokens / max(window.seconds, 1e-9),
            seconds=progress.seconds,
            seconds_left=self._seconds_left(),
        )
        self._tell(lambda log: log.train(record))

    def _seconds_left(self) -> float:
        """How long the nearest bound is away, if everything goes on as fast as so far."""
        settings, progress = self.settings, self.progress
        shares = [progress.step / settings.max_steps]
        shares += [progress.epoch / settings.max_epochs] if settings.max_epochs else []
        shares += [progress.seconds / (60 * settings.max_minutes)] if settings.max_minutes else []
        share = min(1.0, max(shares))
        return progress.seconds * (1 - share) / share

    def _tick(self) -> None:
        self.progress.seconds = self._seconds_before + time.monotonic() - self._began

    def _tell(self, say: Callable[[Log], None]) -> None:
        if self.world.is_main:
            say(self.log)


def _closable(stream: Iterator[Step[B]]) -> Generator[Step[B], None, None]:
    """The same stream, which can be closed: a prefetching one then stops its work ahead."""
    yield from stream
