"""regard prepare: prepare training data in parts, in many processes or on many machines."""

from typing import Annotated

from typer import Option

from regard.cli.options import AsJson, Folder, Overrides, RecipeName
from regard.cli.screen import ProgressLine, print_json, report
from regard.cli.training import find_recipe_and_folder


def prepare(
    recipe: RecipeName,
    settings: Overrides = None,
    folder: Folder = None,
    parts: Annotated[
        int, Option("--parts", metavar="N", min=1, help="Maximum number of parts per file; a part has 16 MB or more.")
    ] = 1,
    part: Annotated[
        int | None,
        Option(
            "--part",
            metavar="K",
            min=0,
            help="Write one part only, 1 to N, in this process. 0: only learn the tokenizers and plan the parts.",
        ),
    ] = None,
    on: Annotated[
        str,
        Option("--on", metavar="ADDRESS", help="Dask scheduler that distributes the work, e.g. tcp://scheduler:8786."),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Prepare training data in parts, in many processes or on many machines."""
    from regard.run.preparing import prepare_parts

    lines: dict[str, ProgressLine] = {}

    def progress(title: str, done: int, total: int) -> None:
        lines.setdefault(title, ProgressLine(title))(done, total)

    loaded, path, resume = find_recipe_and_folder(recipe, settings or [], folder, False)
    facts = prepare_parts(loaded, path, parts, part, on=on, resume=resume, report=report, progress=progress)
    for line in lines.values():
        line.clear()
    if as_json:
        print_json(facts)
