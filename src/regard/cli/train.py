"""regard train: train a recipe."""

import shlex
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from regard.cli.options import AsJson, Folder, Overrides, RecipeName
from regard.cli.screen import print_json, print_result
from regard.cli.shell import INTERRUPTED, as_called
from regard.cli.training import find_recipe_and_folder, outcome_values, summary, train_with_progress
from regard.messages import Message, localize

if TYPE_CHECKING:
    from regard.run.train import Trained

MAX_EXAMPLE_CHARACTERS = 200
MAX_TEXT_CHARACTERS, MAX_WORDS = 60, 12
"""Size of each text, and of a list of words, of a shortened example."""
SOME_TEXT = "A text."


def train(
    recipe: RecipeName,
    settings: Overrides = None,
    # Not --run: torchrun would take it for an abbreviation of its own --run-path.
    folder: Folder = None,
    resume: Annotated[bool, Option("--resume", help="Continue the training of this run folder.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model of any task from a recipe."""
    loaded, path, resume = find_recipe_and_folder(recipe, settings or [], folder, resume)
    trained = train_with_progress(loaded, path, resume)
    interrupted = trained.outcome.reason == "interrupted"
    if as_json:
        print_json(outcome_values(trained))
    else:
        print_result(summary(trained))
        if not interrupted:
            print_result(next_steps(trained))
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def next_steps(trained: "Trained") -> str:
    """Commands to try after training, with a short validation example, or a long one shortened."""
    task, examples = trained.run.task, trained.examples
    whole = (line for line in map(task.to_line, examples) if len(line) <= MAX_EXAMPLE_CHARACTERS)
    lines = chain(whole, (task.to_line(shortened(example)) for example in examples), [SOME_TEXT])
    line = next(line for line in lines if line.strip() and line.isprintable())
    commands = task.next_commands(shlex.quote(str(trained.run.folder)), shlex.quote(line))
    return as_called("\n".join([localize(Message("next:")), *(f"  {command}" for command in commands)]))


def shortened(value: object) -> Any:
    """A value with the first words of each of its texts."""
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shortened(item) for item in value[:MAX_WORDS]]
    if isinstance(value, str) and len(value) > MAX_TEXT_CHARACTERS:
        return next(iter(value[:MAX_TEXT_CHARACTERS].rsplit(maxsplit=1)), "")
    return value
