"""Tasks on labelled text: a text encoder with one linear layer on top. Each task has its own file.

    example -> inputs -> batch -> encoder -> head -> logits -> prediction

The encoder is a BERT, a Transformer or a recurrent network. It starts with random weights, or with those of a run that
was pretrained, imported, or trained on another labelled task or as a language model (`start_from`). The head is copied
only if it has the same labels.

B inputs, T tokens, E examples, O outputs of the head; `*` is (B, T) padded or (N,) packed.
"""

import hashlib
import json
import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar
from unicodedata import normalize

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import model_validator
from torch import Tensor, nn

from regard.config import SettingError, Unused, unless
from regard.data.batch import IGNORE, Batch
from regard.data.digests import Digests
from regard.data.formats import read_examples
from regard.data.inputs import Input, InputEncoder, Inputs
from regard.data.labelled import LabelledSplits, load_splits, open_splits
from regard.data.records import Location
from regard.data.settings import LabelledDataSettings
from regard.data.sources import Source
from regard.data.store import Store
from regard.errors import UserError
from regard.files import write_json
from regard.layers.recurrent import CELLS
from regard.losses.crossentropy import Loss, registered_loss
from regard.messages import Message
from regard.metrics.spans import OUTSIDE
from regard.models import text_encoder as encoder_models
from regard.models.bert import BertSettings
from regard.models.linear import LinearModel, LinearSettings
from regard.reading import read_json
from regard.recipe import Recipe, Rules
from regard.recipe_files import earlier_names
from regard.run_files import SPLITS, STORES
from regard.tasks import base, encoders, sizing
from regard.tasks.base import AnyTask, Example, Prediction, Report, StartRules, Task, ValidationData
from regard.tasks.checks import DoctorHooks, ExpectedLoss, SplitExamples, entropy
from regard.tasks.inputs import chunk_examples, copy_tokenizer, require_finite
from regard.text.factory import learning_message, load_input_tokenizer, train_tokenizer
from regard.text.inputs import InputTokenizer
from regard.text.settings import BertTextSettings, EncoderTextSettings, TextSettings
from regard.text.tokenizer import Tokenizer
from regard.training.settings import TrainingSettings
from regard.training.task import Baseline, Validation
from regard.training.weights import load_weights
from regard.viz.report import AttentionMap

# The common defaults of Devlin et al. 2018, sections A.2 and A.3, and of their program.
BERT_TRAINING: dict[str, object] = {
    "training.schedule": "linear",
    "training.adam_beta2": 0.999,
    "training.weight_decay": 0.01,
    "training.clip": 1.0,
    "training.label_smoothing": 0.0,
}
MAX_SHOWN_LABELS = 8
BASELINE_EXAMPLES, BASELINE_MARGIN = 256, 0.02
"""Validation examples from which a baseline is computed, and the share of its loss by which a model must be better."""
HEAD = "head."
"""Prefix of the weights of the head."""
TOKENIZER, LABELS, INPUTS, EXAMPLES = "tokenizer.json", "labels.json", "inputs.json", "examples"


class LabelledRecipe(Recipe):
    """Base of the recipes of labelled tasks; the training defaults are those of fine-tuning."""

    defaults: ClassVar[dict[str, object]] = BERT_TRAINING | {
        "training.max_epochs": 3.0,
        "training.batch_examples": 32,
        "training.batch_tokens": 16_384,
        "training.learning_rate": 5e-5,
        "training.warmup": 0,
        "training.warmup_share": 0.1,
        "training.adam_epsilon": 1e-8,
        "training.validate_every": 0,
        "training.keep": 1,
    }
    rules: ClassVar[Rules] = sizing.labelled
    supports_layers = True

    data: LabelledDataSettings
    text: EncoderTextSettings = BertTextSettings()
    model: encoder_models.EncoderSettings = encoder_models.TransformerEncoderSettings()

    @model_validator(mode="after")
    def check_lengths(self) -> Self:
        """Check settings of different groups against each other."""
        if self.model.kind == "bert" and self.text.kind not in ("bert", "imported"):
            raise SettingError("text.kind", f'a BERT reads text of kind "bert", not "{self.text.kind}"; write "bert"')
        self.check_length("max_length", "text")
        return self

    @property
    def compiles(self) -> bool:
        """Compilation takes longer than most fine-tuning: only if the recipe says "on"."""
        return self.runtime.compile == "on"

    def training_in_steps(self, epoch: int) -> TrainingSettings:
        return self.training.in_steps(epoch)

    def no_effect(self) -> Iterator[Unused]:
        yield "training.r_drop", "translation"
        yield from unless(getattr(self.model, "causal", False), "model.causal = true", "training.language_loss")
        layers = ("training.layer_decay", "training.unfreeze_epochs")
        yield from unless(not isinstance(self.model, LinearSettings), "a text encoder as model", *layers)
        if isinstance(self.text, TextSettings):
            yield from ((key, "translation") for key in ("text.joint", "text.dropout"))


L = TypeVar("L", bound=LabelledRecipe)
T = TypeVar("T", bound="Labelled[Any]")


class LabelledChecks(DoctorHooks[T, Inputs], Generic[T]):
    """Hooks for labelled texts."""

    long_inputs = "truncated"
    small_batch_size = 32

    def read_splits(self, recipe: Recipe, folder: Path) -> SplitExamples:
        assert isinstance(recipe, LabelledRecipe)
        splits = open_splits(folder / EXAMPLES, recipe.data, recipe.fields)
        dropped = {"duplicate": splits.report.duplicates}
        if splits.report.kept_apart:
            dropped["also in valid or test"] = splits.report.shared
        return SplitExamples({split: [getattr(splits, split)] for split in SPLITS}, dropped)

    def write_sample(self, recipe: Recipe, samples: Mapping[str, Sequence[Example]], folder: Path) -> dict[str, object]:
        """The splits are made already: nothing is held out or left out again."""
        whole = {"hold_out": 0.0, "hold_out_test": 0.0, "limit": 0, "exclude_overlap": False}
        return super().write_sample(recipe, samples, folder) | whole

    def describe_store(self, task: T, split: str, store: Inputs) -> str:
        truncated = int((store.input_lengths >= task.recipe.data.max_length).sum())
        more = Message(", {count:,} of them as long as data.max_length allows", count=truncated) if truncated else ""
        counts = {"inputs": len(store), "tokens": int(store.input_lengths.sum())}
        return Message("{split}: {inputs:,} inputs, {tokens:,} tokens{more}", split=split, more=more, **counts)

    def label_values(self, example: Example) -> Sequence[str | float]:
        return [example["label"]] if "label" in example else []

    def max_length(self, task: T) -> int:
        return task.recipe.data.max_length

    def input_length(self, task: T, example: Example) -> int:
        lengths = [len(item.ids) + item.truncated for item in task.encode(example)]
        return max(lengths) if task.pooled else sum(lengths)

    def baseline(self, task: T, train: Inputs, valid: Inputs, examples: Sequence[Example]) -> Baseline:
        some = valid.pad(np.arange(min(len(valid), BASELINE_EXAMPLES)))
        return Baseline(Message("guessing"), "loss", self.expected_loss(task, some).value, BASELINE_MARGIN)

    def expected_loss(self, task: T, batch: Batch) -> ExpectedLoss:
        return ExpectedLoss(math.log(task.outputs), f"ln {task.outputs}")

    def overfit_bound(self, task: T, batch: Batch) -> float:
        """A quarter of the loss of a model that knows how often each label is right, and does not read the text."""
        labels = batch.labels[batch.labels != IGNORE].tolist()
        return 0.25 * (entropy(labels) or self.expected_loss(task, batch).value)


@dataclass(frozen=True)
class Labelled(Task[L, Inputs]):
    """Base of the tasks on labelled text."""

    tokenizer: InputTokenizer = field(repr=False)
    labels: tuple[str, ...] = ()
    """Label names in the order of the head's outputs; empty if the task has no named labels."""
    trained_inputs: tuple[str, ...] = ()
    """The inputs that occur in the training examples; empty if it is not known (imported and older runs)."""

    recipe_type: ClassVar[type[Recipe]] = LabelledRecipe
    starts = StartRules(
        encoders.STARTS, encoders.start_settings, encoders.check_start, lambda task, *run: task.copy_weights(*run)
    )
    pooled: ClassVar[bool] = True
    """True if the head reads one vector per input, False if it reads the vector of every token."""
    per_token: ClassVar[bool] = False
    """True if every token has a label."""
    grouped_inputs: ClassVar[bool] = False
    """True if a softmax compares the inputs of an example, so that they stay in one batch."""
    head_dropout: ClassVar[bool] = True
    has_named_labels: ClassVar[bool] = True
    """True if labels that are strings have an output of the head each."""
    optional_outputs: ClassVar[tuple[str, ...]] = ("truncated",)
    checks: ClassVar[DoctorHooks[Any, Inputs]] = LabelledChecks()

    @property
    def text_encoder(self) -> encoders.TextEncoding | None:
        if isinstance(self.recipe.model, LinearSettings):
            return None
        return encoders.TextEncoding(self.tokenizer, self.recipe.data.max_length, "encoder", self.trained_with_pairs)

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        return {"source": self.tokenizer}

    # ---- what a task of this family defines -------------------------------------------------------------------------

    @property
    def outputs(self) -> int:
        """O, the number of outputs of the head."""
        return len(self.labels)

    @abstractmethod
    def encode(self, example: Example) -> list[Input]:
        """The inputs of an example with their labels; IGNORE if it has none."""

    def criterion(self, logits: Tensor, batch: Batch) -> Loss:
        """The loss of logits (B, O) or (*, O), summed over the labels; a task with another head has its own `loss`."""
        raise NotImplementedError(f"{type(self).__name__}.criterion")

    @abstractmethod
    def decode(self, example: Example, inputs: Sequence[Input], logits: Sequence[Tensor]) -> Prediction:
        """The prediction for an example, from the logits of each of its inputs."""

    # ---- preparation ------------------------------------------------------------------------------------------------

    @classmethod
    def artifacts(cls, recipe: L) -> tuple[str, ...]:
        return (TOKENIZER, LABELS, INPUTS)

    @classmethod
    def load(cls, recipe: L, folder: Path) -> Self:
        names = [tuple(read_names(folder / name)) for name in (LABELS, INPUTS)]
        return cls(recipe, load_input_tokenizer(folder / TOKENIZER), *names)

    @classmethod
    def prepare(cls, recipe: L, folder: Path, start: Path | None, report: Report) -> Self:
        splits = open_splits(folder / STORES / EXAMPLES, recipe.data, recipe.fields)
        report(str(splits.report))
        if cls.exchange is not None and cls.exchange.head is not None and not isinstance(recipe.model, BertSettings):
            report(Message('note: the model cannot be exported to Hugging Face; one with model.kind = "bert" can'))
        path, text = folder / TOKENIZER, recipe.text
        if start is not None:
            copy_tokenizer(start, folder, TOKENIZER)
        elif not path.exists():
            report(learning_message(text.kind, text.vocab_size))
            lines = (text for example in splits.train for text in recipe.fields.texts(example))
            train_tokenizer(lines, text).save(path)
        labels = cls.collect_labels(splits.train)
        cls.check_labels(labels)
        write_labels(folder / LABELS, labels, cls.collect_labels(splits.valid), report)
        if not (folder / INPUTS).exists():
            used = {key for example in splits.train for key in recipe.fields.inputs if key in example}
            write_json(folder / INPUTS, [key for key in recipe.fields.inputs if key in used])
        cls.write_label_data(recipe, folder, splits.train)
        task = cls.load(recipe, folder)
        task.__dict__["splits"] = splits  # the data files are read once
        return task

    @classmethod
    def collect_labels(cls, examples: Sequence[Example]) -> list[str]:
        """The label names that occur in examples, sorted."""
        values = (label for example in examples if cls.has_named_labels for label in cls.checks.label_values(example))
        return sorted({label for label in values if isinstance(label, str)})

    @classmethod
    def write_label_data(cls, recipe: L, folder: Path, examples: Sequence[Example]) -> None:
        """Write what else the task learns from the labels of the training examples, unless it is there."""

    @classmethod
    def check_labels(cls, labels: Sequence[str]) -> None:
        """Raise UserError if nothing can be learnt from these labels."""

    # ---- data -------------------------------------------------------------------------------------------------------

    @cached_property
    def splits(self) -> LabelledSplits:
        return load_splits(self.recipe.data, self.recipe.fields)

    def read(self, split: str, sources: Sequence[Source] | None = None) -> Iterator[Example]:
        data = self.recipe.data
        spellings = {normalize("NFC", label): label for label in self.labels}
        if sources is not None:
            return read_examples(sources, Path(), self.recipe.fields, spellings=spellings)
        if split == "test" and data.test:  # it can be scored without the training data
            return read_examples(data.test, data.folder, self.recipe.fields, spellings=spellings)
        if not any(getattr(data, name) for name in SPLITS):
            base.split_sources(self.recipe, split)
        examples: Sequence[Example] = getattr(self.splits, split)
        if not examples:
            other = {
                "valid": ", or set `data.hold_out`",
                "test": ", or set `data.hold_out_test`, or evaluate on other data, e.g. on valid",
            }.get(split, "")
            remedy = f"add `data.{split}` to the recipe{other}"
            raise UserError(f"the recipe names no {split} data", remedy, code="no-data", where=f"data.{split}")
        return iter(examples)

    def content(self, split: str, sources: Sequence[Source] | None, digests: Digests) -> object:
        if sources is not None or split == "test":
            lines = (json.dumps(example, sort_keys=True) for example in self.read(split, sources))
            return hashlib.sha256("".join(lines).encode()).hexdigest()
        return [self.splits.identity, split]

    def encoder(self, filtered: bool) -> InputEncoder:
        settings = self.recipe.data.model_dump(exclude={"root", "workers", *SPLITS})
        identity = json.dumps(
            [self.name, earlier_names({"data": settings})["data"], self.tokenizer.to_json(), self.labels]
        )
        # A copy of the task does not hold the examples, which would be sent to every process that tokenises.
        return InputEncoder(replace(self).encode, self.grouped_inputs, identity)

    def view(self, store: Store) -> Inputs:
        return Inputs(store, self.per_token)

    # ---- training ---------------------------------------------------------------------------------------------------

    def new_model(self) -> encoder_models.EncoderModel | LinearModel:
        if isinstance(self.recipe.model, LinearSettings):
            return LinearModel(self.recipe.model, len(self.tokenizer), self.outputs)
        encoder = encoder_models.build_encoder(self.recipe.model, len(self.tokenizer))
        dropout = getattr(self.recipe.model, "dropout", 0.0) if self.head_dropout else 0.0
        return encoder_models.EncoderWithHead(encoder, self.outputs, self.pooled, dropout)

    def same_head(self, start: AnyTask) -> bool:
        """True if the head of another task means the same as the head of this one."""
        return start.name == self.name and start.labels == self.labels

    def copy_weights(self, model: nn.Module, weights: dict[str, Tensor], start: AnyTask, where: str) -> None:
        """Copy the encoder of another run, and its head if it has the same labels and shapes."""
        assert isinstance(model, encoder_models.EncoderModel | LinearModel)
        if isinstance(model, encoder_models.EncoderModel):
            load_weights(model.encoder, encoders.start_weights(start.name, model.encoder, weights), where)
        head = {name.removeprefix(HEAD): tensor for name, tensor in weights.items() if name.startswith(HEAD)}
        shapes = {name: tensor.shape for name, tensor in model.head.state_dict().items()}
        if self.same_head(start) and {name: tensor.shape for name, tensor in head.items()} == shapes:
            load_weights(model.head, head, where)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        if not (weight := self.recipe.training.language_loss):
            return self.criterion(model(batch.source, batch["segments"]), batch)
        logits, projection = model(batch.source, batch["segments"], language=True)
        return encoders.add_language_loss(self.criterion(logits, batch), projection, batch.source, weight)

    def validate(self, model: nn.Module, data: ValidationData[Inputs]) -> Validation:
        inputs, shown = data.cached(
            lambda: ([self.encode(item) for item in data.examples], self.sample_indices(data.examples))
        )
        outputs = self.run(model, inputs)
        predictions = [self.decode(*row) for row in zip(data.examples, inputs, outputs.logits, strict=True)]
        scores = {name: score.value for name, score in self.score(data.examples, predictions).items()}
        samples = [self.describe(data.examples[index], predictions[index]).lines() for index in shown]
        return Validation({"loss": outputs.nll / max(1, outputs.count), **scores}, samples)

    def sample_indices(self, examples: Sequence[Example]) -> list[int]:
        """The numbers of the examples shown as samples, for every model the same: one of each label first."""
        labels = [{label for label in self.checks.label_values(item) if isinstance(label, str)} for item in examples]
        seen, ranks = Counter[str](), []
        for number, found in enumerate(labels):
            kind = min(found - {OUTSIDE}, default="")
            ranks.append((not kind, seen[kind], number))
            seen[kind] += 1
        return sorted(number for _, _, number in sorted(ranks)[: self.recipe.training.samples])

    # ---- use --------------------------------------------------------------------------------------------------------

    def parse(self, value: str | Mapping[str, object], where: str = "the input") -> Example:
        """A blank line is an example without text, for every task."""
        if isinstance(value, str) and not value.strip():
            return {key: [] if key in ("words", "choices") else "" for key in self.recipe.fields.required}
        values = encoders.split_pair(value, where, self.trained_with_pairs) if isinstance(value, str) else value
        inputs = super().parse(values, where)
        return inputs | self.recipe.fields.parse(inputs, Location(where))

    @cached_property
    def trained_with_pairs(self) -> bool | None:
        """True if training examples have a second text; None if it is not known. A run of an earlier version did not
        record it: then the first training example tells, or a `pair` in the recipe."""
        data, fields = self.recipe.data, self.recipe.fields
        if "pair" not in fields.inputs or self.trained_inputs:
            return "pair" in self.trained_inputs
        try:
            return "pair" in next(read_examples(data.train, data.folder, fields)) if data.train else None
        except UserError:
            return True if any("pair" in source.columns for source in data.train) else None

    def predict(self, engine: nn.Module, examples: Iterable[Example]) -> Iterator[Prediction]:
        """`truncated` counts tokens of the text beyond the maximum length."""
        for chunk in chunk_examples(examples):
            encoded = [self.encode(example) for example in chunk]
            outputs = self.run(engine, encoded)
            for example, inputs, logits in zip(chunk, encoded, outputs.logits, strict=True):
                truncated = sum(item.truncated for item in inputs)
                prediction = self.decode(example, inputs, [require_finite(row) for row in logits])
                yield prediction | ({"truncated": truncated} if truncated else {})

    def run(self, model: nn.Module, encoded: Sequence[list[Input]]) -> encoders.Outputs:
        """Run a model, which is in evaluation mode, on inputs; inputs of similar length share a batch."""
        return encoders.run_inputs(model, encoded, self.criterion, self.pooled, self.per_token, self.grouped_inputs)

    def attention(self, model: nn.Module, example: Example, prediction: Prediction) -> list[AttentionMap]:
        """The attention between the tokens of an input, or the weights of attention pooling; of a linear model the
        evidence of the tokens."""
        if isinstance(model, LinearModel):
            return encoders.evidence_map(model, self.tokenizer, self.encode(example)[0], self.labels)
        assert isinstance(model, encoder_models.EncoderModel)
        if not self.recipe.model.has_attention or (not self.pooled and is_recurrent(self.recipe)):
            return []
        inputs = self.encode(example)
        if len(inputs) > 1 and not self.grouped_inputs:
            raise UserError(
                f"the text is read in {len(inputs)} windows", "inspect a shorter text", code="too-long", where="text"
            )
        chosen = inputs[prediction["label"]] if len(inputs) > 1 else inputs[0]  # of several choices the predicted one
        return encoders.encoder_attention(model.encoder, self.tokenizer, chosen, self.per_token)


def is_recurrent(recipe: LabelledRecipe) -> bool:
    """True if the encoder's only attention is that of pooling."""
    return recipe.model.kind in ("recurrent", "elmo", *CELLS)


def classification_loss(
    logits: Tensor, labels: Tensor, smoothing: float = 0.0, name: str = "cross_entropy", weights: Sequence[float] = ()
) -> Loss:
    """Cross-entropy, or another loss, of (M, O) against classes (M,), summed; a class IGNORE does not count. `weights`
    (O,) multiply the objective of each class, not the negative log-likelihood."""
    if name != "cross_entropy":
        return registered_loss(name, logits, labels, IGNORE)
    classes = labels.long()
    labelled = classes != IGNORE
    cross_entropy = partial(F.cross_entropy, logits.float(), classes, ignore_index=IGNORE, reduction="sum")
    weight = torch.tensor(weights, device=logits.device) if weights else None
    objective = cross_entropy(label_smoothing=smoothing, weight=weight)
    nll = cross_entropy() if smoothing or weights else objective
    return Loss(objective, labelled.sum(), nll.detach())


@lru_cache
def label_ids(labels: tuple[str, ...]) -> dict[str | None, int]:
    return {label: number for number, label in enumerate(labels)}


def read_names(path: Path) -> list[str]:
    """The names in a file of a run, for example its labels; none if there is no such file."""
    names = read_json(path, list[str]) if path.exists() else []
    if len(set(names)) < len(names):
        raise UserError(f"{path} is damaged: a name occurs twice", code="damaged-file", where=path)
    return names


def write_labels(path: Path, labels: Sequence[str], valid_labels: Sequence[str], report: Callable[[str], None]) -> None:
    """Write the labels of the training examples once; later they may not change."""
    if labels and not path.exists():
        write_json(path, list(labels))
    saved = read_names(path)
    if saved:
        more = ", …" if len(saved) > MAX_SHOWN_LABELS else ""
        shown = ", ".join(saved[:MAX_SHOWN_LABELS]) + more
        report(Message("labels: {count} ({labels})", count=len(saved), labels=shown))
    if unknown := sorted(set(labels) - set(saved)):
        problem = f"the training data has labels that this run does not know: {', '.join(unknown[:MAX_SHOWN_LABELS])}"
        raise UserError(problem, "start a new run with a different `--folder`", code="changed-labels", where=path)
    if labels and (unseen := sorted(set(valid_labels) - set(labels))):
        names = ", ".join(unseen[:MAX_SHOWN_LABELS])
        report(Message("note: valid has labels that train does not have; they count as wrong: {labels}", labels=names))
