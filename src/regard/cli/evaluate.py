"""regard evaluate: scores of a run on test data, and a comparison with another run."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import AsJson, DataOptions, ModelOptions, Options, RunFolder, SearchOptions
from regard.cli.scores import print_comparison, print_scores
from regard.cli.screen import ProgressLine, print_json, print_result, print_table, report

if TYPE_CHECKING:
    from regard.data.sources import Source
    from regard.recipe import Recipe
    from regard.run.model import Evaluation, Model
    from regard.tasks.base import Task


def evaluate(
    run: RunFolder,
    data: DataOptions,
    search: SearchOptions,
    model: ModelOptions,
    against: Annotated[str | None, typer.Option(metavar="RUN", help="Compare with this run on the same data.")] = None,
    tokenize: Annotated[
        str | None, typer.Option(metavar="NAME", help="The tokenizer of BLEU: 13a, zh, char, intl, ... [13a]")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The file for scores and predictions [RUN/evaluations/NAME.json]."
        ),
    ] = None,
    page: Annotated[
        bool, typer.Option("--report", help="Also write an HTML page with examples and attention.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compute the scores of a run on test data.

    Translation: BLEU, chrF and TER by sacreBLEU, exact match and perplexity. Language models: perplexity per token and
    per word, and bits per character. Parsing: labelled brackets as EVALB counts them. Labelled tasks: accuracy, F1,
    correlations, entity scores or the scores of SQuAD. Each score comes with the way it was computed. No example is
    left out. With --against, a paired bootstrap test compares two runs. Scores, examples and predictions are written
    as JSON. --file is read as the recipe reads its own files of the same ending.

    \b
    Examples:
      regard evaluate runs/de
      regard evaluate runs/de --on valid --checkpoint averaged --beam 8
      regard evaluate runs/zh --src news.en --tgt news.zh --tokenize zh
      regard evaluate runs/de --against runs/de-old --report
      regard evaluate runs/wikitext-2-lstm --file other.txt
      regard evaluate runs/sst-2 --against runs/sst-2-small
    """
    from regard.files import require_writable, write_json

    evaluated = model.load(run)
    options = search.changes() | ({} if tokenize is None else {"tokenize": tokenize})
    task = evaluated.task.configure(**options)
    base = None
    if against is not None:
        task.check_comparable()
        base = model.load(against, task=task.name)
    name, sources = data.select(task)
    # The name has all options, so that the evaluation of one search does not overwrite that of another.
    title = "-".join([name, model.checkpoint, *(f"{key}={value}" for key, value in options.items())])
    path = output or evaluated.run.folder / "evaluations" / f"{title}.json"
    require_writable(path)
    evaluation = evaluate_with_progress(evaluated, name, sources, options)
    write_json(path, evaluation.to_json())
    values = {"file": str(path), **evaluation.to_json(texts=False)}
    comparisons = []
    if base is not None:
        other = evaluate_with_progress(base, name, sources, options)
        comparisons = evaluated.compare(other, evaluation)
        values |= {"against": against, "comparison": [asdict(item) for item in comparisons]}
    if page:
        values["report"] = write_page(evaluated, evaluation, path.with_suffix(".html"))
    if as_json:
        print_json(values)
        return
    print_evaluation(task, evaluation)
    if comparisons:
        print_comparison(comparisons, str(against), run)
    count = f"{len(evaluation.examples):,} examples in " if evaluation.examples else ""
    print_result(f"{count}{evaluation.seconds:.1f} seconds; scores and predictions: {path}")
    if page:
        print_result(f"report: {values['report']}")


def evaluate_with_progress(model: "Model", name: str, sources: "list[Source] | None", options: Options) -> "Evaluation":
    """Evaluate a run on a split or on other sources, with a count on the terminal."""
    on = name if sources is None else ", ".join(map(str, sources))
    report(f"evaluating {model.run.folder} ({model.checkpoint}) on {on}")
    split = name if sources is None else "test"
    with ProgressLine("predicted:") as progress:
        return model.evaluate(split, sources, name=name, progress=progress, **options)


def print_evaluation(task: "Task[Recipe]", evaluation: "Evaluation") -> None:
    """Print the scores, and the tables and notes of the task."""
    print_scores(evaluation.scores)
    for table in task.details(evaluation.examples, evaluation.predictions) if evaluation.examples else ():
        print_table(table.columns, table.rows, table.right)
    for note in task.notes(evaluation.examples):
        report(f"note: {note}")


def write_page(model: "Model", evaluation: "Evaluation", path: Path) -> str:
    """Write the HTML page of an evaluation and return its path."""
    from regard.run.report import evaluation_report
    from regard.viz.report import write_report

    write_report(path, evaluation_report(model, evaluation))
    return str(path)
