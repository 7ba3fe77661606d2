"""Classification of a text or a pair of texts, and regression: the same with a number in place of a class.

    p(class) = softmax(W C + b)       C is the pooled vector of [CLS] A [SEP] or [CLS] A [SEP] B [SEP]
    number   = w C + b                                            (Devlin et al. 2018, sections 4.1 and 3.2)

B inputs, O classes.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from regard.config import Unused
from regard.data.batch import IGNORE, Batch
from regard.data.fields import LABELLED_TEXT, SCORED_TEXT, Fields
from regard.data.inputs import Input, Inputs
from regard.errors import UserError
from regard.exchange.bert import SEQUENCE_CLASSIFICATION, SEQUENCE_REGRESSION
from regard.files import write_json
from regard.losses.crossentropy import Loss
from regard.messages import Message
from regard.metrics import classification as metrics
from regard.metrics.score import Score
from regard.models.text_encoder import TextModelSettings, TransformerEncoderSettings
from regard.reading import read_json
from regard.recipe import Rules
from regard.tasks import sizing, tables
from regard.tasks.base import Example, Exchange, Prediction
from regard.tasks.checks import ExpectedLoss, label_warnings
from regard.tasks.encoders import text_input
from regard.tasks.inputs import check_count
from regard.tasks.labelled import Labelled, LabelledChecks, LabelledRecipe, T, classification_loss, label_ids
from regard.tasks.tables import ERROR_CHARACTERS, MAX_ERRORS, confident_errors
from regard.training.advice import Advice
from regard.training.task import Baseline
from regard.viz.content import Description, Shares, Table, Tables, truncate

CLASS_WEIGHTS = "class_weights.json"
SHOWN_CLASSES = 5
"""Number of most probable classes on a terminal."""
MAX_CLASSES, MAX_CONFUSIONS = 30, 10
"""Rows of the tables of an evaluation."""
SHOWN_CHARACTERS, LABEL_RANGES = 600, 5
"""Characters of a text in a report, and ranges of labels of a regression."""
NEXT_TO_IGNORE = IGNORE + 1e-5
"""The target of a number that happens to equal IGNORE."""


class ClassificationRecipe(LabelledRecipe):
    """The recipe of a classifier of texts or pairs of texts."""

    model: TextModelSettings = TransformerEncoderSettings()  # type: ignore[assignment]
    fields: ClassVar[Fields] = LABELLED_TEXT
    defaults = LabelledRecipe.defaults | {"task": "classification", "training.monitor": "accuracy"}
    rules: ClassVar[Rules] = sizing.truncated
    monitors = ("loss", "f1", "macro_f1", "matthews", "accuracy")
    supports_losses = True
    supports_class_weights = True
    supports_language_loss = True


class LabelledTextChecks(LabelledChecks[T]):
    """Hooks for one label per text or pair of texts."""

    sorted_by_label = True
    label_checks = ("one-class", "unseen", "rare")  # a majority class is one of the warnings below

    def data_warnings(self, samples: Mapping[str, Sequence[Example]]) -> list[Advice] | None:
        """Single texts only: the label of a pair may depend on nothing but the relation of the two."""
        train = samples["train"]
        pairs = any(example.get("pair") for example in train)
        texts = None if pairs else [example["text"] for example in train]
        return label_warnings([example["label"] for example in train], texts)

    def baseline(self, task: T, train: Inputs, valid: Inputs, examples: Sequence[Example]) -> Baseline:
        label, count = Counter(labels_of(examples)).most_common(1)[0]
        name = Message("predicting {label!r} for every text", label=label)
        return Baseline(name, "accuracy", 100.0 * count / len(examples))


class RegressionChecks(LabelledTextChecks["Regression"]):
    """Hooks for numbers as labels."""

    def expected_loss(self, task: "Regression", batch: Batch) -> ExpectedLoss:
        """The mean square of the labels: an untrained head outputs numbers around 0, of at most about 1."""
        value = float((batch.labels**2).mean())
        return ExpectedLoss(value, Message("the mean square of the labels"), 1 + 2 * math.sqrt(value))

    def overfit_bound(self, task: "Regression", batch: Batch) -> float:
        """A quarter of the variance, which is the loss of the best constant."""
        return 0.25 * float(batch.labels.var(unbiased=False)) or math.inf

    def baseline(self, task: "Regression", train: Inputs, valid: Inputs, examples: Sequence[Example]) -> Baseline:
        return Baseline(Message("chance"), "pearson", 0.0)


@dataclass(frozen=True)
class Classification(Labelled[ClassificationRecipe]):
    """{"text", "pair"} -> {"label", "probability", "probabilities"}; the most probable class is the first."""

    top: int | None = None
    """Number of classes in `probabilities`; None for all."""
    class_weights: tuple[float, ...] = ()
    """The weight of each label in the loss; () for equal weights."""

    name = "classification"
    exchange = Exchange("logits", "text-classification", SEQUENCE_CLASSIFICATION)
    title = "the class of a text, or of a pair of texts"
    options = ("top",)
    recipe_type = ClassificationRecipe
    checks = LabelledTextChecks["Classification"]()
    empty: ClassVar[Mapping[str, object]] = {"label": None, "probability": None, "probabilities": {}}

    @classmethod
    def check_labels(cls, labels: Sequence[str]) -> None:
        if len(labels) < 2:
            problem = f"all training examples have the same class, {labels[0]!r}"
            remedy = "check the label column and `where` in `data.train`"
            raise UserError(problem, remedy, code="one-class", where="data.train")

    @classmethod
    def artifacts(cls, recipe: ClassificationRecipe) -> tuple[str, ...]:
        weighted = recipe.training.class_weights == "balanced"
        return (*super().artifacts(recipe), *([CLASS_WEIGHTS] if weighted else []))

    @classmethod
    def write_label_data(cls, recipe: ClassificationRecipe, folder: Path, examples: Sequence[Example]) -> None:
        """Balanced weights N / (O n_c): every class has the same share of the loss, and the mean weight is 1."""
        if recipe.training.class_weights == "balanced" and not (folder / CLASS_WEIGHTS).exists():
            counts = Counter(labels_of(examples))
            values = [len(examples) / (len(counts) * counts[label]) for label in sorted(counts)]
            write_json(folder / CLASS_WEIGHTS, values)

    @classmethod
    def load(cls, recipe: ClassificationRecipe, folder: Path) -> Self:
        path, task = folder / CLASS_WEIGHTS, super().load(recipe, folder)
        weighted = recipe.training.class_weights == "balanced" and path.exists()
        return replace(task, class_weights=tuple(read_json(path, list[float]))) if weighted else task

    def encode(self, example: Example) -> list[Input]:
        label = label_ids(self.labels).get(example.get("label"), IGNORE)
        return [text_input(self.tokenizer, example, self.recipe.data.max_length, label)]

    def criterion(self, logits: Tensor, batch: Batch) -> Loss:
        training = self.recipe.training
        return classification_loss(
            logits[: len(batch.labels)],
            batch.labels[:, 0],
            training.label_smoothing,
            training.loss,
            self.class_weights,
        )

    def decode(self, example: Example, inputs: Sequence[Input], logits: Sequence[Tensor]) -> Prediction:
        p, order = torch.softmax(logits[0], dim=-1).sort(descending=True, stable=True)  # (O,)
        names = [self.labels[index] for index in order[: self.top].tolist()]
        probabilities = dict(zip(names, p.tolist(), strict=False))
        return {"label": names[0], "probability": probabilities[names[0]], "probabilities": probabilities}

    def configure(self, **options: object) -> Self:
        top = options.pop("top", None)
        task = super().configure(**options)
        return task if top is None else replace(task, top=check_count("top", top))

    def score(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Score]:
        pair = labels_of(predictions), labels_of(examples)
        two = len(self.labels) == 2  # then F1 is that of the second class, as for "1" in GLUE
        macro = metrics.macro_scores(*pair)["f1"]
        f1 = metrics.binary_scores(*pair, self.labels[1])["f1"] if two else macro
        scores = {"accuracy": metrics.accuracy(*pair), "f1": f1, "macro_f1": replace(macro, name="macro F1")}
        return scores | {"matthews": metrics.matthews(*pair)}

    def correct(self, example: Example, prediction: Prediction) -> dict[str, float]:
        return {"accuracy": float(example["label"] == prediction["label"])}

    def describe(self, example: Example, prediction: Prediction) -> Description:
        shares, label = prediction["probabilities"], example.get("label")
        count = self.top or SHOWN_CLASSES
        output = Shares(list(shares)[:count], list(shares.values())[:count])
        correct = None if label is None else label == prediction["label"]
        reference = "" if label is None else str(label)
        return Description(joined_texts(example), [output], reference, correct, prediction["probability"])

    def tables(self, examples: Sequence[Example], predictions: Sequence[Prediction], page: bool) -> Tables:
        """Scores of each class and frequent confusions; on a page also the confusion matrix and confident errors."""
        gold, predicted = labels_of(examples), labels_of(predictions)
        counts = {str(label): count for label, count in metrics.counts_by_class(predicted, gold).items()}
        classes = [tables.counts_table("classes", "class", counts, "examples")]
        few = len(counts) <= MAX_CLASSES
        wrong = [(str(label), str(output)) for label, output in zip(gold, predicted, strict=True) if label != output]
        confusions = tables.frequent_pairs("confusions", ("label", "prediction"), wrong, MAX_CONFUSIONS)
        always = [*(classes if few else ()), *confusions]
        if not page:
            return [*always]
        errors = (
            (joined_texts(example, ERROR_CHARACTERS), example["label"], item["label"], item["probability"])
            for example, item in zip(examples, predictions, strict=True)
            if example["label"] != item["label"] is not None
        )
        matrix = tables.confusion_matrix("confusion matrix", list(map(str, gold)), list(map(str, predicted)))
        return [*always, *matrix, *confident_errors(errors), *(() if few else classes)]


class RegressionRecipe(LabelledRecipe):
    """The recipe of a model that predicts a number for a text or a pair of texts."""

    model: TextModelSettings = TransformerEncoderSettings()  # type: ignore[assignment]
    fields: ClassVar[Fields] = SCORED_TEXT
    defaults = LabelledRecipe.defaults | {"task": "regression", "training.monitor": "spearman"}
    rules: ClassVar[Rules] = sizing.truncated
    monitors = ("loss", "pearson", "spearman")
    supports_language_loss = True

    def no_effect(self) -> Iterator[Unused]:
        yield from super().no_effect()
        yield "training.label_smoothing", "tasks with classes"


class Regression(Labelled[RegressionRecipe]):
    """{"text", "pair"} -> {"score"}."""

    name = "regression"
    exchange = Exchange("logits", "sentence-similarity", SEQUENCE_REGRESSION)
    title = "a number for a text, or for a pair of texts"
    recipe_type = RegressionRecipe
    checks = RegressionChecks()
    outputs = 1
    empty: ClassVar[Mapping[str, object]] = {"score": None}

    def encode(self, example: Example) -> list[Input]:
        label = example.get("label")
        number = IGNORE if label is None else NEXT_TO_IGNORE if label == IGNORE else label
        return [text_input(self.tokenizer, example, self.recipe.data.max_length, number)]

    def criterion(self, logits: Tensor, batch: Batch) -> Loss:
        """Squared errors."""
        labels = batch.labels[:, 0]
        labelled = labels != IGNORE
        squares = ((logits[: len(batch.labels), 0].float() - labels) ** 2 * labelled).sum()
        return Loss(squares, labelled.sum(), squares.detach())

    def decode(self, example: Example, inputs: Sequence[Input], logits: Sequence[Tensor]) -> Prediction:
        return {"score": float(logits[0][0])}

    def score(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Score]:
        predicted, gold = [item["score"] for item in predictions], [float(item["label"]) for item in examples]
        return {"pearson": metrics.pearson(predicted, gold), "spearman": metrics.spearman(predicted, gold)}

    def describe(self, example: Example, prediction: Prediction) -> Description:
        return Description(joined_texts(example), [f"{prediction['score']:.3f}"], str(example.get("label", "")))

    def tables(self, examples: Sequence[Example], predictions: Sequence[Prediction], page: bool) -> Tables:
        """On a page: errors by the size of the label, and the largest errors."""
        if not page:
            return []
        pairs = list(zip(examples, predictions, strict=True))
        labels = np.array([float(example["label"]) for example in examples])
        scores = np.array([float(item["score"]) for item in predictions])
        edges = np.linspace(labels.min(), labels.max(), LABEL_RANGES + 1)
        ranges = np.clip(np.digitize(labels, edges) - 1, 0, LABEL_RANGES - 1)
        rows: list[list[str | float]] = []
        for number in sorted(set(ranges.tolist())):
            true, predicted = labels[ranges == number], scores[ranges == number]
            means = [float(values.mean()) for values in (true, predicted, abs(predicted - true))]
            rows.append([f"[{edges[number]:.3g}, {edges[number + 1]:.3g}]", len(true), *means])
        worst = sorted(pairs, key=lambda pair: -abs(pair[1]["score"] - pair[0]["label"]))[:MAX_ERRORS]
        errors = [
            [joined_texts(example, ERROR_CHARACTERS), example["label"], item["score"], item["score"] - example["label"]]
            for example, item in worst
        ]
        means_of = ("mean label", "mean prediction", "mean absolute error")
        columns = {"labels": "text", "examples": "count"} | dict.fromkeys(means_of, "number")
        numbers = dict.fromkeys(("label", "prediction", "difference"), "number")
        return [Table("errors by label", columns, rows), Table("largest errors", {"text": "text"} | numbers, errors)]


def labels_of(items: Sequence[Example]) -> list[str]:
    return [item["label"] for item in items]


def joined_texts(example: Example, length: int = SHOWN_CHARACTERS) -> str:
    """Both texts of an example, shortened to `length` characters each."""
    return " | ".join(truncate(example[key], length) for key in ("text", "pair") if example.get(key))
