"""The training loop, for any task and model; a resumed run equals an uninterrupted one.

The loss of a step is (the objective summed over all target tokens of the step) / (their number). It does not depend on
the division into ranks and micro-batches: one rank with four micro-batches computes the same as four ranks with one.
"""

import math
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Generic, Literal

import torch
from torch import nn

from regard.errors import UserError
from regard.messages import Message, join_messages
from regard.runtime import World, autocast
from regard.training import events
from regard.training.advice import LossWatch
from regard.training.checkpoint import Checkpoints
from regard.training.distributed import Ranks, all_reduce_max, broadcast_from_rank0
from regard.training.interruption import Interruption
from regard.training.optimizer import Schedule
from regard.training.settings import TrainingSettings
from regard.training.state import TrainingState
from regard.training.stepping import build_train_step, without_compilation
from regard.training.task import B, Steps, Trainable, TrainingStep, Validation, recurrent_state_of
from regard.work import Work

Reason = Literal["max_steps", "max_epochs", "max_minutes", "patience", "not learning", "interrupted", "no more data"]

MAX_NOT_LEARNING = 2
"""Validations in a row that are no better than a baseline, before training stops."""
MIN_STEPS, MIN_SHARE = 100, 0.05
"""Optimizer steps, and share of all steps, before which a model is not compared with a baseline: many begin slowly."""


@dataclass(frozen=True)
class Outcome:
    """Result of a run: last step, reason to stop, best score and its step, metrics of the last validation."""

    step: int
    reason: Reason
    best: float | None
    best_step: int | None
    metrics: dict[str, float]


def fit(
    task: Trainable[B],
    model: nn.Module,
    steps: Steps[B],
    settings: TrainingSettings,
    world: World,
    checkpoints: Checkpoints,
    log: events.Log,
    schedule: Schedule,
) -> Outcome:
    """Train `model`, which `place` returned, until the first limit; resume from the newest checkpoint, if any."""
    run = _Loop(task, model, settings, world, checkpoints, log, schedule)
    with run.opened() as interruption, closing(_closable(steps(run.progress.step))) as stream:
        reason: Reason = "no more data"
        for step in stream:
            stop = run.reason_to_stop(step, interruption.requested)
            if stop:
                reason = stop
                break
            run.train(step)
            run.send(events.StepCompleted(run.progress.step))
            if run.due(settings.log_every):
                run.report()
            is_best = run.due(settings.validate_every) and run.validate()
            if is_best or run.due(settings.checkpoint_every or settings.validate_every):
                run.save()
        run.finish(reason)
    progress = run.progress
    return Outcome(progress.step, reason, progress.best, progress.best_step, progress.metrics)


class _Loop(Generic[B]):
    """The operations of the loop and the state that they change."""

    def __init__(
        self,
        task: Trainable[B],
        model: nn.Module,
        settings: TrainingSettings,
        world: World,
        checkpoints: Checkpoints,
        log: events.Log,
        schedule: Schedule,
    ) -> None:
        self.task, self.model, self.settings, self.world = task, model, settings, world
        self.checkpoints, self.log, self.schedule = checkpoints, log, schedule
        self.state = TrainingState(model, settings, world, recurrent_state_of(task))
        self.notes = self.state.resume(checkpoints)
        self.progress, self.accumulator = self.state.progress, self.state.accumulator
        self.norm = torch.zeros(())
        self.watch = LossWatch()
        self.train_step = build_train_step(task, model, self.state, settings, world)
        self._first_step, self._seconds_before = self.progress.step, self.progress.seconds
        self._began = time.monotonic()

    @contextmanager
    def opened(self) -> Iterator[Interruption]:
        """Send the first and the last event, handle Ctrl-C as a request to stop, and finish the last checkpoint."""
        self.send(events.TrainingStarted(self.progress.step, self.settings.max_steps))
        if self.notes:
            self.send(events.Note("\n".join(self.notes)))
        self.model.train()
        try:
            with Interruption(ignore_repeated=self.world.size > 1) as interruption, self.state.writer:
                self.accumulator.resume()
                yield interruption
        finally:
            self.send(events.TrainingEnded())

    def send(self, event: events.Event) -> None:
        """Send an event to the log, from rank 0 only."""
        if self.world.is_main:
            self.log.log(event)

    def due(self, every: int) -> bool:
        """True if the number of the last step is a multiple of `every`."""
        return self.progress.step % every == 0

    def train(self, step: TrainingStep[B]) -> None:
        """Train one optimizer step and update the EMA."""
        number = self.progress.step + 1
        sums, self.norm = self.train_step(step, self.schedule(number))
        if self.state.ema:
            self.state.ema.update(number)
        self.accumulator.add(number, sums, self.norm, step.count, step.tokens)
        self.progress.step, self.progress.epoch = number, float(step.epoch)
        self.progress.tokens += step.tokens

    def reason_to_stop(self, step: TrainingStep[B], interrupted: bool) -> Reason | None:
        """Return why training stops before `step`, equal on every rank; None to continue."""
        settings, progress = self.settings, self.progress
        self._tick()
        out_of_time = 0 < settings.max_minutes * 60 <= progress.seconds
        request = all_reduce_max(2 if interrupted else 1 if out_of_time else 0, self.world)
        if progress.step >= settings.max_steps:
            return "max_steps"
        if 0 < settings.max_epochs <= step.epoch:
            return "max_epochs"
        if settings.patience and progress.bad_validations >= settings.patience:
            return "patience"
        if settings.stop_if_not_learning and progress.not_learning >= MAX_NOT_LEARNING:
            return "not learning"
        return (None, "max_minutes", "interrupted")[request]

    def report(self) -> None:
        """Log the steps since the last record and start the next one."""
        self._report()
        self.accumulator.clear()

    def validate(self) -> bool:
        """Evaluate the model; return True if it is the best one so far."""
        self.accumulator.pause()
        self.state.require_finite(self.checkpoints)
        validation = broadcast_from_rank0(self._evaluate(), self.world)
        if self.settings.monitor not in validation.metrics:
            problem = f"`training.monitor` is {self.settings.monitor!r}, which is not a metric of this task"
            remedy = f"choose one of {', '.join(sorted(validation.metrics))}"
            raise UserError(problem, remedy, code="invalid-setting", where="training.monitor")
        progress = self.progress
        settings = self.settings
        if progress.step >= max(MIN_STEPS, settings.warmup, MIN_SHARE * settings.max_steps):
            progress.compare(validation.baseline, validation.metrics)
        is_best = progress.record_validation(validation.metrics)
        self._tick()
        samples = list(validation.samples)[: self.settings.samples]
        self.send(events.ValidationRecord(progress.step, progress.metrics, is_best, progress.seconds, samples))
        if progress.not_learning:
            self._warn(validation)
        self.accumulator.resume()
        return is_best

    def save(self) -> None:
        self.accumulator.pause()
        self._tick()
        self.state.save(self.checkpoints)
        self.accumulator.resume()

    def finish(self, reason: Reason) -> None:
        """Log, validate and save the last step; after an interruption only save it."""
        if reason != "interrupted":
            if self.accumulator.count and self.progress.step > self._first_step:
                self._report()
            if self.progress.validated_step != self.progress.step:
                self.validate()
                self.state.saved_step = -1  # `save` writes this step again
        self.save()

    def _warn(self, validation: Validation) -> None:
        """Say that the model is no better than the baseline, and what happens at the next such validation."""
        baseline, progress = validation.baseline, self.progress
        if baseline is None:
            return
        facts = {"step": progress.step, "baseline": baseline.name, "metric": baseline.metric, "value": baseline.value}
        score = validation.metrics.get(baseline.metric, math.nan)
        problem = Message(
            "after {step:,} steps the model is no better than {baseline}: {metric} {score:.4g} against {value:.4g}",
            score=score, **facts,
        )  # fmt: skip
        remedy = validation.remedy
        if self.settings.stop_if_not_learning:
            now = Message("training stops; to continue, set training.stop_if_not_learning=false")
            then = Message("training stops if the next validation is no better (training.stop_if_not_learning)")
            remedy = join_messages("\n  ", [remedy, now if progress.not_learning >= MAX_NOT_LEARNING else then])
        self.send(events.Note(Message("warning: {problem}\n  {remedy}", problem=problem, remedy=remedy)))

    def _evaluate(self) -> Validation:
        """Validate, spread over all ranks: each computes some batches and gets the results of the others."""
        with self.state.full_model() as model, Work(team=Ranks.of(self.world)):
            model.eval()
            with torch.no_grad(), autocast(self.world), without_compilation(self.world):
                validation = self.task.validate(model)
            self.model.train()
        return validation

    def _report(self) -> None:
        self.accumulator.pause()
        self.state.require_finite(self.checkpoints)
        self.accumulator.reduce(self.world)
        self._tick()
        progress, accumulator = self.progress, self.accumulator
        loss, nll = accumulator.means()
        record = events.TrainRecord(
            step=progress.step,
            epoch=progress.epoch,
            loss=loss,
            nll=nll,
            learning_rate=self.schedule(progress.step),
            gradient_norm=float(self.norm),
            tokens=progress.tokens,
            tokens_per_second=accumulator.tokens / max(accumulator.seconds, 1e-9),
            seconds=progress.seconds,
            seconds_left=self._seconds_left(),
        )
        self.send(record)
        if (problem := self.watch.add(nll, record.gradient_norm)) is not None:
            self.send(events.Note(Message("warning: {problem}", problem=problem)))

    def _seconds_left(self) -> float:
        """Estimate the time until the first limit, at the speed so far."""
        settings, progress = self.settings, self.progress
        shares = [progress.step / settings.max_steps]
        shares += [progress.epoch / settings.max_epochs] if settings.max_epochs else []
        shares += [progress.seconds / (60 * settings.max_minutes)] if settings.max_minutes else []
        share = min(1.0, max(shares))
        return progress.seconds * (1 - share) / share

    def _tick(self) -> None:
        self.progress.seconds = self._seconds_before + time.monotonic() - self._began


def _closable(stream: Iterator[TrainingStep[B]]) -> Generator[TrainingStep[B], None, None]:
    """Make a generator of a stream, so that it can be closed: prefetching then stops."""
    yield from stream
