"""The interface of a task: everything that train, predict, evaluate, inspect and doctor need to know about it.

    sources -> examples -> store -> batches -> model -> loss         training
    example -> tokens -> batch -> model -> prediction -> score       use

An example is a dictionary, the same in a file, on the command line and in Python: {"text": ..., "label": ...}. A
prediction is a dictionary too. A task is a value: a recipe, tokenizers and labels. It never holds a model; a model or
an engine is an argument. A new task is one file: a subclass of `Task` with its recipe, and a line in the registry
(`tasks/registry.py`). What only some tasks can do is a capability, a value that is None for the others. Functions over
a task of any kind are in operations.py.
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.config import SettingsTable, nearest
from regard.data.batch import Batch, BatchSource, Share
from regard.data.digests import Digests
from regard.data.examples import Example as Example
from regard.data.formats import identify, read_examples
from regard.data.hold_out import read_split
from regard.data.inputs import Input, Inputs
from regard.data.pairs import Pairs
from regard.data.planning import Batches, Budget, Epochs, groups_by_length
from regard.data.pools import PooledBatches
from regard.data.sources import Source
from regard.data.store import Encoder, Store
from regard.data.store import ProgressCallback as ProgressCallback
from regard.decoding.engine import DecodingRequest, Engine
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Symbols
from regard.errors import UserError
from regard.exchange.bert import BertHead
from regard.files import JsonObject
from regard.kernels import kernels_available
from regard.losses.crossentropy import Loss
from regard.messages import Message
from regard.metrics.score import Score
from regard.metrics.significance import Scorer, Weights, mean_scorer
from regard.reading import check_text
from regard.recipe import Recipe
from regard.runtime import World
from regard.tasks.checks import DoctorHooks
from regard.tasks.encoders import TextEncoding
from regard.tasks.inputs import missing_key, split_columns
from regard.tasks.languages import Languages
from regard.tasks.variants import VariantSet
from regard.text.tokenizer import Tokenizer
from regard.training.settings import TrainingSettings
from regard.training.task import Validation
from regard.training.weights import load_weights
from regard.viz.content import Description, Tables
from regard.viz.report import AttentionMap
from regard.work import compute_all

R = TypeVar("R", bound=Recipe)
D = TypeVar("D", bound=Sized)
"""The tokenised data of a task: a view of its store."""
T = TypeVar("T")

Prediction = JsonObject
"""The output of a model for one example."""
Report = Callable[[str], None]
"""Prints one line about the progress of the work."""


@dataclass(frozen=True)
class ValidationData(Generic[D]):
    """The validation split of a run, as `Task.validate` uses it."""

    store: D
    examples: Sequence[Example] = ()
    engine: Callable[[nn.Module], Engine] | None = None
    """Makes an engine of the model in training; if it is not given, the model itself is decoded."""
    cache: dict[str, object] = field(default_factory=dict, repr=False)

    def cached(self, compute: Callable[[], T]) -> T:
        """The result of `compute`, which is called at the first validation only."""
        if "value" not in self.cache:
            self.cache["value"] = compute()
        return cast(T, self.cache["value"])


@dataclass(frozen=True)
class StartRules:
    """From which runs training can start, besides runs of the same task."""

    tasks: tuple[str, ...] = ()
    """Names of the tasks; () for the same task only."""
    settings: Callable[[str, str, SettingsTable], SettingsTable] = lambda task, group, values: values
    """Makes settings of this task from those in [text] or [model] of a run of another task: (task, group, values)."""
    check: Callable[[Recipe, Recipe, Path], None] = lambda recipe, start, folder: None
    """Raises UserError if a recipe cannot start from a run with recipe `start` in `folder`."""
    copy: "Callable[[Any, nn.Module, dict[str, Tensor], AnyTask, str], None]" = (
        lambda task, model, weights, start, where: load_weights(model, weights, where)
    )
    """Copies the weights of the run of task `start` into a new model: (task, model, weights, start, where)."""


@dataclass(frozen=True)
class Search:
    """How the outputs of a task are decoded token by token."""

    settings: DecodingSettings
    symbols: Symbols
    tokenizer: Tokenizer
    """The tokenizer of outputs."""
    force: Callable[[Example, str], Prediction]
    """Makes the prediction of a given output for an example, to inspect its attention."""
    call: Callable[[nn.Module, Example, Prediction], None]
    """Calls a model once for an example and its prediction, through `forward`, so that hooks see it."""
    engines: tuple[str, ...] = ("torch",)
    """Names of the engines that can decode."""
    request: Callable[[Sequence[Example], int], tuple[DecodingRequest, list[int]]] | None = None
    """What an engine has to decode, and the number of parts of each example; None if outputs depend on no source."""
    join: Callable[[list[list[Hypothesis]]], Prediction] | None = None
    """Makes a prediction from the hypotheses of the parts of an example."""


@dataclass(frozen=True)
class Exchange:
    """A task's counterparts in other libraries: a script that runs its models, a pipeline, an output layer."""

    script: str
    """The script in an export's README: translate, generate, logits, tag or parse (`export/templates`)."""
    pipeline: str = ""
    """The Hugging Face pipeline with the same inputs and outputs, for the inference API; "" if there is none."""
    head: BertHead | None = None
    """The class in transformers for a BERT with the task's output layer."""


class FileFormat(NamedTuple):
    """A file format of a task's predictions."""

    extension: str
    write: Callable[[Example], str]
    """Makes text of an example together with its prediction."""
    on_stdout: bool = True
    """True if predictions are printed in this format, not as JSON."""


@dataclass(frozen=True)
class Task(ABC, Generic[R, D]):
    """One kind of learning problem, configured by a recipe."""

    recipe: R
    random_weights: tuple[str, ...] = field(default=(), kw_only=True, repr=False)
    """Names of weights that an import filled with random values: outputs that depend on them are left out."""

    name: ClassVar[str]
    """The value of `task` in a recipe."""
    recipe_type: ClassVar[type[Recipe]]
    title: ClassVar[str] = ""
    """A few words for lists of tasks."""
    command: ClassVar[str] = "predict"
    """The command that runs a model of this task: regard COMMAND RUN."""
    starts: ClassVar[StartRules] = StartRules()
    """What `start_from` accepts."""
    packs: ClassVar[bool] = True
    """True if batches are packed on a GPU, for models that take packed batches."""
    one_shape: ClassVar[bool] = False
    """True if all batches have the same shape, packed or not."""
    scored_by_examples: ClassVar[bool] = True
    """True if an evaluation predicts each example and compares it with its target."""
    scored_by_store: ClassVar[bool] = False
    """True if an evaluation measures the likelihood of tokenised data (`score_store`)."""
    output_weights: ClassVar[Mapping[str, str]] = {}
    """The prefix of the weights that each output depends on, if an import may lack them; the first one is needed."""
    empty: ClassVar[Mapping[str, object]] = {}
    """The prediction for an example without text; {} if the model reads it like any other."""
    optional_outputs: ClassVar[tuple[str, ...]] = ()
    """Keys that only some predictions have."""
    has_picture: ClassVar[bool] = False
    """True if a description can be drawn as SVG."""
    reads_files: ClassVar[bool] = False
    """True if inputs name files on this machine, which clients of a server must not read."""
    shared_input: ClassVar[str] = ""
    """The input that a person gives once for several examples, for example a text with questions about it."""
    listed_input: ClassVar[str] = ""
    """The input that is a list of texts."""

    # ---- capabilities: None if a task has none ----------------------------------------------------------------------

    checks: ClassVar[DoctorHooks[Any, Any]] = DoctorHooks()
    """What `regard doctor` and the log ask about the task; every task has them."""
    exchange: ClassVar[Exchange | None] = None
    """The task's counterparts in other libraries; None if its models cannot be exported."""
    variants: ClassVar[VariantSet | None] = None
    """The models that `regard ladder` compares."""
    file_format: ClassVar[FileFormat | None] = None
    """A file format of predictions besides JSON and tables."""

    @property
    def search(self) -> Search | None:
        """How outputs are decoded token by token; by default None: they are not."""
        return None

    @property
    def languages(self) -> Languages | None:
        """Directions, language tags and placeholders of a translation task; by default None."""
        return None

    @property
    def text_encoder(self) -> TextEncoding | None:
        """How the model makes vectors of texts; by default None: it has no text encoder."""
        return None

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes that the model distinguishes; by default none."""
        return ()

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """The tokenizers by the sequence of a batch that they encode: "source", "target"; by default none."""
        return {}

    # ---- preparation ------------------------------------------------------------------------------------------------

    options: ClassVar[tuple[str, ...]] = ()
    """The names of the options that `configure` takes."""

    @classmethod
    def prepare(cls, recipe: R, folder: Path, start: Path | None, report: Report) -> Self:
        """Learn tokenizers and labels from the training data and write them to `folder`, unless they are there. `start`
        is the folder of the run that training starts from, if any: its tokenizers are copied."""
        return cls.load(recipe, folder)

    @classmethod
    def load(cls, recipe: R, folder: Path) -> Self:
        """Read the tokenizers and labels of a prepared run; by default there are none."""
        return cls(recipe)

    @classmethod
    def artifacts(cls, recipe: R) -> tuple[str, ...]:
        """File names that `prepare` writes and that the weights depend on; by default none."""
        return ()

    # ---- data -------------------------------------------------------------------------------------------------------

    def read(self, split: str, sources: Sequence[Source] | None = None) -> Iterator[Example]:
        """Read the examples of a split, or of other `sources`, with their targets, one at a time."""
        if sources is not None:
            return read_examples(sources, Path(), self.recipe.fields)
        split_sources(self.recipe, split)  # raises an error if there are none
        return read_split(self.recipe.data, self.recipe.fields, split)

    def content(self, split: str, sources: Sequence[Source] | None, digests: Digests) -> object:
        """JSON that identifies the examples of a store: the content of files and how they are read."""
        data = self.recipe.data
        if sources is not None:
            return identify(sources, Path(), self.recipe.fields, digests)
        if data.held_out and split in ("train", *data.held_out):
            train = identify(data.train, data.folder, self.recipe.fields, digests)
            return [train, {"split": split, "held out": data.held_out, "shares": [data.hold_out, data.hold_out_test]}]
        return identify(split_sources(self.recipe, split), data.folder, self.recipe.fields, digests)

    @abstractmethod
    def encoder(self, filtered: bool) -> Encoder:
        """The encoder that tokenises examples; `filtered` if the filters of training data apply."""

    def view(self, store: Store) -> D:
        """A store as the batches of this task read it: by default, as inputs with the labels of their examples."""
        return cast(D, Inputs(store, per_token=False))

    def batches(self, store: D, world: World) -> BatchSource:
        """The batches of training: a function of (seed, step)."""
        training, seed = self.recipe.training, self.recipe.runtime.seed
        budget, share = Budget(training.batch_tokens, training.batch_examples), share_of(training, world)
        kind = PooledBatches if isinstance(store, Pairs) and store.is_parted else Batches
        return kind(cast(Epochs, store), budget, seed, share, packed=is_packed(self, world))

    def validation_data(self, folder: Path, store: D, world: World) -> ValidationData[D]:
        """The data that `validate` uses."""
        return ValidationData(store, list(self.read("valid")) if self.scored_by_examples else ())

    # ---- training ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def new_model(self) -> nn.Module:
        """A model with random weights."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """The training objective of one batch, summed over its targets; the model is called through `forward` only."""

    @torch.no_grad()
    def validate(self, model: nn.Module, data: ValidationData[D]) -> Validation:
        """Metrics of the validation data, by default the loss and those of `score`, and a few samples."""
        store = cast(Inputs, data.store)
        groups = groups_by_length(store.widths[0].tolist(), self.recipe.training.batch_tokens)
        nll, count = summed_loss(self, model, (partial(store.pad, np.array(group)) for group in groups))
        predictions = list(self.predict(model, data.examples))
        scores = {name: score.value for name, score in self.score(data.examples, predictions).items()}
        shown = list(zip(data.examples, predictions, strict=True))[: self.recipe.training.samples]
        return Validation({"loss": nll / max(1, count), **scores}, [self.describe(*row).lines() for row in shown])

    # ---- use --------------------------------------------------------------------------------------------------------

    def configure(self, **options: object) -> Self:
        """The task with options of prediction changed (for example beam=8); a UserError for an unknown option."""
        for name in options:
            close = nearest(name, self.options)
            problem = f"`{name}` is not an option of task {self.name}"
            remedy = f"did you mean `{close}`?" if close else "leave this option out"
            raise UserError(problem, remedy, code="unsupported-option", where=name)
        return self

    def parse(self, value: str | Mapping[str, object], where: str = "the input") -> Example:
        """The example that a line of text or a dictionary means, checked, without its target; errors name `where`."""
        fields = self.recipe.fields
        if isinstance(value, str):
            value = split_columns(value, fields.inputs, len(fields.required), where, fields.json_form)
        for key in fields.required:
            if value.get(key) is None:
                raise missing_key(key, fields, where)
        check_text(value, where)
        return {key: item for key, item in value.items() if key != fields.target}

    def to_line(self, example: Example) -> str:
        """The inputs of an example as one line: its text, or JSON if it has more than one value."""
        fields = self.recipe.fields
        values = {key: value for key, value in example.items() if key in (*fields.required, *fields.inputs)}
        text = values.get(fields.required[0])
        return text if len(values) == 1 and isinstance(text, str) else json.dumps(values, ensure_ascii=False)

    @abstractmethod
    def predict(self, engine: Any, examples: Iterable[Example]) -> Iterator[Prediction]:
        """A prediction for each example, in order and in bounded memory; `engine` is a model or an engine."""

    def output(self, prediction: Prediction) -> Prediction:
        """The part of a prediction that `regard predict` prints; by default all of it."""
        return prediction

    @abstractmethod
    def describe(self, example: Example, prediction: Prediction) -> Description:
        """An example, with or without its target, and its prediction, for every medium."""

    def score(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Score]:
        """Scores of predictions against the targets of the examples, by the names `training.monitor` uses. By default
        the means of `correct`, in percent."""
        correct = [self.correct(*pair) for pair in zip(examples, predictions, strict=True)]
        signature = Message("{count:,} examples", count=len(correct))
        means = {name: 100.0 * sum(item[name] for item in correct) / len(correct) for name in next(iter(correct), ())}
        return {name: Score(name, mean, signature) for name, mean in means.items()}

    def score_store(self, model: nn.Module, store: D) -> list[Score]:
        """Scores of a model on tokenised data, for example its perplexity; by default none."""
        return []

    def correct(self, example: Example, prediction: Prediction) -> dict[str, float]:
        """How right one prediction is, from 0 to 1, by metric; by default empty: no metric is a mean over examples."""
        return {}

    def scorer(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Scorer:
        """The scores of resampled predictions, for a paired bootstrap test. By default each resample is scored by
        `score`; a task whose scores are functions of sums over examples counts only once (`tally_scorer`)."""
        if type(self).score is Task.score:
            return mean_scorer([self.correct(*pair) for pair in zip(examples, predictions, strict=True)])

        def scores(weights: Weights) -> dict[str, Score]:
            rows = np.repeat(np.arange(len(weights)), weights).tolist()
            return self.score([examples[row] for row in rows], [predictions[row] for row in rows])

        return scores

    def tables(self, examples: Sequence[Example], predictions: Sequence[Prediction], page: bool) -> Tables:
        """Tables of an evaluation, e.g. scores per class; by default none. `page` adds those for reports."""
        return []

    def attention(self, model: nn.Module, example: Example, prediction: Prediction) -> list[AttentionMap]:
        """The attention weights of every layer and head for one example; by default none."""
        return []

    def next_commands(self, folder: str, example: str) -> list[str]:
        """Commands to try after training, with a quoted folder and a quoted example."""
        test = "" if self.recipe.data.test or "test" in self.recipe.data.held_out else " --on valid"
        inspect = [f"regard inspect {folder} {example}"] if self.recipe.has_attention else []
        return [f"regard {self.command} {folder} {example}", f"regard evaluate {folder}{test}", *inspect]


AnyTask = Task[Any, Any]
"""A task of any kind."""


def pipeline_of(task: AnyTask) -> str:
    """The Hugging Face pipeline of a task; "" if it has none."""
    return "" if task.exchange is None else task.exchange.pipeline


def pad_examples(encode: Callable[[Example], Sequence[Input]], examples: Sequence[Example], model: nn.Module) -> Batch:
    """The padded batch of some examples, on the device of a model."""
    return Inputs.of(map(encode, examples), per_token=False).pad(np.arange(len(examples))).to(device_of(model))


def share_of(training: TrainingSettings, world: World) -> Share:
    """The micro-batches of a step that this process computes."""
    return Share(world.rank, world.size, training.accumulation)


def is_packed(task: AnyTask, world: World) -> bool:
    """True if batches are packed: on a GPU, for models that take packed batches. Otherwise they are padded."""
    return task.packs and world.device.type == "cuda" and kernels_available() and task.recipe.model.supports_packing


def split_sources(recipe: Recipe, split: str) -> list[Source]:
    """The sources of a split; none if it is held out of train; a UserError if the recipe names none."""
    sources: list[Source] = getattr(recipe.data, split)
    if not sources and split not in recipe.data.held_out:
        remedy = f"add `data.{split}` to the recipe, or evaluate on other data, e.g. on valid"
        raise UserError(f"the recipe names no {split} data", remedy, code="no-data", where=f"data.{split}")
    return sources


def summed_loss(task: AnyTask, model: nn.Module, batches: Iterable[Callable[[], Batch]]) -> tuple[float, int]:
    """The negative log-likelihood of the batches that these functions make, and the number of targets."""

    def compute(batch: Callable[[], Batch]) -> tuple[float, int]:
        loss = task.loss(model, batch().to(device_of(model)))
        return float(loss.nll), int(loss.count)

    sums = list(compute_all(partial(compute, batch) for batch in batches))
    return math.fsum(nll for nll, _ in sums), sum(count for _, count in sums)


def device_of(model: nn.Module) -> torch.device:
    """The device of a model; an n-gram model has buffers and no parameters."""
    tensor = next(model.parameters(), None)
    return next(model.buffers()).device if tensor is None else tensor.device
