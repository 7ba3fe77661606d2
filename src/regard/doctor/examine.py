"""All checks of a recipe, in one path for every task:

    recipe -> device -> files -> temporary run (tokenizers, stores) -> model -> memory, disk and time

Every result is yielded as soon as it is known. The path ends early if later checks need what failed.
"""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.data.accounts import collect_accounts, describe_accounts
from regard.doctor import data, model, resources
from regard.doctor.check import REMAINING, Check, CheckProgress, guarded
from regard.doctor.sample import DryRun, prepare, survey
from regard.errors import UserError
from regard.messages import Message, join_messages
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
    name = Message("recipe")
    lines: list[str] = []
    try:
        recipe = load_recipe(source, overrides)
        yield Check(name, "pass", Message("{name}: all settings are valid", name=recipe.name))
        name = Message("device")
        world = open_world(recipe.runtime)
        yield resources.check_device(world)
        if recipe.start_from:
            name = Message("start")
            start = Run.open(recipe.start_from)
            check_start(start, recipe)
            parts = [start.recipe.task, describe_best(start.checkpoints), start.recipe.model.summary]
            yield Check(name, "pass", Message("{key}: {value}", key=start.folder, value=join_messages(", ", parts)))
        name = Message("files")
        recipe = choose_defaults(recipe, lines.append)
        if values := [line.strip().partition(" (")[0] for line in lines if " = " in line]:
            chosen = Message("chosen from the data: {values}", values=", ".join(values))
            yield Check(Message("defaults"), "pass", chosen)
        with tempfile.TemporaryDirectory(prefix="regard-doctor-") as temporary:
            run_folder = folder or Path("runs") / recipe.name
            for check in _examine(recipe, world, run_folder, Path(temporary), quick, progress):
                name = Message("preparation")
                yield check
    except UserError as error:
        yield Check(name, "fail", error.problem, error.remedy)
        yield REMAINING
    finally:
        close_world()


def _examine(
    recipe: Recipe, world: World, folder: Path, temporary: Path, quick: bool, progress: CheckProgress | None
) -> Iterator[Check]:
    task: type[AnyTask] = task_of(recipe)
    with collect_accounts() as accounts:
        splits = task.checks.read_splits(recipe, temporary)
        surveyed = survey(task, splits, recipe.runtime.seed, quick, progress)
    yield (files := data.check_files(recipe, surveyed, describe_accounts(accounts)))
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
        yield guarded(Message("tokenizer"), lambda: data.check_tokenizer(dry))
    if (inputs := data.check_inputs(dry)) is not None:
        yield inputs
    if dry.task.checks.long_inputs:
        yield guarded(Message("lengths"), lambda: data.check_lengths(dry))
    yield from _examine_model(dry, folder, quick, progress)


def _examine_model(dry: DryRun, folder: Path, quick: bool, progress: CheckProgress | None) -> Iterator[Check]:
    direct = fit_closed_form(dry.task, dry.store)
    if direct is not None:  # a model that is counted has no gradients
        yield guarded(Message("disk"), lambda: resources.check_disk(dry, direct, folder))
        return
    yield guarded(Message("first-loss"), lambda: model.check_first_loss(dry))
    if dry.causal_sequence:
        yield guarded(Message("leaks"), lambda: model.check_leaks(dry))
    yield guarded(Message("gradients"), lambda: model.check_gradients(dry))
    yield guarded(Message("schedule"), lambda: resources.check_schedule(dry))
    yield guarded(Message("memory"), lambda: resources.check_memory(dry))
    yield guarded(Message("disk"), lambda: resources.check_disk(dry, model_on_meta(dry.task), folder))
    if quick:
        yield from (
            Check(name, "skip", Message("left out by --quick")) for name in (Message("overfit"), Message("time"))
        )
        return
    yield guarded(Message("overfit"), lambda: model.check_overfit(dry, progress))
    yield guarded(Message("time"), lambda: resources.check_time(dry, progress))
