"""regard distill: what a run makes of its training sources, for another to learn from."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import AsJson, ModelOptions, SearchOptions, one_of
from regard.cli.screen import Ticker, result, result_json, say
from regard.errors import UserError

PARTS = ("train", "valid", "test")


def distill(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN", help="The teacher's folder; several vote together as an ensemble.")
    ],
    search: SearchOptions,
    model: ModelOptions,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Where to write [RUN/distilled].")
    ] = None,
    on: Annotated[str, typer.Option(metavar="train|valid|test", help="Which data of the run's recipe.")] = "train",
    as_json: AsJson = False,
) -> None:
    """Translate a run's training text for a student to learn from.

    A corpus holds now one, now another translation of the same sentence; the teacher settles for one, which is easier
    to learn (Kim & Rush 2016). Models that write all words at once (model.kind = "masked") need it most. The folder
    gets train.src and train.tgt, a line each, and a manifest that says how they were made. Interrupted, the same
    command goes on where it stopped.

    \b
    Examples:
      regard distill runs/de
      regard distill runs/de --beam 4 --output data/distilled
      regard distill runs/de runs/de-2 runs/de-3 -o data/distilled     taught by an ensemble
    """
    from regard.run.distill import distill as write

    part, changes = one_of("--on", on, PARTS), search.changes()
    if changes.get("nbest", 1) > 1:
        raise UserError("--nbest is more than 1", "a student learns one translation of each source; leave it out")
    translator = model.load(*runs)
    folder = output or translator.run.folder / "distilled"
    with Ticker("translated lines:") as ticker:
        found = write(translator, folder, part, ticker, **changes)
    if as_json:
        files = {"src": str(found.src), "tgt": str(found.tgt)}
        result_json({**files, "lines": found.lines, "before": found.before, "setting": found.setting})
        return
    if found.before:
        say(f"{found.before:,} of {found.lines:,} lines were there already")
    result(f"{found.lines:,} sources and their translations: {found.src} and {found.tgt}")
    result(f"train on them: regard train RECIPE {shlex.quote(found.setting)}")
