"""A run is a folder: everything a model needs to be trained further, used, judged and understood.

recipe.toml                      every setting, defaults written out
tokenizer.json                   the vocabulary (or src.tokenizer.json and tgt.tokenizer.json)
seal.json                        what the weights depend on, to notice when it is no longer so (see run/seal.py)
store/train, store/valid         tokenised pairs; made again whenever what they depend on changes
checkpoints/                     the weights (see training/checkpoint.py)
metrics.jsonl                    losses and scores over time
evaluations/*.json, *.html       what was measured and drawn afterwards
exports/                         the model in the format of other programs (see run/exports.py)
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from regard.data.steps import BatchSource, PrefetchedSteps, Share
from regard.data.store import fingerprint_of
from regard.errors import UserError
from regard.files import io_errors, write_text
from regard.kernels import kernels_available
from regard.recipe import Recipe, build_recipe
from regard.recipe.loading import read_recipe
from regard.run.seal import SEAL, refuse_other_model, seal
from regard.runtime import World, seed_everything
from regard.text.factory import load_tokenizer, train_tokenizer
from regard.text.settings import TextSettings
from regard.training.checkpoint import Checkpoints, read_weights
from regard.training.distributed import place
from regard.training.events import Log
from regard.training.log import METRICS, build_log
from regard.training.loop import Outcome, fit
from regard.training.schedule import build_schedule
from regard.training.settings import TrainingSettings
from regard.training.task import Steps, Trainable
from regard.training.weights import load_weights

RECIPE, STORES = "recipe.toml", "store"
MOST_NAMED = 8  # runs, to somebody who mistook one

# Groups of settings that a run's weights and data depend on: these may not change when it goes on.
FIXED = ("task", "start_from", "text", "model", "data")
FREE = {"data": {"root", "workers", "test", "src_lang", "tgt_lang"}}

Say = Callable[[str], None]
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Run(ABC):
    """One folder and its recipe. What only a task knows is in its subclass, which names the task it is for."""

    folder: Path
    recipe: Any

    kinds: ClassVar[dict[str, type["Run"]]] = {}
    """The runs of each task."""

    def __init_subclass__(cls, task: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if task:
            Run.kinds[task] = cls

    @classmethod
    def create(cls, folder: Path, recipe: Recipe) -> Any:
        """Make the folder of the recipe's task. Paths are kept whole, so that the run can be used from anywhere."""
        recipe = with_whole_paths(recipe)
        with io_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / RECIPE, recipe.to_toml() + "\n")
        return cls.kinds[recipe.task](folder, recipe)

    @classmethod
    def open(cls, folder: str | Path) -> Any:
        """Open a folder that `create` made."""
        folder = Path(folder)
        if not (folder / RECIPE).is_file():
            what = "is not a run: it has no recipe.toml" if folder.is_dir() else "there is no such folder"
            near = sorted(path.parent for base in {folder, folder.parent} for path in base.glob(f"*/{RECIPE}"))
            raise UserError(
                f"{folder}: {what}",
                f"runs near it: {', '.join(map(str, near[:MOST_NAMED]))}" if near else "regard train RECIPE makes one",
            )
        recipe = build_recipe(read_recipe(folder / RECIPE), str(folder / RECIPE))
        return cls.kinds[recipe.task](folder, recipe)

    def resumed_with(self, recipe: Recipe) -> Any:
        """The same run with another recipe's settings; refused where the weights would no longer fit them."""
        changed = self.changed_group(recipe)
        if changed is not None:
            raise UserError(
                f"{self.folder} was begun with other settings in [{changed}]",
                f"go on with its own recipe (regard train {self.folder}), or start another run with --folder FOLDER",
            )
        return Run.create(self.folder, recipe)

    def begun_anew(self, recipe: Recipe) -> Any:
        """The same folder for another recipe; only for a run that was never trained."""
        for path in [*self.folder.glob("*tokenizer.json"), self.folder / SEAL] if self.changed_group(recipe) else ():
            path.unlink(missing_ok=True)
        return Run.create(self.folder, recipe)

    def changed_group(self, recipe: Recipe) -> str | None:
        """The first group of settings that the weights depend on and that `recipe` sets otherwise.

        Where the data lies may change; what it holds is known by its content.
        """
        mine, theirs = (each.model_dump(exclude=FREE) for each in (self.recipe, with_whole_paths(recipe)))
        return next((group for group in FIXED if mine[group] != theirs[group]), None)

    @property
    def start(self) -> "Run | None":
        """The run this one begins with, if any; once there are weights of its own it is needed no more."""
        return Run.open(self.recipe.start_from) if self.recipe.start_from and not self.checkpoints.all() else None

    @property
    def was_trained(self) -> bool:
        """Whether there is anything that cannot simply be made again."""
        return bool(self.checkpoints.all()) or (self.folder / METRICS).exists()

    @property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.folder / "checkpoints", keep=self.recipe.training.keep)

    @abstractmethod
    def prepare(self, say: Say, progress: Progress | None = None) -> None:
        """Vocabularies and stores, made once and by one process."""

    @abstractmethod
    def batches(self, world: World) -> BatchSource:
        """What is computed in which step of training."""

    @abstractmethod
    def training_task(self, world: World) -> Trainable[Any]:
        """What is learnt, with the data it is validated on."""

    @abstractmethod
    def new_model(self) -> Any:
        """A model with fresh weights, whatever run it starts from."""

    @abstractmethod
    def store(self, part: str, progress: Progress | None = None) -> Any:
        """The tokenised text of "train", "valid" or "test"."""

    def refuse_nothing_to_read(self) -> None:
        """A model from elsewhere came without its texts."""
        if not self.recipe.data.train:
            raise UserError(
                f"{self.folder / RECIPE} names no train data: the model was not trained here",
                f'to go on with it, write start_from = "{self.folder}" and data in a recipe of your own',
            )

    def prepared(self, part: str, say: Say, progress: Progress | None = None) -> Any:
        """The same, and a word if it is not what this run was trained with so far."""
        before = fingerprint_of(self.folder / STORES / part)
        store = self.store(part, progress)
        if before not in (None, store.fingerprint) and self.checkpoints.all():
            say(f"warning: the {part} text is not what this run was trained with so far; it goes on with the new")
        return store

    def steps(self, world: World) -> Steps[Any]:
        """The steps of training from any one on."""
        return PrefetchedSteps(self.batches(world), pinned=world.device.type == "cuda")

    def share(self, world: World) -> Share:
        """The micro-batches of a step that this process computes."""
        return Share(world.rank, world.size, self.recipe.training.accumulation)

    def packs(self, world: World) -> bool:
        """On a GPU batches are packed, whose attention is one kernel and whose shape is one; otherwise padded."""
        return bool(world.device.type == "cuda" and kernels_available() and self.recipe.model.supports_packing)

    def suited(self, world: World) -> World:
        """The world as this model uses it: padded batches have many shapes, and are neither recorded nor compiled."""
        return world if self.packs(world) else replace(world, compile=False, capture=False)

    def training_settings(self, world: World) -> TrainingSettings:
        """How the run is trained, with all that only its data can say."""
        settings: TrainingSettings = self.recipe.training
        return settings

    def fit(self, world: World, log: Log | None = None) -> Outcome:
        """Train the run, which is prepared, from where it stopped."""
        training, steps = self.training_settings(world), self.steps(world)
        seed_everything(self.recipe.runtime.seed, "weights")
        model = place(self.first_model(), world)
        log = log or build_log(training, self.folder, world)
        schedule = build_schedule(training, self.recipe.model.d_model)
        return fit(self.training_task(world), model, steps, training, world, self.checkpoints, log, schedule)

    def make_vocabulary(self, name: str, text: TextSettings, lines: Iterable[str], say: Say) -> None:
        """Learn what is not there yet, from the training text alone, or take it from the run this one starts from."""
        if self.start is not None:
            load_tokenizer(self.start.folder / name).save(self.folder / name)
        elif not (self.folder / name).exists():
            say(f"learning the vocabulary ({text.kind}, at most {text.vocab_size:,} pieces)")
            train_tokenizer(lines, text).save(self.folder / name)

    def seal(self, *names: str) -> None:
        """Remember what the weights will depend on: settings, and these vocabularies."""
        seal(self.folder, self.recipe, names)

    def refuse_other_start(self) -> None:
        """A run that starts from another's weights has the same model."""
        if self.start is not None:
            refuse_other_model(self.start.folder, self.start.recipe, self.recipe)

    def first_model(self) -> Any:
        """The model as training begins: with fresh weights, or the best ones of the run it starts from."""
        model = self.new_model()
        if self.start is not None:
            path = self.start.checkpoints.resolve("best")
            load_weights(model, read_weights(path), str(path))
        return model

    def model(self, checkpoint: str = "best", device: torch.device | None = None) -> Any:
        """The model with the weights of a checkpoint, ready to be used."""
        path = self.checkpoints.resolve(checkpoint)
        with torch.device("meta"):
            model = self.new_model()
        model = model.to_empty(device="cpu")
        load_weights(model, read_weights(path), str(path))
        return model.to(device or torch.device("cpu")).eval()


def with_whole_paths(recipe: Recipe) -> Recipe:
    """The recipe with paths that mean the same wherever one stands."""
    data = recipe.data.model_copy(update={"root": str(recipe.data.folder.absolute())})
    start = str(Path(recipe.start_from).expanduser().absolute()) if recipe.start_from else ""
    return recipe.model_copy(update={"data": data, "start_from": start})
