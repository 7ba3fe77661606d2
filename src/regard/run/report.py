"""The HTML page of a run of any task: curves from metrics.jsonl, scores, tables, examples, and attention weights."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, Field

from regard import __version__
from regard.errors import UserError
from regard.files import JsonObject
from regard.messages import Message, find_message, format_duration, join_messages
from regard.metrics.significance import SIGNIFICANCE_LEVEL, Comparison
from regard.reading import check_type, parse_json, read_lines
from regard.run.model import Evaluation, Model
from regard.run_files import METRICS, shown_name
from regard.tasks import operations
from regard.tasks.base import Example, Prediction
from regard.training.checkpoint import step_of
from regard.viz.content import Table
from regard.viz.report import AttentionMap, MonitorCurve, Report, ShownExample

MAX_EXAMPLES, MAX_EXPLAINED = 50, 10
MAX_TOKENS = 96
"""Tokens of a side of a drawn attention map; a larger one is a grey square, and a large file."""

Points = list[tuple[float, float]]
Record = JsonObject


class TrainLine(BaseModel):
    """The values of a line about training that reports and the ladder use."""

    kind: str
    step: int
    nll: float
    learning_rate: float
    seconds: float
    tokens: int
    tokens_per_second: float = Field(gt=0)


class ValidationMetrics(BaseModel, extra="allow"):
    """The metrics of a validation: the loss, and others."""

    loss: float
    __pydantic_extra__: dict[str, float] = Field(init=False)


class ValidationLine(BaseModel):
    """The values of a line about a validation that a report shows."""

    kind: str
    step: int
    metrics: ValidationMetrics
    best: bool = False


RECORDS: dict[str, type[TrainLine] | type[ValidationLine]] = {"train": TrainLine, "validation": ValidationLine}


def read_metrics(folder: Path) -> list[Record]:
    """The lines of metrics.jsonl, checked; a last line that a killed process left incomplete is skipped."""
    path = folder / METRICS
    records = []
    for number, line in enumerate(read_lines(path) if path.exists() else (), 1):
        if not line.endswith(b"\n"):
            break
        records.append(checked_record(line, f"{path}:{number}"))
    return [record for record in records if record]


def checked_record(line: bytes, where: str) -> Record | None:
    """A line of metrics.jsonl; None if it is of another kind."""
    try:
        record = check_type(parse_json(line), Record, where)
    except ValueError as error:
        raise UserError(f"{where} is damaged: {error}", code="damaged-file", where=where) from error
    kind = RECORDS.get(str(record.get("kind")))
    return None if kind is None else check_type(record, kind, where).model_dump()


def loss_curves(records: Sequence[Record]) -> dict[str, Points]:
    """The mean negative log-likelihood by step, in training and in validation."""
    return {
        "train loss": [(item["step"], item["nll"]) for item in records if item["kind"] == "train"],
        "validation loss": [
            (item["step"], item["metrics"]["loss"]) for item in records if item["kind"] == "validation"
        ],
    }


def monitor_curve(records: Sequence[Record], monitor: str) -> MonitorCurve | None:
    """The monitored metric in validation and the step of its best value; None for the loss, which has a curve."""
    validations = [item for item in records if item["kind"] == "validation" and monitor in item["metrics"]]
    if monitor == "loss" or not validations:
        return None
    best = [item["step"] for item in validations if item.get("best")]
    points = [(item["step"], item["metrics"][monitor]) for item in validations]
    return MonitorCurve(monitor.replace("_", " "), points, best[-1] if best else None)


def learning_rate(records: Sequence[Record]) -> Points:
    return [(item["step"], item["learning_rate"]) for item in records if item["kind"] == "train"]


def run_facts(model: Model, records: Sequence[Record]) -> dict[str, str]:
    """Folder, checkpoint, task, data, model, size and training time of a run; date and version of the page."""
    recipe, path = model.run.recipe, model.run.checkpoints.resolve(model.checkpoint)
    trained = [item for item in records if item["kind"] == "train"]
    step = step_of(path) if path.name.startswith("step-") else 0
    facts = {
        "run": shown_name(model.run.folder),
        "checkpoint": model.checkpoint,
        "step": f"{step:,}" if step else "",
        "task": find_message(recipe.about or recipe.task),
        "data": ", ".join(map(str, recipe.data.train)),
        "model": recipe.model.summary,
        "parameters": f"{sum(weight.numel() for weight in model.model.parameters()):,}",
        **operations.facts(model.task),
        "training steps": f"{trained[-1]['step']:,}" if trained else "",
        "training time": format_duration(trained[-1]["seconds"]) if trained else "",
        "seed": str(recipe.runtime.seed),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": f"regard {__version__}",
    }
    return {name: fact for name, fact in facts.items() if fact}


def evaluation_report(
    model: Model,
    evaluation: Evaluation,
    comparisons: Sequence[Comparison] = (),
    against: str = "",
    max_examples: int = MAX_EXAMPLES,
    max_explained: int = MAX_EXPLAINED,
) -> Report:
    """The page of an evaluation; the first `max_explained` of its examples have their attention maps. `comparisons` are
    those with the run `against`."""
    records, task, pairs = read_metrics(model.run.folder), evaluation.task, evaluation.pairs
    shown = [ShownExample.of(task.describe(*pair)) for pair in pairs]
    examples: list[ShownExample] = []
    remaining = max_explained
    right = [item.reference == item.output if item.correct is None else item.correct for item in shown]
    for index in choose_examples(right, max_examples):
        maps = attention_or_none(model, *pairs[index]) if remaining else None
        remaining -= maps is not None
        examples.append(replace(shown[index], attention=maps))
    predicted = [example for example, _ in pairs], [prediction for _, prediction in pairs]
    tables = task.tables(*predicted, page=True) if pairs else []
    count = [Message("{count:,} examples", count=len(evaluation.examples))] if evaluation.examples else []
    options = [f"{key}={value}" for key, value in evaluation.options.items()]
    return Report(
        title=title_of(model),
        facts={"evaluated on": join_messages(", ", [evaluation.data, *count, *options]), **run_facts(model, records)},
        curves=loss_curves(records),
        learning_rate=learning_rate(records),
        monitor=monitor_curve(records, model.run.recipe.training.monitor),
        scores=[(score.name, score.value, score.signature) for score in evaluation.scores],
        tables=[*comparison_table(comparisons, against), *tables],
        examples=examples,
    )


def title_of(model: Model) -> str:
    return model.run.folder.absolute().name


def comparison_table(comparisons: Sequence[Comparison], base: str) -> list[Table]:
    """The scores of another run and of this one on the same examples, with a bootstrap test."""
    columns = {"metric": "text", base: "percent", "this run": "percent", "difference": "text", "95 % interval": "text"}
    rows = [
        [
            item.metric, item.base, item.other, f"{item.delta:+.2f}", f"[{item.ci_low:+.2f}, {item.ci_high:+.2f}]",
            f"{item.p_value:.3f}", "✓" if item.p_value < SIGNIFICANCE_LEVEL else "",
        ]
        for item in comparisons
    ]  # fmt: skip
    return [Table("comparison", columns | {"p": "text", "significant": "text"}, rows)] if rows else []


def choose_examples(correct: Sequence[bool], count: int) -> list[int]:
    """The first examples, in order; if there are enough right ones, at most half of them are wrong."""
    right = [index for index, value in enumerate(correct) if value]
    wrong = [index for index, value in enumerate(correct) if not value]
    wrong = wrong[: max(count // 2, count - len(right))]
    return sorted([*wrong, *right[: count - len(wrong)]])


def attention_or_none(model: Model, example: Example, prediction: Prediction) -> list[AttentionMap] | None:
    """The attention maps of an example; None if it has none or if they are too large to draw."""
    try:
        maps = model.task.attention(model.model, example, prediction)
    except UserError:  # the example is too long
        return None
    small = all(max(len(item.rows), len(item.columns)) <= MAX_TOKENS for item in maps)
    return maps if maps and small else None
