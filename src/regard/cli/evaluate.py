"""regard evaluate: scores of a run on test data, and a comparison with another run."""

from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from regard.cli import screen
from regard.cli.options import AsJson, DataOptions, ModelOptions, Options, RunFolder, SearchOptions, data_of_recipe
from regard.cli.screen import is_main, print_json, print_result, report
from regard.cli.streams import work_on
from regard.messages import Message

if TYPE_CHECKING:
    from regard.data.sources import Source
    from regard.run.model import Evaluation, Model

Output = Annotated[
    Path | None,
    Option(
        "--output",
        "-o",
        metavar="FILE",
        show_default="RUN/evaluations/NAME.json",
        help="JSON file for scores and predictions.",
    ),
]
Page = Annotated[
    Path | None, Option("--report", metavar="FILE", help="HTML report to write: curves, scores, tables, examples.")
]


def evaluate(
    run: RunFolder,
    data: DataOptions,
    search: SearchOptions,
    model: ModelOptions,
    against: Annotated[str | None, Option(metavar="RUN", help="Run to compare with, on the same data.")] = None,
    tokenize: Annotated[
        str | None, Option(metavar="NAME", show_default="by script", help="Tokenizer for BLEU: 13a, zh, char, ...")
    ] = None,
    output: Output = None,
    page: Page = None,
    as_json: AsJson = False,
) -> None:
    """Score a run on test data."""
    from regard.files import require_writable, write_json
    from regard.run.report import evaluation_report
    from regard.tasks.operations import check_comparable
    from regard.viz.report import write_report

    evaluated, base = model.load(run), None
    options = search.changes() | ({} if tokenize is None else {"tokenize": tokenize})
    task = evaluated.task.configure(**options)
    if against is not None:
        check_comparable(task)
        base = model.load(against, task=task.name)
    name, sources = data.select(task)
    path = output or evaluated.evaluation_path(name, options, sources)
    for file in filter(None, (path, page)):
        require_writable(file)
    with ExitStack() as stack:  # what is done is kept until both runs are evaluated
        evaluate_ = partial(evaluate_with_progress, stack, name=name, sources=sources, options=options)
        evaluation = evaluate_(evaluated, path, with_samples=page is not None)
        comparisons = evaluated.compare(evaluate_(base, Path(f"{path}.against")), evaluation) if base else []
        if is_main():
            write_json(path, evaluation.to_json())
    if page is not None and is_main():
        write_report(page, evaluation_report(evaluated, evaluation, comparisons, against or ""))
    if as_json:
        values = {"file": str(path), **evaluation.to_json(texts=False)}
        values |= {"against": against, "comparison": [asdict(item) for item in comparisons]} if against else {}
        print_json(values | ({"report": str(page)} if page else {}))
        return
    print_evaluation(evaluation)
    if comparisons:
        screen.print_comparison(comparisons, str(against), run)
    print_result(Message("{work}; scores and predictions: {path}", work=describe_work(evaluation), path=path))
    if page is not None:
        print_result(Message("report: {page}", page=page))


def describe_work(evaluation: "Evaluation") -> str:
    """The number of examples and the time."""
    if not evaluation.examples:
        return Message("{seconds:.1f} seconds", seconds=evaluation.seconds)
    count = len(evaluation.examples)
    return Message("{count:,} examples in {seconds:.1f} seconds", count=count, seconds=evaluation.seconds)


def evaluate_with_progress(
    stack: ExitStack,
    model: "Model",
    path: Path,
    *,
    name: str,
    sources: "list[Source] | None",
    options: Options,
    with_samples: bool = False,
) -> "Evaluation":
    """Evaluate a run on a split or on other sources; predictions are kept beside `path` until the stack ends."""
    on = name if sources is None else ", ".join(map(str, sources))
    checkpoint = f"{model.run.folder} ({model.checkpoint})"
    report(Message("evaluating {checkpoint} on {data}", checkpoint=checkpoint, data=on))
    split = name if sources is None else "test"
    from regard.data.accounts import collect_accounts
    from regard.data.digests import Digests

    with collect_accounts(report), data_of_recipe(sources):
        content = model.task.content(split, sources, Digests())
        stack.enter_context(work_on(Message("predicted:"), str(path), None, model, [content, options]))
        return model.evaluate(split, sources, name=name, with_samples=with_samples, **options)


def print_evaluation(evaluation: "Evaluation") -> None:
    """Print the scores, and the tables and notes of the task."""
    from regard.tasks.operations import unknown_labels
    from regard.viz.content import Table
    from regard.viz.report import column_title

    task = evaluation.task
    screen.print_scores(evaluation.scores)
    for table in task.tables(evaluation.examples, evaluation.predictions, page=False) if evaluation.examples else ():
        if isinstance(table, Table):
            columns, numeric = ([column_title(name) for name in names] for names in (table.columns, table.numeric))
            screen.print_table(columns, table.texts(), numeric)
    if unknown := unknown_labels(task, evaluation.examples):
        labels = ", ".join(unknown[:8])
        report(Message("note: labels that are not in the training data count as wrong: {labels}", labels=labels))
