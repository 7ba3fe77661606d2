"""A log that goes down with its process: how tests kill a training at a step of their choice."""

from pathlib import Path

from regard.training.events import Event, StepCompleted
from regard.training.log import Logs, MetricsFile


class KilledError(Exception):
    """A process that is killed."""


class DyingLog(Logs):
    """Goes down with the process after a step."""

    def __init__(self, folder: Path, after: int) -> None:
        super().__init__([MetricsFile(folder / "metrics.jsonl")])
        self.after = after

    def log(self, event: Event) -> None:
        super().log(event)
        if event == StepCompleted(self.after):
            raise KilledError
