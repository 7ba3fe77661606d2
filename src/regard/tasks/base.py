"""The interface of a task: everything that train, predict, evaluate, inspect and doctor need to know about it.

    example -> tokens -> batch -> model -> loss                  training: learning.py
    example -> tokens -> batch -> model -> prediction -> score   use: this file

An example is a dictionary, the same in a file, on the command line and in Python: {"text": ..., "label": ...}. A
prediction is a dictionary too. A task is a value: a recipe, tokenizers and labels. It never holds a model; a model or
an engine is an argument. A new task is one file: a subclass of `Task` with its recipe, and a line in the registry
(`tasks/registry.py`).
"""

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import nn

from regard.data.examples import Example as Example
from regard.data.store import ProgressCallback as ProgressCallback
from regard.decoding.engine import Engine
from regard.errors import UserError
from regard.metrics.score import Score
from regard.metrics.significance import Comparison, compare_means
from regard.reading import check_text
from regard.recipe import Recipe
from regard.tasks.exchange import Exchange
from regard.tasks.inputs import split_columns
from regard.tasks.languages import Languages
from regard.tasks.learning import D, LearningTask, R
from regard.tasks.learning import Report as Report
from regard.tasks.learning import ValidationData as ValidationData
from regard.tasks.variants import VariantSet
from regard.viz.content import Description, Tables
from regard.viz.report import AttentionMap

Prediction = dict[str, Any]
"""The output of a model for one example."""
Ask = Callable[[str], str | None]
"""Asks a person for one line under a title; None at the end of the input."""


class FileFormat(NamedTuple):
    """A file format of a task's predictions."""

    extension: str
    write: Callable[[Example], str]
    """Makes text of an example together with its prediction."""


@dataclass(frozen=True)
class Task(LearningTask[R, D]):
    """One kind of learning problem, configured by a recipe."""

    scored_by_examples: ClassVar[bool] = True
    """True if an evaluation predicts each example and compares it with its target."""
    scored_by_store: ClassVar[bool] = False
    """True if an evaluation measures the likelihood of tokenised data (`score_store`)."""
    comparable: ClassVar[bool] = False
    """True if the predictions of two runs can be compared (`compare`)."""
    has_search: ClassVar[bool] = False
    """True if outputs are decoded token by token, so that the options of the search apply."""
    engines: ClassVar[tuple[str, ...]] = ("torch",)
    """The engines that `predict` can use."""
    command: ClassVar[str] = "predict"
    """The command that runs a model of this task: regard COMMAND RUN."""
    variants: ClassVar[VariantSet | None] = None
    """The models that `regard ladder` compares; None if the task has no ladder."""
    empty: ClassVar[Mapping[str, object]] = {}
    """The prediction for an example without text; {} if the model reads it like any other."""
    optional_outputs: ClassVar[tuple[str, ...]] = ()
    """Keys that only some predictions have."""
    file_format: ClassVar[FileFormat | None] = None
    """A file format of predictions besides JSON and tables; None if there is none."""
    has_picture: ClassVar[bool] = False
    """True if the first block of a description can be drawn as SVG."""
    exchange: ClassVar[Exchange | None] = None
    """The task's counterparts in other libraries; None if it has none and its models cannot be exported."""

    @classmethod
    def resolve(cls, recipe: Recipe) -> "type[AnyTask]":
        """The task class for a recipe; a task whose model kinds need different losses chooses a subclass."""
        return cls

    def configure(self, **options: object) -> Self:
        """The task with options of prediction changed (for example beam=8); a UserError for an unknown option."""
        for name in options:
            raise UserError(
                f"--{name.replace('_', '-')} has no effect: the task is {self.name}",
                "leave it out",
                code="unsupported-option",
                where=name,
            )
        return self

    def parse(self, value: str | Mapping[str, object], where: str = "the input") -> Example:
        """The example that a line of text or a dictionary means, checked, without its target; errors name `where`."""
        values = self.parse_line(value, where) if isinstance(value, str) else value
        fields = self.fields
        for key in fields.required:
            if values.get(key) is None:
                raise UserError(f"{where} has no {key!r}", f"write {fields.json_form}", code="missing-key", where=where)
        check_text(values, where)
        return {key: item for key, item in values.items() if key != fields.target}

    def parse_line(self, line: str, where: str) -> Example:
        """The example that a line of plain text means: its inputs, with tabs between them."""
        fields = self.fields
        return split_columns(line, fields.inputs, len(fields.required), where, fields.json_form)

    def to_line(self, example: Example) -> str:
        """An example without its target as one line of input: its text, or JSON if it has more than one value."""
        values = {key: value for key, value in example.items() if key not in (self.fields.target, "id")}
        text = values.get(self.fields.required[0])
        return text if len(values) == 1 and isinstance(text, str) else json.dumps(values, ensure_ascii=False)

    def ask(self, ask: Ask) -> Iterator[str | Example]:
        """Ask a person for one example after another, key by key; a line with tabs or JSON holds a whole example."""
        first, *others = self.prompt_keys
        while (line := ask(first)) is not None:
            if not others or "\t" in line or line.lstrip().startswith("{"):
                if line.strip():
                    yield line
                continue
            values = {first: line}
            for key in others:
                if (line := ask(key)) is None:
                    return
                values[key] = line
            yield values

    @property
    def prompt_keys(self) -> tuple[str, ...]:
        """The keys of an example in interactive mode."""
        return self.fields.required

    def join(self, others: "Sequence[AnyTask]") -> Self:
        """The task of an ensemble of runs."""
        if others:
            raise UserError(
                f"the task {self.name} does not support ensembles", "give one run", code="unsupported-option"
            )
        return self

    def restrict(self, random_weights: Sequence[str]) -> Self:
        """The task without the outputs that depend on weights which an import filled with random values."""
        return self

    def empty_prediction(self, example: Example) -> Prediction | None:
        """The prediction for an example without text; None if the model reads the example."""
        has_text = any(text.strip() for text in self.fields.texts(example))
        return None if has_text or not self.empty else deepcopy(dict(self.empty))

    @property
    def languages(self) -> Languages | None:
        """Directions, language tags and placeholders of a translation task; None for other tasks."""
        return None

    def check_predict(self) -> None:
        """Raise UserError if the run cannot predict anything."""

    def engine(self, models: Sequence[nn.Module], device: torch.device, name: str = "torch") -> nn.Module | Engine:
        """The argument of `predict`: the model itself, or an engine that decodes with one or several models."""
        return models[0]

    @abstractmethod
    def predict(self, engine: Any, examples: Iterable[Example]) -> Iterator[Prediction]:
        """A prediction for each example, in order and in bounded memory; `engine` is a model or an engine."""

    def score(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Score]:
        """Scores of predictions against the targets of the examples, by the names `training.monitor` uses."""
        return {}

    def score_store(self, model: nn.Module, store: D) -> list[Score]:
        """Scores of a model on tokenised data, for example its perplexity."""
        return []

    def correct(self, example: Example, prediction: Prediction) -> dict[str, float]:
        """How right one prediction is, from 0 to 1, by metric; empty if no metric is a mean over examples."""
        return {}

    def check_comparable(self) -> None:
        """Raise UserError if predictions of two runs cannot be compared."""
        if not self.comparable:
            raise UserError(
                f"the metrics of task {self.name} are not means over examples and cannot be compared by bootstrap",
                "evaluate both runs and compare their scores",
                code="unsupported-option",
                where="against",
            )

    def compare(
        self, examples: Sequence[Example], base: Sequence[Prediction], other: Sequence[Prediction]
    ) -> list[Comparison]:
        """Compare the predictions of two runs by a paired bootstrap test."""
        self.check_comparable()
        first, second = (
            [self.correct(*pair) for pair in zip(examples, predictions, strict=True)] for predictions in (base, other)
        )
        return [
            compare_means(name, [item[name] for item in first], [item[name] for item in second]) for name in first[0]
        ]

    @abstractmethod
    def describe(self, example: Example, prediction: Prediction) -> Description:
        """An example, with or without its target, and its prediction, for every medium."""

    def tables(self, examples: Sequence[Example], predictions: Sequence[Prediction], page: bool) -> Tables:
        """Tables of an evaluation, for example scores of each class; `page` adds those that only a report shows."""
        return []

    def store_samples(self, model: nn.Module, store: D) -> list[tuple[Example, Prediction]]:
        """Some examples of tokenised data with their predictions, for the report of a task with `scored_by_store`."""
        return []

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes that the model distinguishes; () if it has none."""
        return ()

    @property
    def has_attention(self) -> bool:
        """True if the outputs depend on attention weights, which can be shown."""
        return self.recipe.model.has_attention

    def attention(self, model: nn.Module, example: Example, prediction: Prediction) -> list[AttentionMap]:
        """The attention weights of every layer and head for one example; empty if the outputs depend on none."""
        return []

    def call_model(self, model: nn.Module, example: Example, prediction: Prediction) -> None:
        """Call the model once for an example and its prediction, through `forward`, so that hooks see it."""
        next(iter(self.predict(model, [example])))

    def last_step(self, engine: nn.Module | Engine, example: Example) -> Example:
        """The example that the model reads last, to inspect it: another one if a prediction needs several steps."""
        return example

    def forced(self, example: Example, target: str) -> Prediction:
        """The prediction of a given output for an example, to inspect its attention."""
        raise UserError(
            f"the task {self.name} does not support --target", "leave it out", code="unsupported-option", where="target"
        )

    def output(self, prediction: Prediction) -> Prediction:
        """The part of a prediction that `regard predict` prints."""
        return prediction

    def text_encoder(self, model: nn.Module) -> nn.Module | None:
        """The part of a model that makes vectors of texts; None if it has none."""
        return None

    def facts(self) -> dict[str, str]:
        """Facts about the task for a report: languages, size of the vocabulary."""
        sizes = dict.fromkeys(f"{len(tokenizer):,}" for tokenizer in self.tokenizers.values())
        return {"vocabulary": f"{' and '.join(sizes)} tokens"} if sizes else {}

    def next_commands(self, folder: str, example: str) -> list[str]:
        """Commands to try after training, with a quoted folder and a quoted example."""
        return [f"regard predict {folder} {example}"]


AnyTask = Task[Any, Any]
"""A task of any kind."""


def all_correct(values: dict[str, float]) -> bool | None:
    """True if a prediction is right by every metric; None if no metric is right or wrong for one example."""
    return all(value == 1 for value in values.values()) if values else None


def unknown_labels(task: AnyTask, examples: Iterable[Example]) -> list[str]:
    """Labels of examples that the model does not distinguish, sorted; none if it has no named labels."""
    values = (label for example in examples if task.labels for label in task.checks.label_values(example))
    return sorted({label for label in values if isinstance(label, str)} - set(task.labels))


def output_columns(task: AnyTask, prediction: Prediction) -> Prediction:
    """The printed part of a prediction as columns of a table, which are the same for all predictions of a run.

    Probabilities by class are one column per class, p(CLASS); what the example has already is left out.
    """
    output = task.output(prediction)
    names = dict.fromkeys([*output, *task.optional_outputs])
    shares = {name: value for name, value in output.items() if isinstance(value, dict)}
    columns = {f"predicted_{name}": output.get(name) for name in names if name not in (*shares, *task.fields.required)}
    return columns | {f"p({label})": value.get(label) for value in shares.values() for label in task.labels}


def device_of(model: nn.Module) -> torch.device:
    """The device of a model; an n-gram model has buffers and no parameters."""
    tensor = next(model.parameters(), None)
    return next(model.buffers()).device if tensor is None else tensor.device
