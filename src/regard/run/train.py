"""The straight line of training:

recipe -> world (seed first) -> run -> vocabularies -> stores -> task -> batches -> model -> place -> fit -> checkpoints
"""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.files import LOCK, locked, remove_leftovers
from regard.recipe import Recipe
from regard.run.folder import RECIPE, Progress, Run, Say
from regard.runtime import close_world, open_world
from regard.training.distributed import broadcast_from_rank0
from regard.training.events import Log
from regard.training.loop import Outcome


@dataclass(frozen=True)
class Trained:
    """A run that was trained and how that ended."""

    run: Any
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
        problem = broadcast_from_rank0(
            problem, world
        )  # the others wait until everything is prepared, and fail together
        if problem is not None:
            raise problem
        run = Run.open(folder)
        return Trained(run, run.fit(run.suited(world), log))


def begin_and_prepare(
    recipe: Recipe, folder: Path, resume: bool, say: Say, progress: Progress | None, alone: ExitStack
) -> UserError | None:
    """Everything one process does before all of them train; what the user must know is returned, for all to raise.

    From here on the folder belongs to this process, until `alone` is closed.
    """
    try:
        refuse_strangers(folder)
        alone.enter_context(locked(folder))
        remove_leftovers(folder)
        begin(recipe, folder, resume or restarted()).prepare(say, progress)
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
