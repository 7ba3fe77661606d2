"""regard ladder: the models from recurrent networks to the Transformer, trained on the same data and compared."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from regard.cli.options import AsJson, one_of
from regard.cli.screen import print_json, print_result, print_table, report
from regard.cli.shell import FAILED, INTERRUPTED
from regard.errors import UserError
from regard.messages import Message, is_chinese, localize

if TYPE_CHECKING:
    from regard.files import JsonObject
    from regard.ladder.ladder import Ladder, VariantFailure
    from regard.viz.ladder import LadderPage


def ladder(
    recipe: Annotated[str, Argument(metavar="RECIPE", help="Base recipe (Transformer or LSTM).")] = "small-numbers",
    settings: Annotated[
        list[str] | None,
        Argument(metavar="NAME=VALUE", help="Settings for all variants; VARIANT:NAME=VALUE for one variant only."),
    ] = None,
    folder: Annotated[
        Path | None, Option("--folder", metavar="FOLDER", show_default="runs/ladder-NAME", help="Folder for all runs.")
    ] = None,
    variants: Annotated[
        str | None,
        Option(
            metavar="A,B,...",
            show_default="plain to masked-distilled",
            help="Variants to train; table-3: all rows in table 3 of the paper.",
        ),
    ] = None,
    seeds: Annotated[str, Option(metavar="N,M,...", help="Seeds; each variant is trained once per seed.")] = "1",
    steps: Annotated[
        int | None, Option("--steps", metavar="STEPS", min=1, show_default="as in the recipe", help="Training steps.")
    ] = None,
    minutes: Annotated[
        float | None, Option("--minutes", metavar="MINUTES", help="Maximum training time per variant.")
    ] = None,
    race: Annotated[
        bool, Option("--race", help="Compare quality over training time and operations, in one figure.")
    ] = False,
    engine: Annotated[str, Option(metavar="readable|torch", help="Engine for measuring decoding speed.")] = "readable",
    as_json: AsJson = False,
) -> None:
    """Train variants of a model on the same data, and compare them."""
    from regard.ladder.ladder import Interrupted, open_ladder, run_ladder
    from regard.ladder.measuring import Measurement
    from regard.ladder.race import race_settings
    from regard.tasks.registry import load_recipe
    from regard.tasks.variants import RACE

    one_of("--engine", engine, ("readable", "torch"))
    numbers = parse_seeds(seeds)
    base = load_recipe(recipe)
    folder = folder or Path("runs") / f"{'race' if race else 'ladder'}-{base.name}"
    often = race_settings(steps or base.training.max_steps) if race else []
    opened = open_ladder(recipe, [*often, *(settings or [])], folder, steps, minutes, Measurement(engine=engine))
    names = [name.strip() for name in (variants or "").split(",") if name.strip()]
    selected = opened.variants.select(names or ([RACE] if race and RACE in opened.variants.groups else []))
    report(Message("variants: {count}, seeds: {seeds}, in {to}", count=len(selected), seeds=len(numbers), to=folder))
    try:
        failures = run_ladder(opened, selected, numbers, report)
    except (Interrupted, KeyboardInterrupt) as stop:
        report(Message("stopped; the same command continues in {folder}", folder=folder))
        raise typer.Exit(INTERRUPTED) from stop
    write_outputs(opened, failures, as_json, race)
    if failures:
        raise typer.Exit(FAILED)


def parse_seeds(text: str) -> list[int]:
    """The seeds of a comma-separated list."""
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError as error:
        remedy = "separate whole numbers with commas, e.g. 1,2,3"
        raise UserError(f"`--seeds` cannot be {text!r}", remedy, code="invalid-option", where="seeds") from error


def write_outputs(ladder: "Ladder", failures: "list[VariantFailure]", as_json: bool, race: bool = False) -> None:
    """Write Markdown, JSON and page of everything that is finished in the folder, and print the table; of a race also
    its picture in both languages."""
    from regard.files import write_json, write_text
    from regard.ladder.ladder import read_results
    from regard.ladder.page import ladder_page
    from regard.ladder.race import read_race
    from regard.viz.ladder import ladder_markdown, ladder_table, render_ladder

    page = ladder_page(ladder, failures)
    values = summary(page, read_results(ladder))
    files = {ending: ladder.folder / f"ladder.{ending}" for ending in ("md", "json", "html")}
    found = read_race(ladder) if race else None
    if found is not None and found.curves:
        values["race"] = found.to_json()
        files |= {"svg": ladder.folder / "race.svg", "zh.svg": ladder.folder / "race.zh.svg"}
        for ending in ("svg", "zh.svg"):
            write_text(files[ending], found.svg(chinese=ending == "zh.svg"))
    write_text(files["md"], ladder_markdown(page))
    write_json(files["json"], values)
    write_text(files["html"], render_ladder(page))
    if as_json:
        print_json({**values, "files": {ending: str(path) for ending, path in files.items()}})
        return
    columns, rows = ladder_table(page, "zh" if is_chinese() else "en")
    print_table(columns, rows, right=columns[1:])
    if found is not None and found.curves:
        print_result("")
        columns, rows = found.table()
        print_table([localize(name) for name in columns], rows, right=columns[1:])
        print_result(Message("picture: {path}", path=files["zh.svg" if is_chinese() else "svg"]))
    for variant, reason in page.failures:
        print_result(Message("{name} failed: {reason}", name=variant, reason=reason))
    print_result(Message("{md}, {json}; page: {html}", **files))


def summary(page: "LadderPage", results: "list[JsonObject]") -> "JsonObject":
    """Facts, the rows with the value of every seed, failures, and the results of all runs without pictures."""
    rows = [{"title": row.title, "paper": row.paper, "settings": row.settings, **row.values} for row in page.rows]
    runs = [{key: value for key, value in result.items() if key != "pictures"} for result in results]
    failures = [{"variant": variant, "reason": reason} for variant, reason in page.failures]
    return {"facts": dict(page.facts), "rows": rows, "failures": failures, "runs": runs}
