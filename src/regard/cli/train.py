"""regard train: from a recipe to a run."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import AsJson
from regard.cli.screen import Ticker, result, result_json, say, to_json

if TYPE_CHECKING:
    from regard.recipe import Recipe
    from regard.run import Run, UnderstandingRun
    from regard.run.train import Trained

INTERRUPTED = 130


def train(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE", help="A recipe file, the name of one that regard recipes lists, or a run's folder."
        ),
    ],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Settings changed for this run.")
    ] = None,
    # Not --run: torchrun would take it for an abbreviation of its own --run-path.
    run: Annotated[
        Path | None, typer.Option("--folder", "-o", metavar="FOLDER", help="Where the run lives [runs/NAME].")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a run in that folder stopped.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model as a recipe says.

    It reads the text, learns its vocabulary, then learns to translate, and keeps the best weights. Ctrl-C
    stops after the current step and saves; a run's own folder in place of a recipe goes on with it, exactly as if
    nothing had happened. regard recipes --settings lists everything NAME=VALUE can change.

    \b
    Examples:
      regard train dates
      regard train my.toml training.max_steps=2000 model.size=small --folder runs/small
      regard train runs/small training.max_steps=4000          go on, and further
      torchrun --nproc-per-node 2 -m regard train my.toml -o runs/two
    """
    wanted, folder, again = find(recipe, settings or [], run, resume)
    trained = train_recipe(wanted, folder, again)
    if as_json:
        result_json(outcome_json(trained))
    else:
        result(summary(trained))
        if trained.outcome.reason != "interrupted":
            result(what_next(trained.run))
    if trained.outcome.reason == "interrupted":
        raise typer.Exit(INTERRUPTED)


def find(source: str, settings: list[str], run: Path | None, resume: bool) -> tuple["Recipe", Path, bool]:
    """The recipe, the folder of its run, and whether to go on with what is there.

    A folder is a run, which brings its own recipe; a folder that is none may share its name with a shipped recipe.
    """
    from regard.recipe import load_recipe, shipped_recipes
    from regard.run import Run

    folder = Path(source)
    is_run = (folder / "recipe.toml").is_file()
    if is_run or (folder.is_dir() and source not in {path.stem for path in shipped_recipes()}):
        Run.open(folder)
        return load_recipe(folder / "recipe.toml", settings), run or folder, resume or run is None
    recipe = load_recipe(source, settings)
    return recipe, run or Path("runs") / recipe.name, resume


def train_recipe(recipe: "Recipe", folder: Path, resume: bool) -> "Trained":
    """Train with the progress of every stage on stderr."""
    from regard.run import train as train_run

    say(f"{recipe.name}: {recipe.about or recipe.task}, in {folder}")
    with Ticker("tokenised pairs:") as ticker:

        def tell(text: str) -> None:
            ticker.clear()
            say(text)

        return train_run(recipe, folder, resume=resume, say=tell, progress=ticker)


def outcome_json(trained: "Trained") -> dict[str, Any]:
    """How training ended, for programs."""
    outcome, run = trained.outcome, trained.run
    return {
        "run": str(run.folder),
        "step": outcome.step,
        "reason": outcome.reason,
        "monitor": run.recipe.training.monitor,
        "best": outcome.best,
        "best_step": outcome.best_step,
        "metrics": outcome.metrics,
    }


def summary(trained: "Trained") -> str:
    """How training ended, for people."""
    outcome, run = trained.outcome, trained.run
    if outcome.reason == "interrupted":
        return f"saved at step {outcome.step}; go on with: regard train {shlex.quote(str(run.folder))}"
    lines = [f"{run.folder}: trained {outcome.step:,} steps (stopped by {outcome.reason})"]
    if outcome.best is not None:
        lines.append(
            f"best {run.recipe.training.monitor}: {outcome.best:.4g} in validation, at step {outcome.best_step}"
        )
    if outcome.reason == "max_steps":
        training = run.recipe.training
        epochs = getattr(training, "batch_examples", None) and outcome.step < training.max_steps and training.max_epochs
        more = f"training.max_epochs={2 * epochs:g}" if epochs else f"training.max_steps={2 * outcome.step}"
        lines.append(f"further: regard train {shlex.quote(str(run.folder))} {more}")
    return "\n".join(lines)


def what_next(run: "Run") -> str:
    """Commands that work as they stand."""
    from regard.run import LanguageRun, PretrainingRun, UnderstandingRun

    if isinstance(run, LanguageRun):
        return what_next_language(run)
    if isinstance(run, PretrainingRun):
        return what_next_pretraining(run)
    if isinstance(run, UnderstandingRun):
        return what_next_understanding(run)
    folder, example = shlex.quote(str(run.folder)), shlex.quote(example_of(run))
    lines = [
        "next:",
        f"  regard parse {folder} {example}"
        if run.recipe.task == "parsing"
        else f"  echo {example} | regard translate {folder}",
        f"  regard evaluate {folder}{'' if run.recipe.data.test else ' --on valid'}",
    ]
    if run.recipe.model.has_attention:
        lines.append(f"  regard inspect {folder} {example}")
    if any(corpus.format == "dialogues" for corpus in run.recipe.data.train):
        lines.insert(1, f"  regard chat {folder}")
    return "\n".join(lines)


def what_next_language(run: "Run") -> str:
    """The same for a language model."""
    folder, on = shlex.quote(str(run.folder)), "" if run.recipe.data.test else " --on valid"
    return f'next:\n  regard generate {folder} ""\n  regard evaluate {folder}{on}'


def what_next_pretraining(run: "Run") -> str:
    """The same for a BERT: fill a gap, make vectors, and learn something else from there."""
    folder, on = shlex.quote(str(run.folder)), "" if run.recipe.data.test else " --on valid"
    start = shlex.quote(f"start_from={run.folder}")
    return (
        f'next:\n  regard predict {folder} "The [MASK] is here."\n  regard embed {folder} "A text."\n'
        f"  regard evaluate {folder}{on}\n  regard train RECIPE {start}          with a recipe of understanding"
    )


def what_next_understanding(run: "UnderstandingRun") -> str:
    """The same for whatever says something about texts."""
    folder, example = shlex.quote(str(run.folder)), shlex.quote(asked_of(run))
    lines = [
        "next:",
        f"  regard predict {folder} {example}",
        f"  regard evaluate {folder}{'' if run.splits.test else ' --on valid'}",
    ]
    if run.recipe.model.has_attention:
        lines.append(f"  regard inspect {folder} {example}")
    return "\n".join(lines)


def asked_of(run: "UnderstandingRun", longest: int = 200) -> str:
    """A short example of the validation data, as regard predict takes it: a text, or JSON where it is more."""
    gold = run.recipe.fields.target
    asked = ({key: value for key, value in each.items() if key not in (gold, "id")} for each in run.examples("valid"))
    texts = (each["text"] if set(each) == {"text"} else to_json(each) for each in asked)
    return next((text for text in texts if text.strip() and len(text) <= longest and text.isprintable()), "...")


def example_of(run: "Run", longest: int = 80) -> str:
    """A short source sentence of the validation data."""
    from regard.data.formats import read_examples

    pairs = read_examples(run.recipe.data.valid[:1], run.recipe.data.folder, run.recipe.fields)
    texts = (pair["src"].strip() for pair, _ in zip(pairs, range(100), strict=False))
    return next((text for text in texts if text and len(text) <= longest and text.isprintable()), "...")
