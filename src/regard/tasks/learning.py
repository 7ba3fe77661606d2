"""The learning part of a task: settings, tokenizers, data, model, loss and validation.

sources -> examples -> store -> batches -> model -> loss
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from torch import Tensor, nn

from regard.config import SettingsTable
from regard.data.batch import Batch, BatchSource, Share
from regard.data.digests import Digests
from regard.data.examples import Example
from regard.data.fields import Fields
from regard.data.formats import identify, read_examples
from regard.data.hold_out import read_split
from regard.data.settings import adopt_settings, build_source
from regard.data.sources import Source, column_setting
from regard.data.store import DIGESTS, Encoder, ProgressCallback, Store, open_or_build
from regard.decoding.engine import Engine
from regard.errors import UserError
from regard.kernels import kernels_available
from regard.layers.meta import allocate, on_meta
from regard.losses.crossentropy import Loss
from regard.recipe import Recipe
from regard.run_files import SPLITS, STORES
from regard.runtime import World, total_memory
from regard.tasks.checks import DoctorHooks
from regard.text.tokenizer import Tokenizer
from regard.training.settings import TrainingSettings
from regard.training.task import Validation
from regard.training.weights import check_shapes, count_parameters, load_weights

if TYPE_CHECKING:
    from regard.tasks.base import AnyTask

Report = Callable[[str], None]
"""Prints one line about the progress of the work."""

R = TypeVar("R", bound=Recipe)
D = TypeVar("D", bound=Sized)
"""The tokenised data of a task: a view of its store."""
T = TypeVar("T")


@dataclass(frozen=True)
class ValidationData(Generic[D]):
    """The validation split of a run, as `Task.validate` uses it."""

    store: D
    examples: Sequence[Example] = ()
    engine: Callable[[nn.Module], Engine] | None = None
    """Makes an engine of the model in training; if it is not given, the model itself is decoded."""
    cache: dict[str, Any] = field(default_factory=dict, repr=False)

    def cached(self, compute: Callable[[], T]) -> T:
        """The result of `compute`, which is called at the first validation only."""
        if "value" not in self.cache:
            self.cache["value"] = compute()
        value: T = self.cache["value"]
        return value


@dataclass(frozen=True)
class LearningTask(ABC, Generic[R, D]):
    """The part of a task that training uses: preparation, data, model, loss and validation."""

    recipe: R

    name: ClassVar[str]
    """The value of `task` in a recipe."""
    recipe_type: ClassVar[type[Recipe]]
    title: ClassVar[str] = ""
    """A few words for lists of tasks."""
    compatible_starts: ClassVar[tuple[str, ...]] = ()
    """Other tasks whose runs `start_from` accepts."""
    checks: ClassVar[DoctorHooks[Any, Any]] = DoctorHooks()
    """What `regard doctor` asks about the task."""

    # ---- preparation ------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, recipe: R, folder: Path, start: Path | None, report: Report) -> Self:
        """Learn tokenizers and labels from the training data and write them to `folder`, unless they are there.

        `start` is the folder of the run that training starts from, if any: its tokenizers are copied.
        """
        return cls.load(recipe, folder)

    @classmethod
    def load(cls, recipe: R, folder: Path) -> Self:
        """Read the tokenizers and labels of a prepared run."""
        return cls(recipe)

    @classmethod
    def artifacts(cls, recipe: R) -> tuple[str, ...]:
        """File names that `prepare` writes and that the weights depend on."""
        return ()

    @classmethod
    def check_start(cls, recipe: R, start: Recipe, folder: Path) -> None:
        """Raise UserError if a run of recipe `start` in `folder` cannot be started from."""

    @classmethod
    def start_settings(cls, task: str, group: str, values: SettingsTable) -> SettingsTable:
        """[text] or [model] of a run of another task to start from, as settings of this task."""
        return values

    # ---- data -------------------------------------------------------------------------------------------------------

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """The tokenizers by the sequence of a batch that they encode: "source", "target"."""
        return {}

    @property
    def fields(self) -> Fields:
        """The fields of an example."""
        return self.recipe.fields

    def sources(self, split: str) -> list[Source]:
        """The sources of a split; none if it is held out of train; a UserError if the recipe names none."""
        sources: list[Source] = getattr(self.recipe.data, split)
        if not sources and split not in self.recipe.data.held_out:
            raise UserError(
                f"the recipe names no {split} data",
                f"write data.{split} in the recipe, or evaluate on other data (--on valid, --file FILE)",
                code="no-data",
                where=f"data.{split}",
            )
        return sources

    def file_sources(self, files: Mapping[str, Any]) -> list[Source]:
        """Sources for files that the recipe does not name, by setting, for example {"file": "other.tsv"}.

        A file is read as the recipe reads its own files of the same ending; a table of another ending has the columns
        of the recipe. Other settings in `files`, {"file": "other.tsv", "label": 3}, change this.
        """
        named = [source for split in reversed(SPLITS) for source in getattr(self.recipe.data, split)]
        settings = adopt_settings(files["file"], named, self.fields) if "file" in files else {}
        if any(isinstance(files.get(column), str) for column in map(column_setting, self.fields.columns)):
            settings.pop("header", None)  # columns with names have a header
        options = ", ".join(f"--{name}" for name in ("file", "src", "tgt") if name in files)
        return [build_source({**settings, **files}, self.fields, options)]

    def read(self, split: str, sources: Sequence[Source] | None = None) -> Iterator[Example]:
        """Read the examples of a split, or of other `sources`, one at a time."""
        if sources is not None:
            return read_examples(sources, Path(), self.fields)
        self.sources(split)  # raises an error if there are none
        return read_split(self.recipe.data, self.fields, split)

    def examples(self, split: str, sources: Sequence[Source] | None = None) -> Sequence[Example]:
        """The examples of a split, or of other `sources`, with their targets."""
        return list(self.read(split, sources))

    def some_examples(self, split: str, count: int) -> Sequence[Example]:
        """About `count` examples of a split, without reading all of it if it is large."""
        if not self.checks.sorted_by_label:
            return list(islice(self.read(split), count))
        examples = self.examples(split)
        return examples[:: max(1, len(examples) // count)]

    @abstractmethod
    def encoder(self, filtered: bool) -> Encoder:
        """The encoder that tokenises examples; `filtered` if the filters of training data apply."""

    @abstractmethod
    def view(self, store: Store) -> D:
        """A store as the batches of this task read it."""

    def content(self, split: str, sources: Sequence[Source] | None, digests: Digests) -> object:
        """JSON that identifies the examples of a store: the content of files and how they are read."""
        data = self.recipe.data
        if sources is not None:
            return identify(sources, Path(), self.fields, digests)
        if data.held_out and split in ("train", *data.held_out):
            train = identify(data.train, data.folder, self.fields, digests)
            return [train, {"split": split, "held out": data.held_out, "shares": [data.hold_out, data.hold_out_test]}]
        return identify(self.sources(split), data.folder, self.fields, digests)

    def store(
        self,
        folder: Path,
        split: str,
        progress: ProgressCallback | None = None,
        sources: Sequence[Source] | None = None,
    ) -> D:
        """Open the tokenised data of a split in `folder`; build it if it is missing, damaged or out of date.

        `sources` replaces those of the recipe, for an evaluation on other data.
        """
        path = folder / STORES / split
        digests = Digests(path / DIGESTS)
        content = json.dumps(self.content(split, sources, digests))
        encoder = self.encoder(filtered=sources is None and split in ("train", *self.recipe.data.held_out))
        named = getattr(self.recipe.data, split) if sources is None else sources  # none if the split is held out
        names = ", ".join(map(str, named)) or f"data.{split}"
        workers = self.recipe.data.workers
        store = open_or_build(
            path, content, lambda: self.read(split, sources), encoder, workers, progress, digests, names
        )
        try:
            return self.view(store)
        except UserError as error:
            raise UserError(f"{names}: {error.problem}", error.remedy, code=error.code, where=error.where) from error

    def describe_store(self, split: str, store: D) -> str:
        """One line about a store for the log: number of examples and tokens."""
        return f"{split}: {len(store):,} examples"

    @abstractmethod
    def batches(self, store: D, world: World) -> BatchSource:
        """The batches of training: a function of (seed, step)."""

    def share(self, world: World) -> Share:
        """The micro-batches of a step that this process computes."""
        return Share(world.rank, world.size, self.recipe.training.accumulation)

    def validation_data(self, folder: Path, store: D, world: World) -> ValidationData[D]:
        """The data that `validate` uses."""
        return ValidationData(store, self.examples("valid"))

    # ---- training ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def new_model(self) -> nn.Module:
        """A model with random weights."""

    def model_on_meta(self) -> nn.Module:
        """A model that has shapes and no memory."""
        with on_meta():
            return self.new_model()

    def initialize(self, model: nn.Module, weights: dict[str, Tensor], start: "AnyTask", where: str) -> None:
        """Copy the weights of the run that training starts from into a new model."""
        load_weights(model, weights, where)

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """The training objective of one batch, summed over its targets; the model is called through `forward` only."""

    @abstractmethod
    def validate(self, model: nn.Module, data: ValidationData[D]) -> Validation:
        """Metrics of the validation data, the loss among them, and a few samples."""

    def training_view(self, folder: Path, store: D, report: Report) -> D:
        """The training data as batches read it, if that differs from the store (BPE-dropout)."""
        return store

    def fit_directly(self, store: D) -> nn.Module | None:
        """A model that is computed from the data without gradient steps; None for all other models."""
        return None

    def load_model(self, weights: dict[str, Tensor], where: str) -> nn.Module:
        """A model with the given weights, built without random initialisation.

        Buffers that are constants and not weights (the slopes of ALiBi) are made on the CPU explicitly and kept.
        """
        model = self.model_on_meta()
        check_shapes(model, weights, where)
        model = allocate(model)
        load_weights(model, weights, where)
        return model

    def check_memory(self, checkpoint_bytes: int | None = None) -> None:
        """Raise UserError if the weights alone do not fit into the memory, before they are allocated.

        A run that has a checkpoint of `checkpoint_bytes` cannot have a larger model.
        """
        needed = 4 * count_parameters(self.model_on_meta())
        if checkpoint_bytes is not None and needed > checkpoint_bytes:
            raise UserError(
                f"the recipe describes a model of {needed:,} bytes, and its checkpoint has {checkpoint_bytes:,}",
                "use the settings of the checkpoint",
                code="other-model",
                where="model",
            )
        if needed > (total := total_memory()):
            raise UserError(
                f"the weights of the model need {needed / 1e9:,.1f} GB, and the machine has {total / 1e9:,.1f} GB",
                "choose a smaller model, or a machine with more memory",
                code="out-of-memory",
                where="model",
            )

    def training_settings(self, batches: BatchSource) -> TrainingSettings:
        """The training settings, with every value that depends on the data filled in."""
        training = self.recipe.training
        if training.validate_every and not training.warmup_share:
            return training
        filled = training.in_steps(batches.steps_in_epoch(0))
        return filled.model_copy(update={"max_steps": training.max_steps, "max_epochs": training.max_epochs})

    def supports_packing(self, world: World) -> bool:
        """True if batches are packed: on a GPU, for models that take packed batches. Otherwise they are padded."""
        return world.device.type == "cuda" and kernels_available() and self.recipe.model.supports_packing

    def adapt_world(self, world: World) -> World:
        """The world as this task uses it: padded batches have many shapes, so no CUDA graph and no compilation.

        A loss of a plug-in may do what a graph cannot contain.
        """
        fixed = self.supports_packing(world) and self.recipe.training.loss == "cross_entropy"
        return world if fixed else replace(world, compile=False, capture=False)
