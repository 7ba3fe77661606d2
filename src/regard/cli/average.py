"""regard average: the mean of a run's last checkpoints."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import AsJson, RunFolder
from regard.cli.screen import result, result_json, say
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.run import Run


def average(
    run: RunFolder,
    last: Annotated[int, typer.Option(metavar="N", min=2, help="Average the newest N checkpoints that are kept.")] = 5,
    checkpoints: Annotated[
        str, typer.Option(metavar="NAME,NAME", help="Average these instead: step-00001000,step-00002000.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Average the weights of a run's last checkpoints.

    The result is a checkpoint named averaged: the mean of the last few is often a little better than any of them, for
    no training (Vaswani et al. 2017, section 6.1). How many checkpoints a run keeps is its setting training.keep.

    \b
    Examples:
      regard average runs/de
      regard average runs/de --last 3
      regard translate runs/de --checkpoint averaged < input.txt
    """
    from regard.run import Run
    from regard.training.averaging import average_checkpoints

    opened = Run.open(run)
    chosen = named(opened, checkpoints) if checkpoints else newest(opened, last)
    saved = opened.checkpoints.save_average(average_checkpoints(chosen), chosen)
    if as_json:
        result_json({"run": run, "checkpoint": saved.name, "averaged": [path.name for path in chosen]})
        return
    result(f"averaged {len(chosen)} checkpoints ({', '.join(path.name for path in chosen)}) into {saved}")
    verb = {"translation": "translate", "parsing": "parse"}.get(opened.recipe.task, "evaluate")
    result(f"use it: regard {verb} {shlex.quote(run)} --checkpoint {saved.name}")


def named(run: "Run", names: str) -> list[Path]:
    """The checkpoints of a comma-separated list, each of them whole and counted once."""
    found = (run.checkpoints.resolve(name.strip()) for name in names.split(",") if name.strip())
    chosen = list(dict.fromkeys(found))
    if len(chosen) < 2:
        raise UserError(f"--checkpoints {names} names fewer than two checkpoints", f"there are {kept_names(run)}")
    return chosen


def newest(run: "Run", count: int) -> list[Path]:
    """The newest checkpoints, each of them whole; fewer than asked for is said, one alone has no mean."""
    kept = run.checkpoints.all()[-count:]
    remedy = f"train with training.keep={count}, so that this many stay"
    if len(kept) < 2:
        raise UserError(f"{run.folder} keeps {kept_names(run) or 'no checkpoint'}: nothing to average", remedy)
    if len(kept) < count:
        say(f"note: only {len(kept)} of the {count} checkpoints asked for are kept; {remedy}")
    return [run.checkpoints.resolve(path.name) for path in kept]


def kept_names(run: "Run") -> str:
    return ", ".join(path.name for path in run.checkpoints.all())
