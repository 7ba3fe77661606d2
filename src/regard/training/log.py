"""The records a run leaves: metrics.jsonl, TensorBoard's events, and several logs spoken to as one.

metrics.jsonl is the truth: after an interruption, lines of steps that will be trained again are cut away, so there
are never two, and every number in it keeps all its bits.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.files import io_errors, write_text
from regard.runtime import World
from regard.training.console import build_console
from regard.training.records import Log, TrainRecord, ValidationRecord
from regard.training.settings import TrainingSettings

METRICS, EVENTS = "metrics.jsonl", "tensorboard"


class Logs:
    """Several logs as one; none of them is silence."""

    def __init__(self, parts: Sequence[Log] = ()) -> None:
        self._parts = list(parts)

    def begin(self, step: int, max_steps: int) -> None:
        """Tell each."""
        for part in self._parts:
            part.begin(step, max_steps)

    def step(self, number: int) -> None:
        """Tell each."""
        for part in self._parts:
            part.step(number)

    def train(self, record: TrainRecord) -> None:
        """Tell each."""
        for part in self._parts:
            part.train(record)

    def validation(self, record: ValidationRecord) -> None:
        """Tell each."""
        for part in self._parts:
            part.validation(record)

    def note(self, text: str) -> None:
        """Tell each."""
        for part in self._parts:
            part.note(text)

    def end(self) -> None:
        """Tell each."""
        for part in self._parts:
            part.end()


class MetricsFile:
    """One JSON object a line: `kind` is train or validation, `step` says after which step."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, step: int, max_steps: int) -> None:
        """Cut away what was written after `step`, and a line a killed process left unfinished."""
        if not self._path.exists():
            return
        lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        kept = [line for line in lines if line.endswith("\n") and 0 <= _step_of(line) <= step]
        if kept != lines:
            write_text(self._path, "".join(kept))

    def step(self, number: int) -> None:
        """Steps are written down several at once."""

    def train(self, record: TrainRecord) -> None:
        """One line."""
        self._append({"kind": "train", **asdict(record), "perplexity": record.perplexity})

    def validation(self, record: ValidationRecord) -> None:
        """One line, without the samples."""
        line = asdict(record)
        del line["samples"]
        self._append({"kind": "validation", **line})

    def note(self, text: str) -> None:
        """Notes are for people."""

    def end(self) -> None:
        """Every line is on the disk already."""

    def _append(self, line: dict[str, Any]) -> None:
        with io_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")
                stream.flush()
                os.fsync(stream.fileno())


class TensorBoard:
    """The same numbers as curves; the package is needed only when asked for."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UserError(
                "training.tensorboard is on, but the package tensorboard is not installed",
                "pip install regard[tensorboard], or write training.tensorboard=false",
            ) from error
        self._folder = folder
        self._open: Any = SummaryWriter
        self._writer: Any = None

    def begin(self, step: int, max_steps: int) -> None:
        """Open the events; curves after `step` are dropped by TensorBoard."""
        self._writer = self._open(str(self._folder), purge_step=step + 1)

    def step(self, number: int) -> None:
        """Steps are written down several at once."""

    def train(self, record: TrainRecord) -> None:
        """Each number under train/."""
        for name in ("loss", "nll", "perplexity", "learning_rate", "gradient_norm", "tokens_per_second"):
            self._writer.add_scalar(f"train/{name}", getattr(record, name), record.step)

    def validation(self, record: ValidationRecord) -> None:
        """Each metric under validation/, and the samples as text."""
        for name, value in record.metrics.items():
            self._writer.add_scalar(f"validation/{name}", value, record.step)
        for number, sample in enumerate(record.samples):
            self._writer.add_text(f"sample {number + 1}", "\n\n".join(sample), record.step)

    def note(self, text: str) -> None:
        """Notes are for people."""

    def end(self) -> None:
        """Flush and close."""
        if self._writer is not None:
            self._writer.close()


def build_log(settings: TrainingSettings, folder: Path, world: World) -> Logs:
    """The console, metrics.jsonl in `folder` and, if asked for, TensorBoard; silence on every rank but 0."""
    if not world.is_main:
        return Logs()
    parts: list[Log] = [MetricsFile(folder / METRICS), build_console()]
    if settings.tensorboard:
        parts.append(TensorBoard(folder / EVENTS))
    return Logs(parts)


def _step_of(line: str) -> int:
    """The step of a line of metrics.jsonl; -1 when it is not one."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return -1
