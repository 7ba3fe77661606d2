"""regard import: a model of another program becomes a run."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import AsJson
from regard.cli.screen import result, result_json, say

NEXT = {
    "pretraining": 'start from it: a recipe with start_from = "{folder}"',
    "translation": "use it: regard translate {run}",
}


def import_(
    model: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder with config.json, model.safetensors and the vocabulary.")
    ],
    folder: Annotated[
        Path | None, typer.Option("--folder", "-o", metavar="FOLDER", help="The run to make [runs/NAME].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a run of a Hugging Face model, BERT or Marian.

    What config.json says decides its task: a BERT as it was pretrained can be started from, one with a layer of a task
    on top says classes, numbers, tags, answers or choices, and a Marian or Pegasus model translates. Nothing is
    fetched: DIR is a folder on this machine, as save_pretrained writes it. Weights in pytorch_model.bin are not opened.

    \b
    Examples:
      regard import models/bert-base-uncased --folder runs/bert
      regard import models/opus-mt-de-en --folder runs/de-en
      regard translate runs/de-en < input.txt
    """
    from regard.run.importing import import_model

    folder = folder or Path("runs") / (model.absolute().name or "imported")
    done = import_model(model, folder)
    task = done.run.recipe.task
    if as_json:
        result_json({"run": str(folder), "task": task, "weights": done.weights, "drawn": done.drawn})
        return
    if done.drawn:
        say(f"note: {model} holds no {named(done.drawn)}; drawn from the seed")
    result(f"{done.run.recipe.model.summary}: {done.weights:,} weights, task {task}, written to {folder}")
    result(NEXT.get(task, "use it: regard predict {run}").format(run=shlex.quote(str(folder)), folder=folder))


def named(weights: list[str]) -> str:
    """The modules of weights, each once."""
    return ", ".join(dict.fromkeys(name.rpartition(".")[0] for name in weights))
