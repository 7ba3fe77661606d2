"""All checks of a recipe, in one path for every task:

    recipe -> device -> files -> temporary run (tokenizers, stores) -> model -> memory, disk and time

Every result is yielded as soon as it is known. The path ends early if later checks need what failed.
"""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.doctor import data, model, resources
from regard.doctor.check import REMAINING, Check, CheckProgress, guarded
from regard.doctor.sample import DryRun, prepare, survey
from regard.errors import UserError
from regard.recipe import Recipe
from regard.run.run import Run, check_start, describe_best
from regard.run_files import STORES
from regard.runtime import World, close_world, open_world
from regard.tasks.base import AnyTask
from regard.tasks.defaults import choose_defaults
from regard.tasks.operations import fit_closed_form, model_on_meta
from regard.tasks.registry import load_recipe, task_of


def examine(
    source: str | Path,
    overrides: Sequence[str] = (),
    *,
    folder: Path | None = None,
    quick: bool = False,
    progress: CheckProgress | None = None,
) -> Iterator[Check]:
    """Check a recipe before training. Nothing is written but into a temporary folder.

    `folder` is the folder of the run. `quick` reads only the beginning of the files and trains nothing.
    """
    name = "recipe"
    try:
        recipe = load_recipe(source, overrides)
        yield Check(name, "pass", f"{recipe.name}: all settings are valid")
        name = "device"
        world = open_world(recipe.runtime)
        yield resources.check_device(world)
        if recipe.start_from:
            name = "start"
            yield check_start_run(recipe)
        name = "files"
        recipe, defaults = with_chosen_defaults(recipe)
        if defaults is not None:
            yield defaults
        with tempfile.TemporaryDirectory(prefix="regard-doctor-") as temporary:
            run_folder = folder or Path("runs") / recipe.name
            for check in _examine(recipe, world, run_folder, Path(temporary), quick, progress):
                name = "preparation"
                yield check
    except UserError as error:
        yield Check(name, "fail", error.problem, error.remedy)
        yield REMAINING
    finally:
        close_world()


def with_chosen_defaults(recipe: Recipe) -> tuple[Recipe, Check | None]:
    """The recipe with the settings that are chosen from the training data, and a check that lists them."""
    lines: list[str] = []
    chosen = choose_defaults(recipe, lines.append)
    values = [line.strip().partition(" (")[0] for line in lines if " = " in line]
    return chosen, Check("defaults", "pass", f"chosen from the data: {', '.join(values)}") if values else None


def check_start_run(recipe: Recipe) -> Check:
    """The run to start from was trained, and its model is that of the recipe."""
    start = Run.open(recipe.start_from)
    check_start(start, recipe)
    finding = f"{start.folder}: {start.recipe.task}, {describe_best(start.checkpoints)}, {start.recipe.model.summary}"
    return Check("start", "pass", finding)


def _examine(
    recipe: Recipe, world: World, folder: Path, temporary: Path, quick: bool, progress: CheckProgress | None
) -> Iterator[Check]:
    task: type[AnyTask] = task_of(recipe)
    splits = task.checks.read_splits(recipe, temporary)
    surveyed = survey(task, splits, recipe.runtime.seed, quick, progress)
    yield (files := data.check_files(recipe, surveyed))
    if files.status == "fail":
        yield REMAINING
        return
    yield data.show_examples(task, surveyed)
    yield data.check_overlap(recipe, surveyed)
    if surveyed.splits["train"].labels or surveyed.splits["train"].numbers:
        yield data.check_labels(task, surveyed)
    if (plausibility := data.check_plausibility(task, surveyed)) is not None:
        yield plausibility
    if (folder / STORES).is_dir():
        yield data.check_stored(folder / STORES, quick)
    dry = prepare(recipe, world, surveyed, temporary, progress)
    if (filters := data.check_filters(dry)) is not None:
        yield filters
    if dry.task.tokenizers:
        yield guarded("tokenizer", lambda: data.check_tokenizer(dry))
    if (inputs := data.check_inputs(dry)) is not None:
        yield inputs
    if dry.task.checks.long_inputs:
        yield guarded("lengths", lambda: data.check_lengths(dry))
    yield from _examine_model(dry, folder, quick, progress)


def _examine_model(dry: DryRun, folder: Path, quick: bool, progress: CheckProgress | None) -> Iterator[Check]:
    direct = fit_closed_form(dry.task, dry.store)
    if direct is not None:  # a model that is counted has no gradients
        yield guarded("disk", lambda: resources.check_disk(dry, direct, folder))
        return
    yield guarded("first-loss", lambda: model.check_first_loss(dry))
    if dry.causal_sequence:
        yield guarded("leaks", lambda: model.check_leaks(dry))
    yield guarded("gradients", lambda: model.check_gradients(dry))
    yield guarded("schedule", lambda: resources.check_schedule(dry))
    yield guarded("memory", lambda: resources.check_memory(dry))
    yield guarded("disk", lambda: resources.check_disk(dry, model_on_meta(dry.task), folder))
    if quick:
        yield from (Check(name, "skip", "left out by --quick") for name in ("overfit", "time"))
        return
    yield guarded("overfit", lambda: model.check_overfit(dry, progress))
    yield guarded("time", lambda: resources.check_time(dry, progress))
