"""regard import: a model of another library as a run."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.documents import target_option
from regard.cli.options import AsJson, Folder
from regard.cli.screen import print_json, print_result, report
from regard.cli.shell import as_called
from regard.messages import Message


def import_(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Folder with weights and vocabulary, the weight file in it, or a package of Argos Translate.",
        ),
    ],
    folder: Folder = None,
    allow_pickle: Annotated[
        bool,
        typer.Option(
            "--allow-pickle",
            help="Read pytorch_model.bin if there is no model.safetensors. A pickle file can contain code: only its "
            "tensors are read, anything else is an error.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a run from a model of Hugging Face, Marian, CTranslate2 or Argos, e.g. BERT, GPT-2, T5 or OPUS-MT."""
    from regard.run.importing import import_model

    folder = folder or Path("runs") / (model.absolute().name or "imported")
    imported = import_model(model, folder, allow_pickle)
    recipe, random_weights = imported.run.recipe, imported.random_weights
    if as_json:
        values = {"run": str(folder), "task": recipe.task, "weights": imported.weights}
        print_json({**values, "random_weights": random_weights})
        return
    if random_weights:
        modules = ", ".join(dict.fromkeys(name.rpartition(".")[0] for name in random_weights))
        report(Message("note: {model} has no {modules}; these weights are random", model=model, modules=modules))
    facts = {"model": recipe.model.summary, "weights": imported.weights, "task": recipe.task, "folder": folder}
    print_result(Message("{model}: {weights:,} weights, task {task}, written to {folder}", **facts))
    to = target_option(imported.run.task)
    command = f"regard {imported.run.task.command} {shlex.quote(str(folder))}{to}"
    print_result(as_called(Message("use it: {command}", command=command)))
    print_result(Message('train it further: a recipe with start_from = "{folder}"', folder=folder))
