"""Multiple choice: which of several texts continues a story or answers a question.

    f_c = w C_c + b                   C_c is the pooled vector of [CLS] text [SEP] choice c [SEP]
    p_c = exp(f_c) / sum_d exp(f_d)   over the choices d of the same example     (Devlin et al. 2018, section 4.4)

The encoder reads each choice separately, together with the text before it. Only the softmax compares choices, so w and
b do not depend on their number, and examples may have different numbers of choices.

B inputs, E examples, C the largest number of choices of an example.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import IGNORE, Batch
from regard.data.fields import CHOICES, Fields
from regard.data.inputs import Input
from regard.errors import UserError
from regard.exchange.bert import MULTIPLE_CHOICE
from regard.losses.crossentropy import Loss
from regard.messages import Message
from regard.tasks.base import Example, Exchange, Prediction
from regard.tasks.checks import ExpectedLoss
from regard.tasks.labelled import Labelled, LabelledChecks, LabelledRecipe
from regard.tasks.tables import confident_errors, confusion_matrix
from regard.viz.content import Description, Shares, Table, Tables, truncate

SHOWN_CHARACTERS = 600
"""Characters of a text in a report."""
PADDED_LOGIT = torch.finfo(torch.float32).min
"""Logit of a padded choice: finite, so that a row of padding does not give NaN."""


class ChoiceRecipe(LabelledRecipe):
    """The recipe of a multiple-choice model."""

    fields: ClassVar[Fields] = CHOICES
    defaults = LabelledRecipe.defaults | {"task": "choice", "training.monitor": "accuracy"}
    monitors = ("loss", "accuracy")


class ChoiceChecks(LabelledChecks["Choice"]):
    """Hooks for several texts with one right one."""

    label_checks = ("one-class", "rare", "majority")  # a choice is judged by its text, not by its position
    weights_without_gradient = ("head.bias",)

    def label_values(self, example: Example) -> Sequence[str | float]:
        return [f"choice {example['label']}"]

    def expected_loss(self, task: "Choice", batch: Batch) -> ExpectedLoss:
        choices = (batch["input_index"] >= 0).sum(dim=1).double()
        return ExpectedLoss(float(choices.log().mean()), Message("ln of the number of choices"))

    def overfit_bound(self, task: "Choice", batch: Batch) -> float:
        return 0.25 * self.expected_loss(task, batch).value


class Choice(Labelled[ChoiceRecipe]):
    """{"text", "choices"} -> {"label", "choice", "probabilities"}; labels count from 0."""

    name = "choice"
    exchange = Exchange("logits", "zero-shot-classification", MULTIPLE_CHOICE)
    title = "the right one of several texts"
    recipe_type = ChoiceRecipe
    grouped_inputs = True
    outputs = 1
    empty: ClassVar[Mapping[str, object]] = {"label": None, "choice": None, "probabilities": []}
    checks = ChoiceChecks()
    has_named_labels = False
    listed_input = "choices"

    def encode(self, example: Example) -> list[Input]:
        text, label = self.tokenizer.tokenize(example["text"]), example.get("label")
        inputs = []
        for number, choice in enumerate(example["choices"]):
            encoded = self.tokenizer.build_input(text, self.tokenizer.tokenize(choice), self.recipe.data.max_length)
            labels = [] if number else [IGNORE if label is None else label]
            inputs.append(Input(encoded.ids, encoded.segments, labels, encoded.truncated_tokens))
        return inputs

    def criterion(self, logits: Tensor, batch: Batch) -> Loss:
        f = gather_choices(logits, batch["input_index"])
        return choice_loss(f, batch["input_index"] >= 0, batch.labels[:, 0], self.recipe.training.label_smoothing)

    def decode(self, example: Example, inputs: Sequence[Input], logits: Sequence[Tensor]) -> Prediction:
        p = torch.softmax(torch.cat(list(logits)), dim=0)  # (C,)
        label = int(p.argmax())
        return {"label": label, "choice": example["choices"][label], "probabilities": p.tolist()}

    def parse(self, value: str | Mapping[str, object], where: str = "the input") -> Example:
        """A line is text TAB choice TAB choice ..."""
        if isinstance(value, str) and value.strip():
            text, *choices = value.split("\t")
            if len(choices) < 2:
                problem = f"{where} has {len(choices)} choice{'s' * (len(choices) != 1)}"
                remedy = f"use text TAB choice TAB choice, and more choices; or JSON: {self.recipe.fields.json_form}"
                raise UserError(problem, remedy, code="bad-line", where=where)
            value = {"text": text, "choices": choices}
        return super().parse(value, where)

    def correct(self, example: Example, prediction: Prediction) -> dict[str, float]:
        return {"accuracy": float(example["label"] == prediction["label"])}

    def describe(self, example: Example, prediction: Prediction) -> Description:
        choices, label, shares = example["choices"], example.get("label"), prediction["probabilities"]
        output = Shares(choices if shares else [], shares, prediction["label"] or 0)
        reference = "" if label is None else truncate(choices[label])
        correct = None if label is None else label == prediction["label"]
        source = truncate(example["text"], SHOWN_CHARACTERS)
        return Description(source, [output], reference, correct, max(shares, default=None))

    def tables(self, examples: Sequence[Example], predictions: Sequence[Prediction], page: bool) -> Tables:
        """The accuracy by number of choices; on a page also by position, and confident errors."""
        rows: list[list[str | float]] = []
        for size in sorted({len(example["choices"]) for example in examples}):
            pairs = zip(examples, predictions, strict=True)
            right = [self.correct(*pair)["accuracy"] for pair in pairs if len(pair[0]["choices"]) == size]
            rows.append([f"{size}", len(right), 100 * sum(right) / len(right), 100 / size])
        columns = {"choices": "text", "examples": "count", "accuracy": "percent", "accuracy by chance": "percent"}
        tables = [Table("accuracy by number of choices", columns, rows)]
        if not page:
            return [*tables]
        known = [pair for pair in zip(examples, predictions, strict=True) if pair[1]["label"] is not None]
        gold, predicted = ([f"{side['label'] + 1}" for side in sides] for sides in zip(*known, strict=True))
        errors = (
            (example["text"], example["choices"][example["label"]], item["choice"], max(item["probabilities"]))
            for example, item in known
            if example["label"] != item["label"]
        )
        matrix = confusion_matrix("positions of the choices", gold, predicted)
        return [*tables, *matrix, *confident_errors(errors)]


def gather_choices(logits: Tensor, input_index: Tensor) -> Tensor:
    """f (E, C): logits of inputs (B, 1) by the inputs of each example (E, C), PADDED_LOGIT if the index is -1."""
    f = logits.float()[:, 0].index_select(0, input_index.clamp(min=0).flatten())
    return f.view_as(input_index).masked_fill(input_index < 0, PADDED_LOGIT)


def choice_loss(f: Tensor, not_padding: Tensor, labels: Tensor, smoothing: float = 0.0) -> Loss:
    """Cross-entropy of f (E, C), where `not_padding`, against the right choices (E,), summed; IGNORE does not count.
    Label smoothing spreads probability over the choices of the example."""
    labelled = labels != IGNORE
    log_p = F.log_softmax(f, dim=1).masked_fill(~not_padding, 0)
    right = labels.long().clamp(min=0)[:, None]
    nll = -(log_p.gather(1, right)[:, 0] * labelled).sum()
    uniform = -(log_p.sum(dim=1) / not_padding.sum(dim=1).clamp(min=1) * labelled).sum()
    return Loss((1 - smoothing) * nll + smoothing * uniform, labelled.sum(), nll.detach())
