"""Checkpoints on the disk: one folder each, written atomically, with checksums; weights in safetensors.

    checkpoints.json              names of the last and the best checkpoint, and scores; for people and other tools
    step-00001000/
        model.safetensors         the weights to use (their moving average, if there is one); 8 bits after `compress`
        training.safetensors      for training only: optimizer moments, the weights under the moving average
        state.json                a manifest: progress, versions, size and sha256 of all files
    averaged/                     the average of several checkpoints (`regard average`)

Sharded training writes training-00001-of-00004.safetensors and so on instead, one file per shard and each by its own
process. A tensor that is in several files is their concatenation along the first dimension, so any number of processes
can read them. The weights to use are one file all the same: every other command reads that.

`checkpoints.json` is written from the folders and is never read by regard.
"""

import errno
import os
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, Field
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard import files
from regard.errors import UserError
from regard.files import JsonObject, Manifest, remove_folder, replacing, write_json
from regard.reading import check_type, require_regular
from regard.run_files import MODEL, STATE
from regard.runtime import World
from regard.training.distributed import broadcast_from_rank0, gather_to_rank0, together
from regard.training.quantization import dequantize
from regard.training.sharding import Shard
from regard.training.weights import Tensors

FORMAT = 1
TRAINING, INDEX = "training.safetensors", "checkpoints.json"
AVERAGED = "averaged"


class Checkpoints:
    """The checkpoints of one run; the `keep` newest stay, and always the best one."""

    def __init__(self, folder: Path, keep: int = 3) -> None:
        self.folder = folder
        self.keep = keep

    def save(self, step: int, weights: Tensors, training: Tensors, progress: JsonObject) -> Path:
        """Write the checkpoint of `step`, then remove the checkpoints that are no longer kept."""
        path = self.folder / name_of(step)
        write_checkpoint(path, {MODEL: weights, TRAINING: training}, progress)
        self._remove_old()
        return path

    def save_shards(
        self, step: int, weights: Tensors, training: Tensors, progress: JsonObject, shard: Shard, world: World
    ) -> None:
        """As `save`, but every rank writes its part of `training`; rank 0 publishes the folder when all are written.

        The error of one rank is raised on all, and then no checkpoint is left.
        """
        name = TRAINING.replace(".", f"-{shard.index + 1:05d}-of-{shard.count:05d}.") if shard.writes else ""

        def write(folder: Path) -> dict[str, JsonObject]:
            contents = ({MODEL: weights} if world.is_main else {}) | ({name: training} if name else {})
            with files.io_errors(path):
                for file, tensors in contents.items():
                    _save_tensors(folder / file, tensors)
                    files.flush(folder / file)
                return Manifest.describe(folder, contents, format=FORMAT).files

        def publish(stack: ExitStack, folder: Path, entries: list[dict[str, JsonObject]]) -> None:
            if world.is_main:
                facts = {"torch": torch.__version__, "progress": progress}
                entry = {file: values for written in entries for file, values in written.items()}
                Manifest(FORMAT, None, entry, facts).write(folder / STATE)
                stack.close()
                self._remove_old()

        path = self.folder / name_of(step)
        with ExitStack() as stack:
            opened = together(
                lambda: stack.enter_context(replacing(path, folder=True)) if world.is_main else None, world
            )
            folder = broadcast_from_rank0(opened, world)
            assert folder is not None
            entries = gather_to_rank0(together(partial(write, folder), world), world)
            together(partial(publish, stack, folder, entries), world)

    def save_average(self, weights: Tensors, sources: Sequence[Path]) -> Path:
        """Write the average of several checkpoints as the checkpoint "averaged"."""
        path = self.folder / AVERAGED
        write_checkpoint(path, {MODEL: weights}, {"averaged": [source.name for source in sources]})
        return path

    def all(self) -> list[Path]:
        """List the checkpoints of steps, oldest first."""
        return sorted(path for path in self.folder.glob("step-*") if re.fullmatch(r"step-\d{8,}", path.name))

    def newest_undamaged(self) -> tuple[Path | None, list[str]]:
        """Find the newest checkpoint with correct checksums, and describe the damage of newer ones."""
        problems: list[str] = []
        for path in reversed(self.all()):
            problem = find_damage(path)
            if problem is None:
                return path, problems
            problems.append(problem)
        return None, problems

    def resolve(self, name: str) -> Path:
        """Return the folder of the checkpoint best, last, averaged or step-00001000; check its weights."""
        path = self._find(name)
        problem = find_damage(path, only=MODEL)
        if problem is not None:
            intact = [
                other.name for other in reversed(self.all()) if other != path and find_damage(other, only=MODEL) is None
            ]
            remedy = f"use {intact[0]}, which is not damaged" if intact else "no other checkpoint is intact"
            raise UserError(problem, remedy, code="damaged-file", where=path)
        return path

    def has_weights(self) -> bool:
        """True if the folder holds weights of any kind, also averaged or damaged ones."""
        return any(self.folder.glob(f"*/{MODEL}"))

    def set_aside_after(self, step: int) -> None:
        """Tidy the folder before training continues from `step`, as if the last process had not been killed.

        Newer checkpoints are renamed: a damaged one must not be mistaken for the one that training will write under
        the same name. Incomplete checkpoints and those that are no longer kept are removed.
        """
        files.remove_leftovers(self.folder)
        for path in self.all():
            if step_of(path) > step:
                aside = path.with_name(f"damaged-{path.name}")
                if aside.exists():
                    remove_folder(aside)
                path.rename(aside)
        if self.all():
            self._remove_old()

    def _find(self, name: str) -> Path:
        steps = self.all()
        if name == "last" and steps:
            return steps[-1]
        if name == "best" and steps:
            if problem := damage_of_state(steps[-1]):  # an older state.json may name another checkpoint
                problem = f"{problem}; without this file the best checkpoint is unknown"
                remedy = f"choose one with `--checkpoint`: {', '.join(path.name for path in steps)}"
                raise UserError(problem, remedy, code="damaged-file", where=steps[-1] / STATE)
            return self._best() or steps[-1]
        path = self.folder / name
        if (name == AVERAGED or path in steps) and path.is_dir():
            return path
        names = ", ".join(path.name for path in steps)
        problem = f"{self.folder} has no checkpoint {name!r}"
        remedy = f"choose best, last or one of {names}" if steps else "train first: no checkpoint has been written yet"
        raise UserError(problem, remedy, code="no-checkpoint", where=self.folder)

    def _best(self) -> Path | None:
        """Return the best checkpoint according to the newest readable state.json."""
        for path in reversed(self.all()):
            if damage_of_state(path) is None:
                best = self.folder / name_of(read_progress(path).get("best_step") or 0)
                return best if best.is_dir() else None
        return None

    def _remove_old(self) -> None:
        steps, best = self.all(), self._best()
        remaining = [path for path in steps if path in steps[-self.keep :] or path == best]
        intact = [path for path in remaining if damage_of_state(path) is None]
        scores = {path.name: read_progress(path).get("score") for path in intact}
        last = steps[-1].name if steps else None
        index = {"format": FORMAT, "last": last, "best": best.name if best else None, "scores": scores}
        write_json(self.folder / INDEX, index)
        for path in steps:
            if path not in remaining:
                remove_folder(path)


def name_of(step: int) -> str:
    """Name the folder of a step's checkpoint; names sort like steps."""
    return f"step-{step:08d}"


def step_of(path: Path) -> int:
    """Parse the step from the name of a checkpoint's folder."""
    return int(path.name.removeprefix("step-"))


def write_checkpoint(path: Path, contents: dict[str, Tensors], progress: JsonObject) -> None:
    """Write one checkpoint folder atomically; if the disk is full, nothing changes."""
    with replacing(path, folder=True) as folder:
        for name, tensors in contents.items():
            _save_tensors(folder / name, tensors)
        facts = {"torch": torch.__version__, "progress": progress}
        Manifest.describe(folder, contents, format=FORMAT, facts=facts).write(folder / STATE)


class _Progress(BaseModel):
    """What every checkpoint says about its training."""

    model_config = ConfigDict(extra="allow")

    best_step: int | None = Field(None, ge=0, lt=1 << 63)
    score: float | None = None


def read_state(path: Path) -> Manifest:
    """Read state.json of a checkpoint; raise a UserError if it is damaged or of a newer version."""
    file = path / STATE
    manifest = Manifest.read(file)
    manifest.check_version(FORMAT, path)
    check_type(manifest.facts.get("progress"), _Progress, f"{file}:progress")
    if MODEL not in manifest.files:
        raise UserError(f"{file} is damaged: it names no {MODEL}", code="damaged-file", where=f"{file}:files")
    return manifest


def damage_of_state(path: Path) -> str | None:
    """Describe the damage of state.json of a checkpoint; None if it is good; a UserError if its version is newer."""
    try:
        read_state(path)
    except UserError as error:
        if error.code == files.NEWER_VERSION:
            raise
        return error.problem
    return None


def read_progress(path: Path) -> JsonObject:
    progress: JsonObject = read_state(path).facts["progress"]
    return progress


def weights_sum(path: Path) -> str:
    """Return the sha256 of a checkpoint's weights as state.json states it."""
    return str(read_state(path).files[MODEL]["sha256"])


def read_weights(path: Path) -> Tensors:
    """Read the weights of a checkpoint; 8-bit weights become 32-bit ones."""
    return dequantize(_load_tensors(path / MODEL))


def has_training(path: Path) -> bool:
    """True if training can continue from a checkpoint: it has optimizer moments, in one file or in shards."""
    return any(path.glob(f"{Path(TRAINING).stem}*{Path(TRAINING).suffix}"))


def read_training(path: Path, keep: Callable[[str, Tensor], Tensor] = lambda _, tensor: tensor) -> Tensors:
    """Read the tensors of a checkpoint that only training needs, shards joined; `keep` selects what stays in memory."""
    names = sorted(name for name in read_state(path).files if name.startswith(Path(TRAINING).stem))
    if len(names) <= 1:
        return {name: keep(name, tensor) for name, tensor in _load_tensors(path / (names or [TRAINING])[0]).items()}
    with ExitStack() as stack:
        try:
            for name in names:
                require_regular(path / name)
            shards = [stack.enter_context(safe_open(path / name, "pt")) for name in names]
            found = [(shard, name) for shard in shards for name in shard.keys()]  # noqa: SIM118
            tensors: Tensors = {}
            for name in dict.fromkeys(name for _, name in found):
                parts = [shard.get_tensor(name) for shard, own in found if own == name]
                tensors[name] = keep(name, torch.cat(parts) if len(parts) > 1 else parts[0])
            return tensors
        except (SafetensorError, OSError, RuntimeError) as error:
            raise _unreadable(path, error) from error


def find_damage(path: Path, only: str | None = None) -> str | None:
    """Describe the first damaged file of a checkpoint, or the damage of `only` one; None if nothing is damaged."""
    if problem := damage_of_state(path):
        return problem
    for name, problem in read_state(path).damaged(path, None if only is None else [only]).items():
        return f"{path / name} is damaged: {problem}"
    return None


def _save_tensors(path: Path, tensors: Tensors) -> None:
    try:
        with files.default_permissions(path):
            save_file(tensors, path)
    except SafetensorError as error:
        # safetensors gives the error number of the operating system only as text: "... (os error 28)".
        number = re.search(r"os error (\d+)", str(error))
        code = int(number[1]) if number else errno.EIO
        raise OSError(code, os.strerror(code), str(path)) from error


def _load_tensors(path: Path) -> Tensors:
    require_regular(path)
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> UserError:
    problem = f"{path} cannot be read: {error}"
    remedy = "use a different checkpoint: best, last or an older step"
    return UserError(problem, remedy, code="damaged-file", where=path)
