"""Logs of a run: metrics.jsonl, TensorBoard, and several logs as one.

metrics.jsonl has one line per step and kind: when a run resumes, the lines of steps that will be trained again are
removed. Its numbers keep all their bits. It is a record for people and has no checksums: training never reads its
numbers, since everything that a resumed run needs is in the checkpoint, with checksums. A line that is damaged is
reported with its number and moved to metrics.jsonl.damaged.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import UserError
from regard.files import JsonObject, io_errors, replacing
from regard.reading import parse_json, read_lines
from regard.run_files import METRICS
from regard.runtime import World
from regard.training.console import build_console
from regard.training.events import Event, Log, Note, TrainingEnded, TrainingStarted, TrainRecord, ValidationRecord
from regard.training.settings import TrainingSettings

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

TENSORBOARD = "tensorboard"
MAX_NAMED_LINES = 5


class Logs:
    """Several logs as one; an empty list is a silent log."""

    def __init__(self, logs: Sequence[Log] = ()) -> None:
        self._logs = list(logs)

    def log(self, event: Event) -> None:
        for log in self._logs:
            log.log(event)


class MetricsFile:
    """metrics.jsonl: one JSON object per line; `kind` is train or validation. Notes about it go to the log `notes`."""

    def __init__(self, path: Path, notes: Log | None = None) -> None:
        self._path, self._notes = path, notes

    def log(self, event: Event) -> None:
        """Append a record; validations are written without their samples."""
        match event:
            case TrainingStarted(step):
                self._remove_after(step)
            case TrainRecord():
                self._append({"kind": "train", **asdict(event), "perplexity": event.perplexity})
            case ValidationRecord():
                values = asdict(event)
                del values["samples"]
                self._append({"kind": "validation", **values})

    def _remove_after(self, step: int) -> None:
        """Remove the lines after `step`, an incomplete line of a killed process, and damaged lines."""
        if not self._path.exists():
            return
        lines = list(read_lines(self._path))
        steps = [_step_of(line) for line in lines]
        remaining = [line for line, at in zip(lines, steps, strict=True) if line.endswith(b"\n") and 0 <= at <= step]
        self._set_aside({n: line for n, line in enumerate(lines, 1) if steps[n - 1] < 0 and line.endswith(b"\n")})
        if remaining != lines:
            with replacing(self._path) as temporary:
                temporary.write_bytes(b"".join(remaining))

    def _set_aside(self, damaged: dict[int, bytes]) -> None:
        """Keep damaged lines, by number, in another file and report them."""
        if not damaged:
            return
        backup = self._path.with_name(f"{self._path.name}.damaged")
        before = backup.read_bytes() if backup.is_file() else b""
        with replacing(backup) as temporary:
            temporary.write_bytes(before + b"".join(damaged.values()))
        if self._notes is not None:
            numbers = ", ".join(map(str, [*damaged][:MAX_NAMED_LINES]))
            more = ", ..." if len(damaged) > MAX_NAMED_LINES else ""
            self._notes.log(Note(f"warning: {self._path}: damaged lines moved to {backup.name}: {numbers}{more}"))

    def _append(self, values: JsonObject) -> None:
        with io_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(values, ensure_ascii=False) + "\n")
                stream.flush()
                os.fsync(stream.fileno())


class TensorBoard:
    """The metrics as TensorBoard events; needs the package tensorboard."""

    def __init__(self, folder: Path) -> None:
        try:
            import torch.utils.tensorboard  # noqa: F401
        except ImportError as error:
            problem = "`training.tensorboard` is on, but the package tensorboard is not installed"
            remedy = "`pip install regard[tensorboard]`, or set `training.tensorboard=false`"
            raise UserError(problem, remedy, code="missing-package", where="training.tensorboard") from error
        self._folder = folder
        self._writer: SummaryWriter | None = None

    def log(self, event: Event) -> None:
        """Write metrics under train/ and validation/, and samples as text."""
        from torch.utils.tensorboard import SummaryWriter

        if isinstance(event, TrainingStarted):  # TensorBoard drops the events after this step
            self._writer = SummaryWriter(str(self._folder), purge_step=event.step + 1)
        if self._writer is None:
            return
        match event:
            case TrainRecord():
                for name in ("loss", "nll", "perplexity", "learning_rate", "gradient_norm", "tokens_per_second"):
                    self._writer.add_scalar(f"train/{name}", getattr(event, name), event.step)
            case ValidationRecord():
                for name, value in event.metrics.items():
                    self._writer.add_scalar(f"validation/{name}", value, event.step)
                for number, sample in enumerate(event.samples, 1):
                    self._writer.add_text(f"sample {number}", "\n\n".join(sample), event.step)
            case TrainingEnded():
                self._writer.close()


def build_log(settings: TrainingSettings, folder: Path, world: World) -> Logs:
    """Make the log of a run: the console, metrics.jsonl in `folder`, TensorBoard; nothing on ranks other than 0."""
    if not world.is_main:
        return Logs()
    console = build_console()
    logs: list[Log] = [MetricsFile(folder / METRICS, console), console]
    if settings.tensorboard:
        logs.append(TensorBoard(folder / TENSORBOARD))
    return Logs(logs)


def _step_of(line: bytes) -> int:
    """Parse the step of a line of metrics.jsonl; -1 if the line is damaged."""
    try:
        values = parse_json(line)
        known = values["kind"] in ("train", "validation") and type(values["step"]) is int
        return values["step"] if known else -1
    except (ValueError, KeyError, TypeError):
        return -1
