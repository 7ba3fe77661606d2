"""A run is a folder: everything that is needed to continue, use, evaluate and inspect a model.

recipe.toml                      every setting, defaults written out
tokenizer.json, labels.json ...  what the task learnt before training (`Task.artifacts`)
changes.json                     the settings that differ from their defaults (see run/facts.py)
manifest.json                    settings and checksums that the weights depend on
store/train, store/valid         tokenised data; built again if its inputs change
checkpoints/                     the weights (see training/checkpoint.py)
metrics.jsonl                    losses and scores over time
evaluations/*.json, *.html       scores, predictions and reports
exports/                         the model in the format of other libraries (see run/exporting.py)
"""

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

import torch
from torch import nn

from regard.config import apply_overrides
from regard.data.digests import Digests
from regard.data.formats import describe_sources, identify
from regard.data.store import fingerprint_of, is_parted
from regard.errors import UserError
from regard.files import JsonObject, Manifest, checksum, digest, io_errors, write_text
from regard.messages import Message
from regard.models.settings import WORD_VECTORS
from regard.reading import MAX_BYTES, check_type, read_toml, require_regular
from regard.recipe import Recipe, to_toml
from regard.recipe_files import current_names
from regard.run.facts import require_run, write_changes
from regard.run_files import (
    CHECKPOINTS,
    FOLDER,
    MANIFEST,
    METRICS,
    MODEL,
    RECIPE,
    STORES,
    find_run,
    output_folder,
)
from regard.tasks.base import AnyTask, ProgressCallback, Report
from regard.tasks.operations import check_memory, facts, load_model, load_word_vectors, open_store, training_view
from regard.tasks.registry import build_recipe, is_derived, start_tasks, task_of
from regard.training.checkpoint import Checkpoints, read_progress, read_weights
from regard.training.progress import TrainingProgress

MANIFEST_FORMAT = 1

# Groups of settings that the weights and the data depend on: they may not change when a run is resumed.
FIXED_GROUPS = ("task", "start_from", "text", "model", "data")
FREE_SETTINGS = {"data": {"root", "workers", "test", "src_lang", "tgt_lang"}}
MANIFEST_GROUPS = ("text", "model")


@final
@dataclass(frozen=True)
class Run:
    """One folder: its recipe, its task and its checkpoints."""

    folder: Path
    recipe: Recipe

    @classmethod
    def create(cls, folder: str | Path, recipe: Recipe) -> "Run":
        """Make the folder, or write another recipe into it. Paths are made absolute, so that it works from anywhere."""
        folder, recipe = Path(folder), absolutize(recipe)
        with io_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / RECIPE, recipe.to_toml() + "\n")
            write_changes(folder, recipe)
        return cls(folder, recipe)

    @classmethod
    def open(cls, folder: str | Path, *tasks: str) -> "Run":
        """Open a folder that `create` made; a UserError if it is not a run, or of a task other than `tasks`.

        A task that a plug-in derives from one of them counts as this one.

        The name of a run that comes with regard opens that one, if there is no such folder.
        """
        folder = find_run(folder)
        require_run(folder)
        recipe = read_recipe(folder)
        if tasks and not is_derived(recipe, tasks):
            problem = f"{folder} is a {recipe.task} run, not a run of task {' or '.join(tasks)}"
            remedy = "use `regard predict`, which accepts runs of any task"
            raise UserError(problem, remedy, code="wrong-task", where=folder)
        return cls(folder, recipe)

    @property
    def outputs(self) -> Path:
        """Where commands write results by default: the folder; runs/NAME for a run that comes with regard."""
        return output_folder(self.folder)

    # ---- task -------------------------------------------------------------------------------------------------------

    @cached_property
    def task(self) -> AnyTask:
        self.check_manifest()
        return task_of(self.recipe).load(self.recipe, self.folder)

    def prepare(self, report: Report) -> None:
        """Learn tokenizers and labels and write them to the folder, unless they are there.

        As long as there are no weights, those of an earlier preparation are used only if it was complete, and if the
        training text is still the same.
        """
        start = self.start
        if not self.recipe.data.train:
            problem = f"{self.folder / RECIPE} names no train data: the model was not trained here"
            remedy = f'to fine-tune the model, set start_from = "{self.folder}" and data in your own recipe'
            raise UserError(problem, remedy, code="no-data", where="data.train")
        task_class, data = task_of(self.recipe), self.recipe.data
        for line in describe_sources([*data.train, *data.valid], data.folder, self.recipe.fields):
            report(line)
        text = checksum(identify(data.train, data.folder, self.recipe.fields, Digests()))  # of the training text
        parted = is_parted(self.folder / STORES / "train")  # with other tokenizers all parts would be written again
        if not self.checkpoints.has_weights() and not parted and not self._is_prepared(text):
            self._remove_preparation()
        if start is not None:
            check_start(start, self.recipe)
            facts = {"folder": start.folder, "task": start.recipe.task, "best": describe_best(start.checkpoints)}
            report(Message("starting from {folder}: {task}, {best}", **facts))
        task = task_class.prepare(self.recipe, self.folder, start.folder if start else None, report)
        self.write_manifest(text)
        self.check_manifest()
        self.__dict__["task"] = task  # what was read and learnt is kept

    def open_stores(self, report: Report, progress: ProgressCallback | None = None) -> tuple[Sized, Sized]:
        """Build or open the tokenised training and validation data."""
        train, valid = (self.store(split, report, progress) for split in ("train", "valid"))
        train = training_view(self.task, self.folder, train, report)
        for key, value in facts(self.task).items():
            report(Message("{key}: {value}", key=key, value=value))
        return train, valid

    def store(self, split: str, report: Report, progress: ProgressCallback | None = None) -> Sized:
        """Build or open the tokenised data of a split, and report it."""
        path = self.folder / STORES / split
        before = fingerprint_of(path)
        store = open_store(self.task, self.folder, split, progress)
        if before is not None and before != fingerprint_of(path) and self.checkpoints.all():
            report(
                Message(
                    "warning: the {split} data changed since the last checkpoint; training continues on the new data",
                    split=split,
                )
            )
        report(self.task.checks.describe_store(self.task, split, store))
        return store

    # ---- start and resume -------------------------------------------------------------------------------------------

    @property
    def start(self) -> "Run | None":
        """The run to start from; None if there is none, or if this run has weights of its own."""
        return Run.open(self.recipe.start_from) if self.recipe.start_from and not self.checkpoints.all() else None

    @property
    def was_trained(self) -> bool:
        """True if the folder holds something that cannot be built again."""
        return self.checkpoints.has_weights() or (self.folder / METRICS).exists()

    def resume(self, recipe: Recipe) -> "Run":
        """Return the run with the settings of another recipe; a UserError if the weights do not fit them."""
        if (group := self.changed_group(recipe)) is not None:
            raise UserError(
                f"{self.folder} was started with different settings in [{group}]",
                f"resume with the run's recipe (`regard train {self.folder}`), or set a different `--folder`",
                code="changed-run",
                where=group,
            )
        return Run.create(self.folder, recipe)

    def restart(self, recipe: Recipe) -> "Run":
        """Start again in this folder with a new recipe, and delete tokenizers and labels that no longer fit; the caller
        checks that there are no weights. Text that is added to data in parts is tokenised as the parts are."""
        if self.changed_group(recipe) and not (is_parted(self.folder / STORES / "train") and self._adds_text(recipe)):
            self._remove_preparation()
        return Run.create(self.folder, recipe)

    def _adds_text(self, recipe: Recipe) -> bool:
        """True if all that a recipe changes are further sources of training text, which need no further tags."""
        data, count = recipe.data, len(self.recipe.data.train)
        names = ("tagged_languages", "has_back_translations")
        tags = ([getattr(item, name, None) for name in names] for item in (self.recipe.data, data))
        shorter = data.model_copy(update={"train": data.train[:count]})
        return next(tags) == next(tags) and not self.changed_group(recipe.model_copy(update={"data": shorter}))

    def _is_prepared(self, text: str) -> bool:
        manifest = Manifest.read_or_none(self.folder / MANIFEST)
        return manifest is not None and manifest.inputs == text and not manifest.damaged(self.folder)

    def _remove_preparation(self) -> None:
        for name in (*task_of(self.recipe).artifacts(self.recipe), MANIFEST):
            (self.folder / name).unlink(missing_ok=True)

    def changed_group(self, recipe: Recipe) -> str | None:
        """The first group of settings that the weights depend on and that differs in `recipe`."""
        ours, theirs = map(fixed_settings, (self.recipe, absolutize(recipe)))
        return next((group for group in FIXED_GROUPS if ours[group] != theirs[group]), None)

    # ---- manifest ---------------------------------------------------------------------------------------------------

    def write_manifest(self, text: object = None) -> None:
        """Record the settings and files that the weights will depend on, once; `text` identifies the training text.

        A tokenizer with two tokens exchanged, or norm = "pre" instead of "post", still fits the weights and gives
        wrong results without an error. `check_manifest` finds such a change.
        """
        if (self.folder / MANIFEST).exists():
            return
        names = [name for name in task_of(self.recipe).artifacts(self.recipe) if (self.folder / name).exists()]
        settings = {group: getattr(self.recipe, group).model_dump() for group in MANIFEST_GROUPS}
        facts = {"settings": settings}
        manifest = Manifest.describe(self.folder, names, format=MANIFEST_FORMAT, inputs=text, facts=facts)
        manifest.write(self.folder / MANIFEST)

    def check_manifest(self) -> None:
        """Raise UserError if a setting or file that the weights depend on has changed."""
        path = self.folder / MANIFEST
        if not path.exists():
            return
        manifest = Manifest.read(path)
        manifest.check_version(MANIFEST_FORMAT, self.folder)
        groups = check_type(manifest.facts.get("settings"), dict[str, JsonObject], f"{path}:settings")
        settings = {
            f"{group}.{key}": value for group, values in current_names(groups).items() for key, value in values.items()
        }
        for key, value in settings.items():
            group, _, name = key.partition(".")
            now = getattr(getattr(self.recipe, group, None), name, None)
            if now != value:
                problem = f"{self.folder / RECIPE} has {key} = {now!r}, but the run was started with {value!r} ({path})"
                remedy = f"restore {key} = {value!r}; for a different value start a new run"
                raise UserError(problem, remedy, code="changed-run", where=key)
        remedy = "restore the file from a backup: the weights depend on it"
        for name, entry in manifest.files.items():
            file = self.folder / name
            if Path(name).name != name or not file.is_file():
                raise UserError(f"{file} is missing", remedy, code="missing-file", where=file)
            require_regular(file, MAX_BYTES)
            if digest(file) != str(entry["sha256"]):
                problem = f"{file} is damaged: its sha256 differs from the one recorded in {path}"
                raise UserError(problem, remedy, code="damaged-file", where=file)

    # ---- weights ----------------------------------------------------------------------------------------------------

    @property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.folder / CHECKPOINTS, keep=self.recipe.training.keep)

    def initial_model(self, report: Report = lambda _: None) -> nn.Module:
        """A model for the first step: random weights, word vectors, or the best weights of the run to start from."""
        saved = [path / MODEL for path in self.checkpoints.all() if (path / MODEL).is_file()]
        check_memory(self.task, saved[-1].stat().st_size if saved else None)
        model, start = self.task.new_model(), self.start
        if start is not None:
            path = start.checkpoints.resolve("best")
            self.task.starts.copy(self.task, model, read_weights(path), start.task, str(path))
        elif not saved:
            load_word_vectors(self.task, model, report)
        return model

    def model(self, checkpoint: str = "best", device: torch.device | None = None) -> nn.Module:
        """The model with the weights of a checkpoint, in evaluation mode."""
        path = self.checkpoints.resolve(checkpoint)
        return load_model(self.task, read_weights(path), str(path)).to(device or torch.device("cpu")).eval()


def describe_best(checkpoints: Checkpoints) -> str:
    """The name of the best checkpoint and its validation score, if it has one."""
    path = checkpoints.resolve("best")
    progress = TrainingProgress.from_json(read_progress(path), str(path))
    if progress.score is None or progress.validated_step != progress.step:
        return Message("checkpoint {name}", name=path.name)
    validation = f"{progress.monitor} {progress.score:.4g}"
    return Message("checkpoint {name}, validation {score}", name=path.name, score=validation)


def read_recipe(folder: Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of a run with some settings changed ("name=value")."""
    path = folder / RECIPE
    return build_recipe(apply_overrides(read_toml(path), overrides), str(path))


def absolutize(recipe: Recipe) -> Recipe:
    """The recipe with absolute paths."""
    data = recipe.data.model_copy(update={"root": str(recipe.data.folder.absolute())})
    start = recipe.start_from if find_run(recipe.start_from).parent == FOLDER else absolute_path(recipe.start_from)
    text, other = recipe.text, getattr(recipe.text, "tokenizer_from", "")
    text = text.model_copy(update={"tokenizer_from": absolute_path(other)}) if other else text
    model, vectors = recipe.model, getattr(recipe.model, "embeddings_from", "")
    model = model.model_copy(update={"embeddings_from": absolute_path(vectors)}) if vectors else model
    return recipe.model_copy(update={"data": data, "text": text, "model": model, "start_from": start})


def absolute_path(path: str) -> str:
    """A path as an absolute one; "" stays."""
    return str(Path(path).expanduser().absolute()) if path else ""


def fixed_settings(recipe: Recipe) -> JsonObject:
    """The settings of a recipe that may not change when a run is resumed; the compression of files may."""
    sources = {split: [item.uncompressed() for item in getattr(recipe.data, split)] for split in ("train", "valid")}
    plain = recipe.model_copy(update={"data": recipe.data.model_copy(update=sources)})
    return plain.model_dump(exclude=FREE_SETTINGS)


def check_start(start: Run, recipe: Recipe) -> None:
    """Raise UserError if a run of `recipe` cannot start from `start`."""
    task = task_of(recipe)
    allowed = start_tasks(task)
    if start.recipe.task not in allowed:
        problem = f"cannot start from {start.folder}, a run of task {start.recipe.task}"
        remedy = f"set `start_from` to a run of task {' or '.join(allowed)}"
        raise UserError(problem, remedy, code="incompatible-start", where="start_from")
    task.starts.check(recipe, start.recipe, start.folder)
    check_same_model(start, recipe)


def check_same_model(start: Run, recipe: Recipe) -> None:
    """Raise UserError if the weights of `start` do not fit the model of `recipe`; every differing setting is named.
    Weights of another shape do not load, but those of other heads, norms or positions may load and give nonsense."""
    theirs, ours = start.recipe.model.model_dump(exclude_none=True), recipe.model.model_dump()
    theirs = task_of(recipe).starts.settings(start.recipe.task, "model", theirs)
    fixed = [name for name in theirs if not name.endswith(("dropout", "weight_drop")) and name not in WORD_VECTORS]
    differing = [f"model.{name}={_option(theirs[name])}" for name in fixed if ours.get(name) != theirs[name]]
    if theirs["kind"] != ours["kind"]:  # the other settings belong to the kind
        differing = ["'model={" + ", ".join(to_toml({name: theirs[name]}) for name in fixed) + "}'"]
    text = start.recipe.text.model_dump(exclude_none=True, exclude={"dropout"})
    differing[:0] = [
        f"text.{name}={_option(text[name])}" for name in text if getattr(recipe.text, name, None) != text[name]
    ]
    if differing:
        raise UserError(
            f"this recipe's model differs from the one in {start.folder} (`start_from`)",
            f"set {' '.join(differing)}",
            code="incompatible-start",
            where=", ".join(item.partition("=")[0].strip("'") for item in differing),
        )


def _option(value: object) -> str:
    """A setting as it is written on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)
