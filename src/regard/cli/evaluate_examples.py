"""regard evaluate, for models of understanding: how often what they say is right."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.options import one_of
from regard.cli.screen import Ticker, result, result_json, say, table
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.data.examples import Example
    from regard.metrics.significance import Comparison
    from regard.run import ExampleEvaluation, Predictor, PretrainingRun, UnderstandingRun

MOST_CLASSES = 30
CONFUSIONS = 10


def evaluate_examples(
    run: "UnderstandingRun | PretrainingRun",
    on: str,
    file: str | None,
    against: str | None,
    model: dict[str, Any],
    output: Path | None,
    as_json: bool,
) -> None:
    """Score the run's test examples, or another file of them, and compare with another run if that is asked for."""
    from regard.files import require_writable, write_json
    from regard.run import Predictor

    weights = {name: model[name] for name in ("checkpoint", "device", "precision")}
    predictor = Predictor(run, **weights)
    other = None if against is None else rival(against, predictor, weights)
    name, data = examples_of(run, on, file)
    path = output or run.folder / "evaluations" / f"{name}-{predictor.checkpoint}.json"
    require_writable(path)
    found = measure(predictor, data, name)
    write_json(path, found.to_json())
    values: dict[str, Any] = {"file": str(path), **brief(found)}
    comparisons = []
    if other is not None:
        from regard.run.comparing import compare_evaluations

        comparisons = compare_evaluations(run.recipe.task, measure(other, found.examples, name), found)
        values |= {"against": against, "comparison": [asdict(each) for each in comparisons]}
    if as_json:
        result_json(values)
        return
    show(found, run.recipe.task, getattr(run, "labels", ()))
    if comparisons:
        show_against(comparisons, str(against), str(run.folder))
    count = f"{len(found.examples):,} examples " if found.examples else ""
    result(f"{count}in {found.seconds:.1f} seconds; scores and what was said: {path}")


def examples_of(
    run: "UnderstandingRun | PretrainingRun", on: str, file: str | None
) -> "tuple[str, str | list[Example]]":
    """A name for the data, and the part of the recipe's or the examples of the file."""
    from regard.data.formats import read_examples
    from regard.run import PretrainingRun

    if file is None:
        part = one_of("--on", on, ("test", "valid"))
        data = run.recipe.data
        if not getattr(data, part) and not getattr(data, "hold_out_test" if part == "test" else "hold_out", 0):
            remedy = "write --on valid, or give --file FILE" if part == "test" and data.valid else "give --file FILE"
            raise UserError(f"the recipe of {run.folder} names no {part} data", remedy)
        return part, part
    if isinstance(run, PretrainingRun):
        raise UserError("--file is for examples with labels, and a pretrained model has none", "give --on test|valid")
    return Path(file).name, list(read_examples([source_like(run, file)], Path(), run.recipe.fields))


def source_like(run: "UnderstandingRun", file: str) -> Any:
    """The file read as the recipe reads its own of the same ending; else by the usual names of columns."""
    from regard.data.lines import file_ending
    from regard.data.settings import build_source

    data = run.recipe.data
    known = next(
        (each for each in (*data.test, *data.valid, *data.train) if file_ending(each.file or "") == file_ending(file)),
        None,
    )
    theirs = {} if known is None else known.model_dump(exclude={"file", "where", "labels_file", "contexts_file"})
    return build_source({**theirs, "file": file}, run.recipe.fields, "--file")


def rival(against: str, predictor: "Predictor", weights: dict[str, Any]) -> "Predictor":
    """The run to compare with, which says something of the same kind."""
    from regard.run import Predictor
    from regard.run.comparing import COMPARED

    task, other = predictor.run.recipe.task, Predictor.load(against, **weights)
    if task not in COMPARED:
        raise UserError(
            f"--against compares what is right or wrong example by example, and {task} is not",
            f"evaluate both runs and compare their scores; it is for {', '.join(COMPARED)}",
        )
    if other.run.recipe.task != task:
        raise UserError(f"{against} has another task: {other.run.recipe.task}", f"compare with a run of task {task}")
    return other


def measure(predictor: "Predictor", data: "str | list[Example]", name: str) -> "ExampleEvaluation":
    """Evaluate with a moving count."""
    say(f"asking {predictor.run.folder} ({predictor.checkpoint}) about {name}")
    with Ticker("examples:") as ticker:
        return predictor.evaluate(data, name, progress=ticker)


def brief(found: "ExampleEvaluation") -> dict[str, Any]:
    """An evaluation without its texts."""
    return {**found.to_json(), "examples": len(found.examples)}


def show(found: "ExampleEvaluation", task: str, labels: tuple[str, ...]) -> None:
    """The scores, and for classes which of them are found, and taken for which."""
    rows = [[score.name, f"{score.value:.2f}", score.signature] for score in found.scores]
    table(("metric", "value", "computed as"), rows, right=("value",))
    if task == "classification":
        show_classes(found)
        show_confusions(found)
        if unknown := set(labels_of(found)[1]) - set(labels):
            say(f"note: labels this run never learnt, which count as wrong: {', '.join(sorted(unknown)[:8])}")


def show_classes(found: "ExampleEvaluation") -> None:
    """Precision, recall and F1 of each class, where they are few enough to read."""
    from regard.metrics.classification import counts_by_class

    said, gold = labels_of(found)
    counts = {str(label): each for label, each in counts_by_class(said, gold).items()}
    if len(counts) > MOST_CLASSES:
        return
    rows = [
        [label, *(f"{100 * share:.2f}" for share in (each.precision, each.recall, each.f1)), f"{each.gold:,}"]
        for label, each in sorted(counts.items())
    ]
    columns = ("class", "precision", "recall", "F1", "examples")
    table(columns, rows, right=columns[1:])


def show_confusions(found: "ExampleEvaluation") -> None:
    """What is most often taken for something else."""
    said, gold = labels_of(found)
    wrong = Counter((is_, said_) for is_, said_ in zip(gold, said, strict=True) if is_ != said_)
    if wrong:
        rows = [[is_, said_, f"{times:,}"] for (is_, said_), times in wrong.most_common(CONFUSIONS)]
        table(("it is", "said", "times"), rows, right=("times",))


def labels_of(found: "ExampleEvaluation") -> tuple[list[str], list[str]]:
    """What was said, and what is right."""
    return [str(each["label"]) for each in found.said], [str(each["label"]) for each in found.examples]


def show_against(comparisons: "list[Comparison]", base: str, run: str) -> None:
    """Both scores, their difference and whether luck explains it."""
    from regard.cli.evaluate import show_comparison

    show_comparison(comparisons, base, run)
