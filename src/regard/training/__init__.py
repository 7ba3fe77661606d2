"""Training: a loop that knows no task and no model, its schedule, optimizer, checkpoints, log and distribution."""

from regard.training.average import average_checkpoints
from regard.training.checkpoint import Checkpoints, read_progress, read_weights
from regard.training.distributed import place, unwrap
from regard.training.log import Logs, MetricsFile, build_log
from regard.training.loop import Outcome, fit
from regard.training.records import Log, TrainRecord, ValidationRecord
from regard.training.schedule import Schedule, build_schedule
from regard.training.settings import TrainingSettings
from regard.training.task import Batch, Carrying, Loss, Sample, Step, Steps, Task, Validation
from regard.training.weights import load_weights

__all__ = [
    "Batch",
    "Carrying",
    "Checkpoints",
    "Log",
    "Logs",
    "Loss",
    "MetricsFile",
    "Outcome",
    "Sample",
    "Schedule",
    "Step",
    "Steps",
    "Task",
    "TrainRecord",
    "TrainingSettings",
    "Validation",
    "ValidationRecord",
    "average_checkpoints",
    "build_log",
    "build_schedule",
    "fit",
    "load_weights",
    "place",
    "read_progress",
    "read_weights",
    "unwrap",
]
