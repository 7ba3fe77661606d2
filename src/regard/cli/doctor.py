"""regard doctor: check a recipe before training."""

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import AsJson, Folder, Overrides, RecipeName
from regard.cli.screen import CONTROL, ProgressLine, console, is_main, print_json, print_result
from regard.cli.shell import FAILED
from regard.messages import Message, join_messages, localize

if TYPE_CHECKING:
    from regard.doctor.check import Check

COLOURS = {Message("pass"): "green", Message("warn"): "yellow", Message("fail"): "bold red", Message("skip"): "dim"}
INDENT = " " * 6


def doctor(
    recipe: RecipeName,
    settings: Overrides = None,
    folder: Folder = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Read only the beginning of the files, and do not train.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a recipe before training."""
    from regard.doctor.check import healthy, to_json
    from regard.doctor.examine import examine

    if (Path(recipe) / "recipe.toml").is_file():  # the recipe of a run; its stored data are checked too
        recipe, folder = str(Path(recipe) / "recipe.toml"), folder or Path(recipe)
    lines: dict[str, ProgressLine] = {}

    def progress(title: str, done: int, total: int | None) -> None:
        lines.setdefault(title, ProgressLine(title))(done, total)

    checks: list[Check] = []
    for check in examine(recipe, settings or [], folder=folder, quick=quick, progress=progress):
        checks.append(check)
        for line in lines.values():
            line.clear()
        if not as_json:
            show(check)
    if as_json:
        print_json(to_json(checks))
    else:
        print_result(summary(checks))
    if not healthy(checks):
        raise typer.Exit(FAILED)


def show(check: "Check") -> None:
    """Print the result of one check, and below it the remedy."""
    if not is_main():
        return
    from rich.text import Text

    screen = console(sys.stdout)
    status, colour = next(item for item in COLOURS.items() if item[0] == check.status)
    finding = Message("{key}: {value}", key=check.name, value=check.finding)
    screen.print(Text.assemble((localize(status), colour), "  ", _indented(finding)), soft_wrap=True)
    if check.remedy:
        screen.print(Text(f"{INDENT}-> {_indented(check.remedy)}"), soft_wrap=True)


def summary(checks: "list[Check]") -> str:
    """The number of checks of each status, in one line."""
    counts = Counter[str](check.status for check in checks)
    words = (Message("passed"), Message("warnings"), Message("failed"), Message("skipped"))
    words = words if counts["warn"] != 1 else (words[0], Message("warning"), *words[2:])
    parts = zip((counts[status] for status in COLOURS), words, strict=True)
    return join_messages(", ", (Message("{count} {word}", count=count, word=word) for count, word in parts if count))


def _indented(text: str) -> str:
    return localize(text).translate(CONTROL).replace("\n", f"\n{INDENT}")
