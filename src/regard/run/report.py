"""The HTML page of a run of any task: curves from metrics.jsonl, scores, examples, and attention weights."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from regard.errors import UserError
from regard.metrics.significance import Comparison
from regard.reading import check_type, parse_json, read_lines
from regard.run.model import Evaluation, Explanation, Model
from regard.tasks.base import Example as TaskExample
from regard.tasks.base import Prediction
from regard.training.console import format_duration
from regard.training.log import METRICS
from regard.viz.report import AttentionMap, Example, Report

MAX_EXAMPLES, MAX_EXPLAINED = 20, 10
MAX_TOKENS = 96
"""Tokens of a side of a drawn attention map; a larger one is a grey square, and a large file."""

Points = list[tuple[float, float]]
Record = dict[str, Any]


class TrainLine(BaseModel):
    """The values of a line about training that reports and the ladder use."""

    kind: str
    step: int
    nll: float
    learning_rate: float
    seconds: float
    tokens: int
    tokens_per_second: float = Field(gt=0)


class ValidationMetrics(BaseModel):
    """The validation metrics that a report shows."""

    loss: float


class ValidationLine(BaseModel):
    """The values of a line about a validation that a report shows."""

    kind: str
    step: int
    metrics: ValidationMetrics


RECORDS: dict[str, type[TrainLine] | type[ValidationLine]] = {"train": TrainLine, "validation": ValidationLine}


def read_metrics(folder: Path) -> list[Record]:
    """The lines of metrics.jsonl, checked; a last line that a killed process left incomplete is skipped."""
    path = folder / METRICS
    records = []
    for number, line in enumerate(read_lines(path) if path.exists() else (), 1):
        if not line.endswith(b"\n"):
            break
        where = f"{path}:{number}"
        try:
            record = check_type(parse_json(line), Record, where)
        except ValueError as error:
            raise UserError(f"{where} is damaged: {error}", code="damaged-file", where=where) from error
        kind = RECORDS.get(str(record.get("kind")))
        if kind is not None:
            records.append(check_type(record, kind, where).model_dump())
    return records


def loss_curves(records: Sequence[Record]) -> dict[str, Points]:
    """The mean negative log-likelihood by step, in training and in validation."""
    return {
        "train loss": [(item["step"], item["nll"]) for item in records if item["kind"] == "train"],
        "validation loss": [
            (item["step"], item["metrics"]["loss"]) for item in records if item["kind"] == "validation"
        ],
    }


def learning_rate(records: Sequence[Record]) -> Points:
    """The learning rate by step."""
    return [(item["step"], item["learning_rate"]) for item in records if item["kind"] == "train"]


def run_facts(model: Model, records: Sequence[Record]) -> dict[str, str]:
    """Task, data, model, size and training time of a run."""
    recipe = model.run.recipe
    trained = [item for item in records if item["kind"] == "train"]
    facts = {
        "task": recipe.about or recipe.task,
        "data": ", ".join(map(str, recipe.data.train)),
        "model": recipe.model.summary,
        "parameters": f"{sum(weight.numel() for weight in model.model.parameters()):,}",
        **model.task.facts(),
        "steps": f"{trained[-1]['step']:,}" if trained else "",
        "time": format_duration(trained[-1]["seconds"]) if trained else "",
        "seed": str(recipe.runtime.seed),
    }
    return {name: fact for name, fact in facts.items() if fact}


def evaluation_report(
    model: Model,
    evaluation: Evaluation,
    max_examples: int = MAX_EXAMPLES,
    max_explained: int = MAX_EXPLAINED,
    comparisons: Sequence[Comparison] = (),
    base: str = "",
) -> Report:
    """The page of an evaluation; the first `max_explained` of its examples have their attention maps.

    `comparisons` with the run `base` are shown below the scores.
    """
    records, task = read_metrics(model.run.folder), evaluation.task
    pairs = list(zip(evaluation.examples, evaluation.predictions, strict=True))
    samples = [task.sample(*pair) for pair in pairs]
    correct = [is_correct(task.correct(*pair)) for pair in pairs]
    same = [
        sample.reference == sample.output if right is None else right
        for sample, right in zip(samples, correct, strict=True)
    ]
    examples: list[Example] = []
    remaining = max_explained
    for index in choose_examples(same, max_examples):
        maps = attention_or_none(model, *pairs[index]) if remaining else None
        remaining -= maps is not None
        examples.append(Example(*samples[index], correct[index], maps))
    return Report(
        title=model.run.recipe.name,
        facts=run_facts(model, records),
        curves=loss_curves(records),
        learning_rate=learning_rate(records),
        scores=[
            *((score.name, score.value, score.signature) for score in evaluation.scores),
            *(comparison_score(item, base) for item in comparisons),
        ],
        examples=examples,
    )


def comparison_score(item: Comparison, base: str) -> tuple[str, float, str]:
    """The difference of a score to that of another run, and how sure it is."""
    test = f"95% interval {item.ci_low:+.2f} to {item.ci_high:+.2f}, p = {item.p_value:.3f}; {item.signature}"
    return f"{item.metric}: difference to {base}", item.delta, f"{item.other:.2f} and {item.base:.2f}; {test}"


def explanation_report(model: Model, explanation: Explanation) -> Report:
    """The page of one example."""
    sample = model.task.sample(explanation.example, explanation.prediction)
    return Report(
        title=f"{model.run.recipe.name}: {sample.source}",
        facts=run_facts(model, read_metrics(model.run.folder)),
        examples=[Example(sample.source, sample.reference, sample.output, None, explanation.maps)],
    )


def is_correct(values: dict[str, float]) -> bool | None:
    """True if a prediction is right by every metric; None if no metric is right or wrong for one example."""
    return all(value == 1 for value in values.values()) if values else None


def choose_examples(correct: Sequence[bool], count: int) -> list[int]:
    """The first examples, in order; if there are enough right ones, at most half of them are wrong."""
    right = [index for index, value in enumerate(correct) if value]
    wrong = [index for index, value in enumerate(correct) if not value]
    wrong = wrong[: max(count // 2, count - len(right))]
    return sorted([*wrong, *right[: count - len(wrong)]])


def attention_or_none(model: Model, example: TaskExample, prediction: Prediction) -> list[AttentionMap] | None:
    """The attention maps of an example; None if it has none or if they are too large to draw."""
    try:
        maps = model.task.attention(model.model, example, prediction)
    except UserError:  # the example is too long
        return None
    small = all(max(len(item.rows), len(item.columns)) <= MAX_TOKENS for item in maps)
    return maps if maps and small else None
