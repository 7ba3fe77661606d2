"""Training with progress on the terminal, for `regard train`, `regard prepare` and `regard demo`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.screen import ProgressLine, report
from regard.cli.shell import as_called
from regard.messages import Message, find_message, join_messages

if TYPE_CHECKING:
    from regard.recipe import Recipe
    from regard.run.train import Trained


def find_recipe_and_folder(
    source: str, settings: list[str], folder: Path | None, resume: bool
) -> tuple["Recipe", Path, bool]:
    """The recipe, the folder of its run, and whether to resume. A run folder has its own recipe. A folder that is not a
    run may have the name of a shipped recipe."""
    from regard.recipe_files import shipped_recipes
    from regard.run.run import Run, read_recipe
    from regard.run_files import RECIPE
    from regard.tasks.registry import load_recipe

    path = Path(source)
    is_run = (path / RECIPE).is_file()
    if is_run or (path.is_dir() and source not in {recipe.stem for recipe in shipped_recipes()}):
        Run.open(path)
        return read_recipe(path, settings), folder or path, resume or folder is None
    recipe = load_recipe(source, settings)
    return recipe, folder or Path("runs") / recipe.name, resume


def train_with_progress(recipe: "Recipe", folder: Path, resume: bool) -> "Trained":
    """Train a recipe and report every stage on stderr."""
    from regard.run.train import train

    about = find_message(recipe.about or recipe.task)
    report(Message("{name}: {about}, in {folder}", name=recipe.name, about=about, folder=folder))
    with ProgressLine(Message("tokenised:")) as line:

        def report_stage(text: str) -> None:
            line.clear()
            report(text)

        return train(recipe, folder, resume=resume, report=report_stage, progress=line)


def reason_to_stop(trained: "Trained") -> str:
    """Why training stopped; some tasks convert max_epochs to steps."""
    outcome, training = trained.outcome, trained.run.recipe.training
    by_epochs = outcome.reason == "max_steps" and training.max_epochs and outcome.step < training.max_steps
    return "max_epochs" if by_epochs else outcome.reason


def outcome_values(trained: "Trained") -> dict[str, object]:
    """The end of a training as plain values."""
    outcome, run = trained.outcome, trained.run
    return {
        "run": str(run.folder),
        "step": outcome.step,
        "reason": reason_to_stop(trained),
        "monitor": run.recipe.training.monitor,
        "best": outcome.best,
        "best_step": outcome.best_step,
        "metrics": outcome.metrics,
    }


def summary(trained: "Trained") -> str:
    """The end of a training in a few lines."""
    outcome, folder, training = trained.outcome, shlex.quote(str(trained.run.folder)), trained.run.recipe.training
    if outcome.reason == "interrupted":
        return as_called(
            Message("saved at step {step}; continue with: regard train {folder}", step=outcome.step, folder=folder)
        )
    reason = reason_to_stop(trained)
    facts = {"folder": trained.run.folder, "steps": outcome.step, "reason": find_message(reason)}
    lines = [Message("{folder}: trained {steps:,} steps (stopped by {reason})", **facts)]
    if outcome.best is not None:
        best = {"monitor": training.monitor, "best": outcome.best, "step": outcome.best_step}
        lines.append(Message("best validation {monitor}: {best:.4g}, at step {step}", **best))
    if reason in ("max_steps", "max_epochs"):
        epochs, steps = f"max_epochs={2 * training.max_epochs:g}", f"max_steps={2 * outcome.step}"
        more = epochs if reason == "max_epochs" else steps
        lines.append(Message("train more: regard train {folder} training.{more}", folder=folder, more=more))
    return as_called(join_messages("\n", lines))
