"""regard demo: a Transformer learns before your eyes, on data made on the spot."""

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.evaluate import measure, show_scores
from regard.cli.inspect import draw
from regard.cli.options import AsJson, one_of
from regard.cli.screen import result, result_json, say, table
from regard.cli.train import INTERRUPTED, outcome_json, summary, train_recipe
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.run import Evaluation, Run, Translator

DEMOS = ("dates", "numbers")
SHOWN = 10

OWN_FILES = """\
train on your own files, one sentence a line, line n of one the translation of line n of the other:
  cat > my.toml <<'END'
  name = "my"
  data.train = { src = "train.src", tgt = "train.tgt" }
  data.valid = { src = "valid.src", tgt = "valid.tgt" }
  model.size = "small"
  END
  regard train my.toml"""


def demo(
    name: Annotated[str, typer.Argument(metavar="dates|numbers", help="What to learn.")] = "dates",
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Settings changed, as in regard train.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option("--folder", "-o", metavar="FOLDER", help="Where the run lives [runs/demo-NAME].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Watch a Transformer learn, in a minute or two on a laptop.

    It learns to write dates of fifteen languages as ISO 8601, or English number words in German. It trains on data made
    on the spot, is tested on days (or numbers) it has never seen, shows what it attends to, and
    leaves a page with all of it in the run's folder. An earlier demo in that folder is replaced.

    \b
    Examples:
      regard demo
      regard demo numbers
      regard demo dates training.max_steps=200 --folder runs/quick
    """
    from regard.recipe import load_recipe
    from regard.run import Translator
    from regard.run.report import evaluation_report
    from regard.viz import write_report

    one_of("the demo", name, DEMOS)
    title = f"demo-{name}"
    recipe = load_recipe(name, [f"name={title}", *(settings or [])])
    folder = run or Path("runs") / title
    make_room(folder, recipe.name)
    trained = train_recipe(recipe, folder, resume=False)
    if trained.outcome.reason == "interrupted":
        say(summary(trained))
        raise typer.Exit(INTERRUPTED)
    translator = Translator.load(folder, device=recipe.runtime.device)
    found = measure(translator, recipe.data.test, recipe.data.folder, "best", "13a", {})
    found.save(folder / "evaluations" / "test-best.json")
    page = folder / "report.html"
    write_report(page, evaluation_report(translator, found))
    if as_json:
        scores = {score.name: score.value for score in found.scores}
        result_json({**outcome_json(trained), "scores": scores, "sentences": len(found.sources), "report": str(page)})
        return
    show(translator, found)
    result(f"all of it on one page, with every layer and head: {page}\n")
    result(what_next(trained.run, found))


def make_room(folder: Path, name: str) -> None:
    """Remove an earlier demo; whatever else stands there stays."""
    from regard.files import locked
    from regard.run import Run

    if not (folder / "recipe.toml").exists():
        return
    there = Run.open(folder).recipe.name
    if there != name:
        raise UserError(f"{folder} holds another run, {there}", "choose another folder with --folder FOLDER")
    with locked(folder):
        shutil.rmtree(folder)


def show(translator: "Translator", found: "Evaluation") -> None:
    """Curve, scores, translations and attention in the terminal."""
    from regard.run.report import loss_curves, read_metrics
    from regard.viz import curve

    losses = loss_curves(read_metrics(translator.run.folder))
    result("\n" + curve([loss for _, loss in losses["train loss"]], title="training loss") + "\n")
    result(f"on {len(found.sources):,} inputs it has never seen:")
    show_scores([score for score in found.scores if score.name in ("exact match", "chrF", "perplexity")])
    rows = list(zip(found.sources, found.outputs, found.references, strict=True))[:SHOWN]
    table(
        ("", "input", "output", "should be"),
        [["✓" if out == ref else "✗", src, out, "" if out == ref else ref] for src, out, ref in rows],
    )
    # The longest that is right has the most to show.
    source, output, _ = max(rows, key=lambda row: (row[1] == row[2], len(row[0])))
    result(f"{source}  →  {output}\n\n{draw(translator.explain(source)[1][-1])}\n")


def what_next(run: "Run", found: "Evaluation") -> str:
    """Commands that work as they stand."""
    folder, example = shlex.quote(str(run.folder)), shlex.quote(found.sources[0])
    lines: list[Any] = [
        "next (接下来可以试试):",
        f"  echo {example} | regard translate {folder}",
        f"  regard inspect {folder} {example}",
        f"  regard evaluate {folder} --report",
        "",
        OWN_FILES,
    ]
    return "\n".join(lines)
