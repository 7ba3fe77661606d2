"""Training a run, from the recipe to the last checkpoint.

recipe -> world -> run folder -> tokenizers -> stores -> batches -> model -> fit -> checkpoints
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.accounts import collect_accounts
from regard.data.batch import Batch, PrefetchedSteps
from regard.data.store import PLAN
from regard.errors import UserError
from regard.files import LOCK, locked, remove_leftovers, write_json
from regard.losses.crossentropy import Loss
from regard.messages import Message
from regard.recipe import Recipe
from regard.run.run import Run
from regard.run_files import ACCOUNTS, CHECKPOINTS, RECIPE, STORES
from regard.runtime import World, autocast, close_world, limit_waiting, open_world, seed_everything
from regard.tasks.base import AnyTask, Example, ProgressCallback, Report, ValidationData
from regard.tasks.checks import overlap_warnings
from regard.tasks.defaults import choose_defaults, take_defaults
from regard.tasks.operations import adapt_world, fit_closed_form, some_examples
from regard.training.advice import Advice, advise, not_learning
from regard.training.checkpoint import has_training
from regard.training.distributed import broadcast_from_rank0, peer_errors, place
from regard.training.events import Log, TrainingEnded, TrainingStarted, ValidationRecord
from regard.training.log import build_log
from regard.training.loop import Outcome, fit
from regard.training.optimizer import build_schedule
from regard.training.progress import TrainingProgress
from regard.training.task import Baseline, Validation, recurrent_state_of
from regard.training.weights import weights_of

TESTED_EXAMPLES = 1000
"""Examples of train and valid in which defects are looked for before training."""


@dataclass(frozen=True)
class Trained:
    """A trained run and how training ended."""

    run: Run
    outcome: Outcome
    examples: Sequence[Example] = ()
    """The validation examples, if the task reads them."""


def train(
    recipe: Recipe,
    folder: str | Path,
    *,
    resume: bool = False,
    report: Report = print,
    progress: ProgressCallback | None = None,
    log: Log | None = None,
) -> Trained:
    """Train a recipe in `folder`; with `resume`, continue the run in that folder from its newest checkpoint."""
    folder = Path(folder)
    world = open_world(recipe.runtime)  # sets the seed and the device, joins the process group
    with ExitStack() as stack:
        stack.callback(close_world)
        stack.enter_context(peer_errors(world))
        check_processes(recipe, world)

        # One process prepares the data. The others wait for it, and fail with it.
        run, stores, failure = None, None, None
        if world.is_main:
            try:
                run = stack.enter_context(open_folder(recipe, folder, resume, report))
                stores = prepare_data(run, report, progress)
            except UserError as error:
                failure = error
        failure = broadcast_from_rank0(failure, world)
        if failure is not None:
            raise failure
        run = run or Run.open(folder)
        recipe = run.recipe
        train_data, valid_data = stores or run.open_stores(lambda _: None)

        task, world = run.task, adapt_world(run.task, world)
        if recipe.runtime.compile == "on" and not world.compile:
            problem = 'runtime.compile = "on" has no effect: only packed batches on a GPU are compiled'
            raise UserError(problem, 'set `runtime.compile = "auto"`', code="unused-setting", where="runtime.compile")
        valid = task.validation_data(folder, valid_data, world)
        model = fit_closed_form(task, train_data)
        if model is not None:
            return Trained(run, save_directly(run, model, valid, len(train_data), world, log), valid.examples)

        batches = task.batches(train_data, world)
        training = recipe.training_in_steps(batches.steps_in_epoch(0))
        if world.is_main:
            epoch, started = batches.steps_in_epoch(0), bool(recipe.start_from)
            report_advice(advise(training.in_steps(epoch), recipe.model.d_model, epoch, started), report)
        seed_everything(recipe.runtime.seed, "weights")
        initial = run.initial_model(report if world.is_main else lambda _: None)
        tokens = training.batch_tokens // (world.size * training.accumulation)
        model = place(initial, world, tokens, recipe.model.d_model)
        limit_waiting(recipe.runtime.timeout)
        steps = PrefetchedSteps(batches, pinned=world.device.type == "cuda")
        log = log or build_log(training, folder, world)
        schedule = build_schedule(training, recipe.model.d_model)
        baseline = task.checks.baseline(task, train_data, valid.store, valid.examples)
        post_norm = recipe.model.model_dump().get("norm") == "post"
        objective = Objective(task, valid, baseline, not_learning(training, recipe.model.d_model, post_norm))
        outcome = fit(objective, model, steps, training, world, run.checkpoints, log, schedule)
        return Trained(run, outcome, valid.examples)


def prepare_data(run: Run, report: Report, progress: ProgressCallback | None) -> tuple[Sized, Sized]:
    """The tokenised training and validation data; what was left out and what looks wrong is reported."""
    with collect_accounts(report) as accounts:
        run.prepare(report)
        stores = run.open_stores(report, progress)
    if accounts:
        write_json(run.folder / ACCOUNTS, {source: vars(account) for source, account in accounts.items()})
    if not run.checkpoints.all():
        samples = {split: some_examples(run.task, split, TESTED_EXAMPLES) for split in ("train", "valid")}
        report_advice(run.task.checks.data_warnings(samples) or (), report)
        if not getattr(stores[0], "is_parted", False):  # else `regard prepare` compared them
            report_advice(overlap_warnings(run.recipe, run.task.checks), report)
    return stores


def check_processes(recipe: Recipe, world: World) -> None:
    """Raise a UserError if several processes cannot train the model."""
    if world.size > 1 and recipe.model.one_process_only:
        raise UserError(
            f"{world.size} processes cannot train {recipe.model.summary}: batch norm needs the tokens of a whole batch",
            'train in one process, or set `model.norm_kind = "layer"`',
            code="unsupported",
            where="model.norm_kind",
        )


def report_advice(warnings: Iterable[Advice], report: Report) -> None:
    for advice in warnings:
        report(Message("warning: {problem}\n  {remedy}", problem=advice.problem, remedy=advice.remedy))


@dataclass(frozen=True)
class Objective:
    """A task with its validation data, as the training loop takes it."""

    task: AnyTask
    valid: ValidationData[Any]
    baseline: Baseline | None = None
    remedy: str = ""
    recurrent_state: dict[str, Tensor] = field(default_factory=dict)
    """The recurrent state that the task carries from batch to batch; empty if it carries none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "recurrent_state", recurrent_state_of(self.task))

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        return self.task.loss(model, batch)

    def validate(self, model: nn.Module) -> Validation:
        return replace(self.task.validate(model, self.valid), baseline=self.baseline, remedy=self.remedy)


@contextmanager
def open_folder(recipe: Recipe, folder: Path, resume: bool, report: Report = print) -> Iterator[Run]:
    """Lock the folder and open its run, or make one; the lock is held until training ends."""
    check_folder(folder)
    with locked(folder):
        for part in (folder, folder / STORES, *(folder / STORES).glob("*"), folder / CHECKPOINTS):
            remove_leftovers(part)
        yield begin(recipe, folder, resume or was_restarted(), report)


def was_restarted() -> bool:
    """True if torchrun started this process again after a crash: then it resumes."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


def check_folder(folder: Path) -> None:
    """Raise UserError if the folder holds files that are not a run."""
    known = (path.name == LOCK or path.name.endswith(".partial") for path in folder.glob("*"))
    if not (folder / RECIPE).exists() and not all(known):
        problem = f"{folder} contains files that are not a run"
        raise UserError(problem, "choose a different folder", code="not-a-run", where=folder)


def begin(recipe: Recipe, folder: Path, resume: bool, report: Report) -> Run:
    """Make the run's folder, or open it to resume; a run with weights is never overwritten. Settings that the recipe
    does not give are chosen from the training data, or are those of the run to resume."""
    if not (folder / RECIPE).exists():
        return Run.create(folder, choose_defaults(recipe, report))
    run = Run.open(folder)
    if not run.was_trained:  # an earlier preparation failed: everything can be built again
        prepared = (folder / STORES / "train" / PLAN).exists()  # by many processes: one would take too long
        return run.restart(take_defaults(recipe, run.recipe) if prepared else choose_defaults(recipe, report))
    if not resume:
        saved = run.checkpoints.all()
        problem = f"{folder} already holds a run" + (f", trained up to {saved[-1].name}" if saved else "")
        remedy = "add `--resume` (in Python: resume=True) to continue, or choose a different folder"
        raise UserError(problem, remedy, code="run-exists", where=folder)
    if (saved := run.checkpoints.all()) and not any(map(has_training, saved)):
        problem = f"{folder} has weights but no training state: it is a compressed copy"
        remedy = f'continue the original run, or set start_from = "{folder}" in a recipe with data'
        raise UserError(problem, remedy, code="no-training-state", where=folder)
    return run.resume(take_defaults(recipe, run.recipe))


def save_directly(
    run: Run, model: nn.Module, valid: ValidationData[Any], tokens: int, world: World, log: Log | None
) -> Outcome:
    """Validate and save a model that needs no gradient steps: one validation, one checkpoint."""
    began, training = time.monotonic(), run.recipe.training
    validation = run.task.validate(model, valid)
    score, seconds = validation.metrics[training.monitor], time.monotonic() - began
    if world.is_main:
        state = TrainingProgress(step=1, epoch=1.0, tokens=tokens, seconds=seconds, monitor=training.monitor)
        state.record_validation(validation.metrics)
        run.checkpoints.save(1, weights_of(model), {}, state.to_json())
        log = log or build_log(training, run.folder, world)
        log.log(TrainingStarted(0, 1))
        log.log(ValidationRecord(1, validation.metrics, True, seconds, list(validation.samples)))
        log.log(TrainingEnded())
    return Outcome(1, "no more data", score, 1, validation.metrics)


def validate_checkpoint(run: Run, checkpoint: str) -> Mapping[str, float]:
    """The metrics of a checkpoint on the validation data of the run."""
    world = open_world(run.recipe.runtime)
    try:
        store = run.store("valid", lambda _: None)
        data = run.task.validation_data(run.folder, store, adapt_world(run.task, world))
        model = run.model(checkpoint, world.device)
        with torch.no_grad(), autocast(world):
            return run.task.validate(model, data).metrics
    finally:
        close_world()
