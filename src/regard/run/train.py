"""The straight line of training:

recipe -> world (seed first) -> run -> vocabularies -> stores -> task -> batches -> model -> place -> fit -> checkpoints
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import torch

from regard.data.arrays import made_from
from regard.data.batching import Batches, Padding, Step
from regard.data.packing import Packing
from regard.data.prefetch import prefetch
from regard.engines.following import Following
from regard.errors import UserError
from regard.files import LOCK, held, sweep
from regard.kernels import kernels_available
from regard.recipe import Recipe
from regard.run.folder import RECIPE, Progress, Run, Say
from regard.runtime import World, close_world, open_world, seed_everything
from regard.tasks import Translation
from regard.tasks.translation import SYMBOLS
from regard.training import Log, Outcome, build_log, build_schedule, fit, place
from regard.training.distributed import from_main


@dataclass(frozen=True)
class Trained:
    """A run that was trained and how that ended."""

    run: Run
    outcome: Outcome


def train(
    recipe: Recipe,
    folder: Path,
    *,
    resume: bool = False,
    say: Say = print,
    progress: Progress | None = None,
    log: Log | None = None,
) -> Trained:
    """Train what the recipe says in `folder`; with `resume`, go on where a run in that folder stopped."""
    world = open_world(recipe.runtime)
    with ExitStack() as alone:
        alone.callback(close_world)
        problem = begin_and_prepare(recipe, folder, resume, say, progress, alone) if world.is_main else None
        problem = from_main(problem, world)  # the others wait until everything is prepared, and fail together
        if problem is not None:
            raise problem
        run = Run.open(folder)
        return Trained(run, fit_run(run, world, log))


def begin_and_prepare(
    recipe: Recipe, folder: Path, resume: bool, say: Say, progress: Progress | None, alone: ExitStack
) -> UserError | None:
    """Everything one process does before all of them train; what the user must know is returned, for all to raise.

    From here on the folder belongs to this process, until `alone` is closed.
    """
    try:
        refuse_strangers(folder)
        alone.enter_context(held(folder))
        sweep(folder)
        prepare(begin(recipe, folder, resume or restarted()), say, progress)
    except UserError as problem:
        return problem
    return None


def restarted() -> bool:
    """Whether torchrun started this process again after a crash: then going on is what it was started for."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


def refuse_strangers(folder: Path) -> None:
    """A folder with something in it that is not a run is left alone."""
    ours = (path.name == LOCK or path.name.endswith(".partial") for path in folder.glob("*"))
    if not (folder / RECIPE).exists() and not all(ours):
        raise UserError(f"{folder} is not empty and not a run", "choose another folder with --folder FOLDER")


def begin(recipe: Recipe, folder: Path, resume: bool) -> Run:
    """Make the run's folder, or open it to go on; a run that was trained is never overwritten."""
    if not (folder / RECIPE).exists():
        return Run.create(folder, recipe)
    run = Run.open(folder)
    if not run.was_trained:  # a mistake in the data ended it before it began: what was prepared can be made again
        return run.begun_anew(recipe)
    if not resume:
        known = run.checkpoints.all()
        raise UserError(
            f"{folder} holds a run already" + (f", trained up to {known[-1].name}" if known else ""),
            "add --resume to go on with it, or --folder FOLDER to start another",
        )
    return run.resumed_with(recipe)


def prepare(run: Run, say: Say, progress: Progress | None = None) -> None:
    """Vocabularies and stores, made once and by one process."""
    run.make_vocabularies(say)
    src, tgt = run.vocabularies
    pieces = f"{len(src):,}" if src is tgt else f"{len(src):,} and {len(tgt):,}"
    for part in ("train", "valid"):
        before = made_from(run.folder / "store" / part)
        store = run.store(part, progress)
        if before not in (None, store.fingerprint) and run.checkpoints.all():
            say(f"warning: the {part} text is not what this run was trained with so far; it goes on with the new one")
        if part == "train":
            say(store.report.table())
        say(f"{part}: {len(store):,} pairs, {int(store.src_lengths.sum() + store.tgt_lengths.sum()):,} tokens")
    if run.recipe.text.dropout:
        say("drawing the segmentations of BPE-dropout")
        run.training_store()
    say(f"vocabulary: {pieces} pieces")


def fit_run(run: Run, world: World, log: Log | None = None) -> Outcome:
    """Train a prepared run."""
    recipe = run.recipe
    steps = Stream(run, world)
    seed_everything(recipe.runtime.seed, "weights")
    model = place(run.first_model(), world)
    return fit(
        training_task(run, world),
        model,
        steps,
        recipe.training,
        world,
        run.checkpoints,
        log or build_log(recipe.training, run.folder, world),
        build_schedule(recipe.training, recipe.model.d_model),
    )


def training_task(run: Run, world: World) -> Translation:
    """The task with validation data."""
    training = run.recipe.training
    scored = training.monitor not in ("loss", "perplexity")
    return replace(
        run.task(),
        valid=run.store("valid"),
        valid_pairs=run.pairs("valid"),
        valid_scores=(training.monitor,) if scored else (),
        samples=training.samples,
        follow=follower(world),
    )


def follower(world: World) -> Following | None:
    """On a GPU validation translates with recorded steps, many times faster than step by step."""
    if world.device.type != "cuda" or not kernels_available():
        return None
    return Following(SYMBOLS, torch.bfloat16 if world.precision == "bf16" else torch.float32)


def form_for(world: World) -> type[Padding] | type[Packing]:
    """On a GPU packed batches, whose attention is one kernel; otherwise padded ones, of like lengths."""
    return Packing if world.device.type == "cuda" and kernels_available() else Padding


class Stream:
    """The steps of training from any step on, prepared ahead by a thread."""

    def __init__(self, run: Run, world: World) -> None:
        training = run.recipe.training
        self._pin = world.device.type == "cuda"
        self._batches = Batches(
            run.training_store(),
            training.batch_tokens,
            run.recipe.runtime.seed,
            world.rank,
            world.size,
            training.accumulation,
            form_for(world),
        )

    def __call__(self, first: int) -> Iterator[Step]:
        return prefetch(self._step(number) for number in count(first))

    def _step(self, number: int) -> Step:
        step = self._batches.batch(number)
        return replace(step, micro=[batch.pin() for batch in step.micro]) if self._pin else step
