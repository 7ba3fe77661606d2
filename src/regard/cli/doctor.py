"""regard doctor: what can be known to go wrong, before hours are spent."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import AsJson
from regard.cli.screen import CONTROL, Ticker, console, is_main, result, result_json

if TYPE_CHECKING:
    from regard.run.doctor import Check

UNHEALTHY = 1
COLOURS = {"pass": "green", "warn": "yellow", "fail": "bold red", "skip": "dim"}
INDENT = " " * 6


def doctor(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE", help="A recipe file, the name of one that regard recipes lists, or a run's folder."
        ),
    ],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Settings changed, as for regard train.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option("--folder", "-o", metavar="FOLDER", help="Where the run would live [runs/NAME].")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Read only the beginning of the files, and train nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find what would go wrong in training, before it begins.

    It examines files, filters, vocabulary, model, memory, disk and time. Each finding passes, warns or fails, with a
    remedy. Nothing is written into the run's folder. The exit status is 1 if anything failed.

    \b
    Examples:
      regard doctor my.toml
      regard doctor my.toml training.batch_tokens=16384 --quick
      regard doctor my.toml && regard train my.toml
    """
    from regard.run.doctor import examine, healthy, to_json

    if (Path(recipe) / "recipe.toml").is_file():  # a run brings its own recipe, and its stores are read whole
        recipe, run = str(Path(recipe) / "recipe.toml"), run or Path(recipe)
    checks: list[Check] = []
    with Ticker("pairs read:") as ticker:
        found = examine(recipe, settings or [], folder=run, quick=quick, progress=lambda _, done: ticker(done))
        for check in found:
            checks.append(check)
            ticker.clear()
            if not as_json:
                show(check)
    if as_json:
        result_json(to_json(checks))
    else:
        result(summary(checks))
    if not healthy(checks):
        raise typer.Exit(UNHEALTHY)


def show(check: "Check") -> None:
    """One finding as soon as it is known, and below it the remedy."""
    if not is_main():
        return
    from rich.text import Text

    screen = console(sys.stdout)
    line = Text.assemble((f"{check.status:<4}", COLOURS[check.status]), f"  {check.name}: ", _indented(check.finding))
    screen.print(line, soft_wrap=True)
    if check.remedy:
        screen.print(Text(f"{INDENT}-> {_indented(check.remedy)}"), soft_wrap=True)


def summary(checks: "list[Check]") -> str:
    """How many of each, in a line."""
    counts = {status: sum(check.status == status for check in checks) for status in COLOURS}
    words = {"pass": "passed", "warn": "to look at", "fail": "failed", "skip": "not examined"}
    return ", ".join(f"{count} {words[status]}" for status, count in counts.items() if count)


def _indented(text: str) -> str:
    return text.translate(CONTROL).replace("\n", f"\n{INDENT}")
