"""regard ladder: every model from recurrence to the Transformer, on one text with one budget, in one table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import AsJson, one_of
from regard.cli.screen import result, result_json, say, table
from regard.cli.train import INTERRUPTED
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.run.ladder import Failure, Ladder
    from regard.viz.ladder import LadderPage

FAILED = 1


def ladder(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="The recipe of a Transformer (or an LSTM that writes) to change.")
    ] = "small-numbers",
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="Settings changed for all rungs; RUNG:NAME=VALUE for one alone."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", "-o", metavar="FOLDER", help="Where it lives [runs/ladder-NAME].")
    ] = None,
    rungs: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Which rungs [from plain to masked-distilled].")
    ] = None,
    seeds: Annotated[str, typer.Option(metavar="N,M,...", help="Train every rung once with each of these.")] = "1",
    steps: Annotated[int | None, typer.Option(metavar="N", min=1, help="Steps of each rung [the recipe's].")] = None,
    minutes: Annotated[float | None, typer.Option(metavar="M", help="And no more minutes than this, each.")] = None,
    engine: Annotated[
        str, typer.Option(metavar="readable|torch", help="How decoding is executed where it is timed.")
    ] = "readable",
    as_json: AsJson = False,
) -> None:
    """Train every model of the lineage on one text, and compare.

    All learn from the same text with the same budget and are judged alike: scores, perplexity, alignment, speed, and
    their attention on the same sentences. Each is a run in FOLDER/RUNG-seedN; what is finished is not done
    again, so a ladder that was stopped goes on, and several commands may climb different rungs of one folder. The table
    is also written as ladder.md and ladder.json, and the page to open in a browser is ladder.html.

    \b
    Examples:
      regard ladder
      regard ladder numbers --rungs bahdanau,luong,transformer --seeds 1,2,3 --steps 300
      regard ladder multi30k-en-de luong:model.d_model=512 --minutes 2 --engine torch
      regard ladder wikitext-2-lstm --minutes 4          n-grams to the causal Transformer, by perplexity
    """
    from regard.recipe import load_recipe
    from regard.run.judging import Measuring
    from regard.run.ladder import Interrupted, climb, open_ladder

    one_of("--engine", engine, ("readable", "torch"))
    numbers = seeds_of(seeds)
    folder = folder or Path("runs") / f"ladder-{load_recipe(recipe).name}"
    climbed = open_ladder(recipe, settings or [], folder, steps, minutes, Measuring(engine=engine))
    wanted = climbed.flight.find([name.strip() for name in rungs.split(",") if name.strip()] if rungs else ())
    say(f"{len(wanted)} rungs, {len(numbers)} seed{'s' * (len(numbers) > 1)}, in {folder}")
    try:
        failures = climb(climbed, wanted, numbers, say)
    except (Interrupted, KeyboardInterrupt) as stop:
        say(f"stopped; the same command goes on with {folder}")
        raise typer.Exit(INTERRUPTED) from stop
    leave(climbed, failures, as_json)
    if failures:
        raise typer.Exit(FAILED)


def seeds_of(text: str) -> list[int]:
    """The seeds as they were written."""
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError as error:
        raise UserError(f"--seeds is {text!r}", "write whole numbers with commas between them: 1,2,3") from error


def leave(climbed: "Ladder", failures: "list[Failure]", as_json: bool) -> None:
    """Table, Markdown, JSON and page of all that is finished in the folder."""
    from regard.files import write_json, write_text
    from regard.run.ladder_page import ladder_page, results
    from regard.viz.ladder import ladder_markdown, ladder_table, write_ladder

    page = ladder_page(climbed, failures)
    values = summary(page, results(climbed))
    files = {ending: climbed.folder / f"ladder.{ending}" for ending in ("md", "json", "html")}
    write_text(files["md"], ladder_markdown(page))
    write_json(files["json"], values)
    write_ladder(files["html"], page)
    if as_json:
        result_json({**values, "files": {ending: str(path) for ending, path in files.items()}})
        return
    columns, rows = ladder_table(page)
    table(columns, rows, right=columns[1:])
    for rung, reason in page.failures:
        result(f"{rung} failed: {reason}")
    result(f"{files['md']}, {files['json']}; the page to open in a browser: {files['html']}")


def summary(page: "LadderPage", found: list[dict[str, Any]]) -> dict[str, Any]:
    """The rows with the number of every seed, and what they were measured with."""
    rows = [{"title": row.title, "paper": row.paper, "settings": row.settings, **row.values} for row in page.rows]
    runs = [{key: value for key, value in each.items() if key not in ("pictures", "made_of")} for each in found]
    failures = [{"rung": rung, "reason": reason} for rung, reason in page.failures]
    return {"facts": dict(page.facts), "rows": rows, "failures": failures, "runs": runs}
