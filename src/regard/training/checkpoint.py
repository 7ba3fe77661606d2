"""Checkpoints on the disk: a folder each, whole or not there, checked by its sums, the weights in safetensors.

    checkpoints.json              which is the last, which the best, and their scores, for people and tools
    step-00001000/
        model.safetensors         the weights to use (their moving average, where one is kept)
        training.safetensors      what only training needs: the optimizer's moments, the weights behind the average
        state.json                progress, versions, size and sha256 of both files, and its own sha256
    averaged/                     the mean of several checkpoints, when somebody asked for it

The folders are the truth: `checkpoints.json` is written from them and can always be written again.
"""

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from regard.errors import UserError
from regard.files import digest, read_json, replacing, sweep, write_json
from regard.training.weights import Tensors

FORMAT = 1
MODEL, TRAINING, STATE, INDEX = "model.safetensors", "training.safetensors", "state.json", "checkpoints.json"
AVERAGED = "averaged"
State = dict[str, Any]


class Checkpoints:
    """The checkpoints of one run; `keep` of the newest stay, and always the best and the last."""

    def __init__(self, folder: Path, keep: int = 3) -> None:
        self.folder = folder
        self.keep = keep

    def save(self, step: int, weights: Tensors, training: Tensors, progress: State) -> Path:
        """Write the checkpoint of `step` and, once it is safely there, remove those no longer wanted."""
        path = self.folder / name_of(step)
        write_checkpoint(path, {MODEL: weights, TRAINING: training}, progress)
        self._tidy()
        return path

    def save_average(self, weights: Tensors, sources: Sequence[Path]) -> Path:
        """Write the mean of several checkpoints as the checkpoint named averaged."""
        path = self.folder / AVERAGED
        write_checkpoint(path, {MODEL: weights}, {"averaged": [source.name for source in sources]})
        return path

    def all(self) -> list[Path]:
        """Every checkpoint of a step, oldest first."""
        return sorted(path for path in self.folder.glob("step-*") if re.fullmatch(r"step-\d{8,}", path.name))

    def newest_good(self) -> tuple[Path | None, list[str]]:
        """The newest checkpoint whose sums are right, and what was wrong with those newer than it."""
        remarks: list[str] = []
        for path in reversed(self.all()):
            problem = damage(path)
            if problem is None:
                return path, remarks
            remarks.append(problem)
        return None, remarks

    def resolve(self, name: str) -> Path:
        """The folder of the checkpoint called best, last, averaged or step-00001000; its weights are checked."""
        path = self._find(name)
        problem = damage(path, only=MODEL)
        if problem is not None:
            others = [
                other.name for other in reversed(self.all()) if other != path and damage(other, only=MODEL) is None
            ]
            raise UserError(problem, f"use {others[0]}, which is whole" if others else "no other checkpoint is whole")
        return path

    def set_aside_after(self, step: int) -> None:
        """Take checkpoints newer than `step`, and what a killed process left half-written, out of the way.

        Training goes on from `step`: what it will write under later names must not be mistaken for what was there.
        """
        for path in self.all():
            if step_of(path) > step:
                aside = path.with_name(f"damaged-{path.name}")
                shutil.rmtree(aside, ignore_errors=True)
                path.rename(aside)
        sweep(self.folder)

    def _find(self, name: str) -> Path:
        known = self.all()
        if name == "last" and known:
            return known[-1]
        if name == "best" and known:
            self._refuse_forgetful(known[-1])
            return self._best() or known[-1]
        path = self.folder / name
        if (name == AVERAGED or path in known) and path.is_dir():
            return path
        listed = ", ".join(path.name for path in known)
        raise UserError(
            f"{self.folder} has no checkpoint {name!r}",
            f"write best, last or one of {listed}" if known else "train first: no checkpoint has been written yet",
        )

    def _refuse_forgetful(self, newest: Path) -> None:
        """Only the newest checkpoint knows which is the best; an older one would silently name another."""
        if _state_or_none(newest) is None:
            raise UserError(
                f"{newest / STATE} is damaged, and with it the knowledge which checkpoint is the best",
                f"choose one yourself: {', '.join(path.name for path in self.all())}",
            )

    def _best(self) -> Path | None:
        """The best checkpoint as the newest readable one remembers it."""
        for path in reversed(self.all()):
            state = _state_or_none(path)
            if state is not None:
                best = self.folder / name_of(state["progress"].get("best_step") or 0)
                return best if best.is_dir() else None
        return None

    def _tidy(self) -> None:
        known, best = self.all(), self._best()
        kept = {*known[-self.keep :], *([best] if best else [])}
        states = {path.name: _state_or_none(path) for path in known if path in kept}
        scores = {name: state["progress"].get("score") for name, state in states.items() if state}
        last = known[-1].name if known else None
        index = {"format": FORMAT, "last": last, "best": best.name if best else None, "scores": scores}
        write_json(self.folder / INDEX, index)
        for path in known:
            if path not in kept:
                shutil.rmtree(path)


def name_of(step: int) -> str:
    """The folder name of a step's checkpoint; names sort as their steps do."""
    return f"step-{step:08d}"


def step_of(path: Path) -> int:
    """The step in a checkpoint's folder name."""
    return int(path.name.removeprefix("step-"))


def write_checkpoint(path: Path, files: dict[str, Tensors], progress: State) -> None:
    """Write one checkpoint folder aside, flush it and give it its name; on a full disk nothing has changed."""
    with replacing(path, folder=True) as place:
        for name, tensors in files.items():
            _save_tensors(place / name, tensors)
        sums = {name: {"bytes": (place / name).stat().st_size, "sha256": digest(place / name)} for name in files}
        state = {"format": FORMAT, "torch": torch.__version__, "files": sums, "progress": progress}
        write_json(place / STATE, {**state, "sha256": _sum(state)})


def read_progress(path: Path) -> State:
    """What state.json of a checkpoint says about the progress of its run."""
    state = read_json(path / STATE)
    if state["format"] > FORMAT:
        raise UserError(
            f"{path} was written by a newer version (format {state['format']})", "update: pip install -U regard"
        )
    progress: State = state["progress"]
    return progress


def read_weights(path: Path) -> Tensors:
    """The weights to use of a checkpoint folder."""
    return _load_tensors(path / MODEL)


def read_training(path: Path) -> Tensors:
    """What only training needs of a checkpoint folder."""
    return _load_tensors(path / TRAINING)


def damage(path: Path, only: str | None = None) -> str | None:
    """What is wrong with a checkpoint's files, or with `only` one of them; None when size and sha256 are right."""
    try:
        state = read_json(path / STATE)
    except UserError as error:
        return error.problem
    if not _is_as_written(state):
        return f"{path / STATE} is damaged: its content is not what was written (sha256 differs)"
    for name, expected in state["files"].items():
        file = path / name
        if only not in (None, name):
            continue
        if not file.is_file():
            return f"{file} is missing"
        if file.stat().st_size != expected["bytes"]:
            return f"{file} is damaged: it has {file.stat().st_size} of {expected['bytes']} bytes"
        if digest(file) != expected["sha256"]:
            return f"{file} is damaged: its content is not what was written (sha256 differs)"
    return None


def _is_as_written(state: Any) -> bool:
    if not isinstance(state, dict):
        return False
    return state.get("sha256") == _sum({name: value for name, value in state.items() if name != "sha256"})


def _sum(state: State) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _state_or_none(path: Path) -> State | None:
    try:
        state = read_json(path / STATE)
    except UserError:
        return None
    return state if _is_as_written(state) else None


def _save_tensors(path: Path, tensors: Tensors) -> None:
    try:
        path.touch()  # with the rights that other files get here; the library's own are for nobody else to read
        rights = path.stat().st_mode
        save_file(tensors, path)
        path.chmod(rights)
    except SafetensorError as error:
        # The library reports what the operating system said only in words: "... (os error 28)".
        number = re.search(r"os error (\d+)", str(error))
        code = int(number[1]) if number else errno.EIO
        raise OSError(code, os.strerror(code), str(path)) from error


def _load_tensors(path: Path) -> Tensors:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path} cannot be read: {error}", "use another checkpoint: best, last or an older step"
        ) from error
