"""regard demo: train a small Transformer on generated data and show the result."""

import math
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from regard.cli import screen
from regard.cli.attention import draw_map
from regard.cli.options import AsJson, Overrides, one_of
from regard.cli.screen import ProgressLine, print_json, print_result, report
from regard.cli.shell import INTERRUPTED, as_called
from regard.cli.training import outcome_values, summary, train_with_progress
from regard.errors import UserError
from regard.messages import Message, localize

if TYPE_CHECKING:
    from regard.run.model import Evaluation, Model

DEMOS = ("dates", "numbers")
QUICK_SETTINGS = (
    "training.max_steps=40", "training.warmup=10", "training.validate_every=40", "training.log_every=4",
    "training.batch_tokens=512", "decoding.extra_length=1",
)  # fmt: skip
SHOWN_EXAMPLES = 10
SHOWN_SCORES = ("exact match", "chrF", "perplexity")

OWN_FILES = Message(
    "train on your own files, one sentence per line; line n of one file is the translation of line n of the other:"
)
OWN_RECIPE = """\
  cat > my.toml <<'END'
  name = "my"
  data.train = { src = "train.src", tgt = "train.tgt" }
  END
  regard train my.toml"""


def demo(
    name: Annotated[str, Argument(metavar="dates|numbers", help="Recipe to train.")] = "dates",
    settings: Overrides = None,
    folder: Annotated[
        Path | None, Option("--folder", metavar="FOLDER", show_default="runs/demo-NAME", help="Folder of the new run.")
    ] = None,
    quick: Annotated[
        bool, Option("--quick", help="Train for a few seconds only, to test the installation; outputs are poor.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a small Transformer in a minute or two on a laptop."""
    from regard.files import write_json
    from regard.run.model import Translator
    from regard.run.report import evaluation_report
    from regard.tasks.registry import load_recipe
    from regard.viz.report import write_report

    one_of("the demo", name, DEMOS)
    title = f"demo-{name}"
    recipe = load_recipe(name, [f"name={title}", *(QUICK_SETTINGS if quick else ()), *(settings or [])])
    folder = folder or Path("runs") / title
    remove_earlier_demo(folder, recipe.name)
    trained = train_with_progress(recipe, folder, resume=False)
    if trained.outcome.reason == "interrupted":
        report(summary(trained))
        raise typer.Exit(INTERRUPTED)
    translator = Translator.load(folder, device=recipe.runtime.device)
    with ProgressLine(Message("predicted:")) as progress:
        evaluation = translator.evaluate("test", progress=progress)
    write_json(folder / "evaluations" / "test-best.json", evaluation.to_json())
    page = folder / "report.html"
    write_report(page, evaluation_report(translator, evaluation))
    if as_json:
        scores = {score.name: score.value for score in evaluation.scores}
        values = {**outcome_values(trained), "scores": scores, "sentences": len(evaluation.examples)}
        print_json({**values, "report": str(page)})
        return
    print_demo(translator, evaluation)
    print_result(f"{localize(Message('everything on one page, with every layer and head: {page}', page=page))}\n")
    print_result(next_steps(folder, evaluation.examples[0]["src"]))


def remove_earlier_demo(folder: Path, name: str) -> None:
    """Remove an earlier demo; a UserError if the folder holds another run."""
    from regard.files import locked
    from regard.run.run import Run
    from regard.run_files import RECIPE

    if not (folder / RECIPE).exists():
        return
    other = Run.open(folder).recipe.name
    if other != name:
        problem = f"{folder} already contains a run of recipe {other}"
        raise UserError(problem, "choose a different folder with `--folder`", code="run-exists", where=folder)
    with locked(folder):
        shutil.rmtree(folder)


def print_demo(model: "Model", evaluation: "Evaluation") -> None:
    """Print loss curve, scores, translations and attention."""
    from regard.run.report import loss_curves, read_metrics
    from regard.viz.axes import Plot, Point
    from regard.viz.plots_text import plot_text

    losses = loss_curves(read_metrics(model.run.folder))
    points = [Point(step, loss) for step, loss in losses["train loss"] if math.isfinite(loss)]
    if points:
        loss, step = localize(Message("training loss")), localize(Message("step"))
        screen.print_drawing(f"\n{plot_text(Plot({loss: points}, x=step), colour=screen.in_colour())}\n")
    print_result(Message("on {count:,} inputs that are not in the training data:", count=len(evaluation.examples)))
    screen.print_scores([score for score in evaluation.scores if score.name in SHOWN_SCORES])
    pairs = list(zip(evaluation.examples, evaluation.predictions, strict=True))[:SHOWN_EXAMPLES]
    rows = []
    for example, prediction in pairs:
        correct = prediction["translation"] == example["tgt"]
        reference = "" if correct else example["tgt"]
        rows.append(["✓" if correct else "✗", example["src"], prediction["translation"], reference])
    screen.print_table(("", Message("input"), Message("output"), Message("reference")), rows)
    short = [pair for pair in pairs if pair[1]["parts"] == 1]  # a longer input is translated in parts
    if short:
        # The longest input with a correct output has the most attention weights.
        example, prediction = max(
            short, key=lambda pair: (pair[1]["translation"] == pair[0]["tgt"], len(pair[0]["src"]))
        )
        maps = model.task.attention(model.model, example, prediction)
        print_result(f"{example['src']}  →  {prediction['translation']}\n")
        screen.print_drawing(f"{draw_map(maps[-1])}\n")


def next_steps(folder: Path, source: str) -> str:
    """Commands to try next."""
    run, example = shlex.quote(str(folder)), shlex.quote(source)
    commands = "\n".join(
        [
            localize(Message("next:")),
            f"  echo {example} | regard translate {run}",
            f"  regard inspect {run} {example}",
            f"  regard evaluate {run} --report {run}/report.html",
            "",
            localize(OWN_FILES),
            OWN_RECIPE,
        ]
    )
    return as_called(commands)
