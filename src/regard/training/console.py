"""Training progress for people: a progress bar on a terminal, plain lines otherwise.

A closed terminal, or a full disk behind stderr, does not stop training: the output is dropped.
"""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from regard.messages import Message, format_duration, localize
from regard.training import events

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

# Samples are untrusted text: control characters are replaced by visible signs.
CONTROL_SIGNS = {code: chr(0x2400 + code) for code in range(0x20)} | dict.fromkeys(range(0x7F, 0xA0), "␡")
MAX_PERPLEXITY = 1e9  # more than any vocabulary has tokens: the objective is not a likelihood


class PlainConsole:
    """One line per record, for files, pipes and the logs of clusters."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._max_steps = 0

    def log(self, event: events.Event) -> None:
        """Print one line; a validation has three more for each sample."""
        match event:
            case events.TrainingStarted(step, max_steps):
                self._max_steps = max_steps
                if step:
                    self._print(Message("resuming after step {step}", step=step))
            case events.TrainRecord():
                steps = f"{event.step}/{self._max_steps}"
                record, time = format_record(event), format_duration(event.seconds_left)
                self._print(Message("step {steps}  {record}  {time} left", steps=steps, record=record, time=time))
            case events.ValidationRecord():
                for line in format_validation(event):
                    self._print(line)
            case events.Note(text):
                self._print(text)

    def _print(self, text: str) -> None:
        with suppress(OSError):
            print(localize(text), file=self._stream, flush=True)


class LiveConsole:
    """A progress bar with the newest metrics; validations, samples and notes scroll above it."""

    def __init__(self, console: "Console") -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (
            TextColumn(localize(Message("step"))),
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
        )
        self._bar = Progress(*columns, console=console)
        self._task: TaskID = self._bar.add_task(localize(Message("starting")), total=None)

    def log(self, event: events.Event) -> None:
        """Update the bar, or print lines above it."""
        with suppress(OSError):
            self._show(event)

    def _show(self, event: events.Event) -> None:
        match event:
            case events.TrainingStarted(step, max_steps):
                self._bar.update(self._task, total=max_steps, completed=step)
                self._bar.start()
            case events.StepCompleted(step):
                self._bar.update(self._task, completed=step)
            case events.TrainRecord():
                record, time = format_record(event), format_duration(event.seconds_left)
                text = localize(Message("{record}  {time} left", record=record, time=time))
                self._bar.update(self._task, completed=event.step, description=text)
            case events.ValidationRecord():
                for line in format_validation(event):
                    self._print(line)
            case events.Note(text):
                self._print(text)
            case events.TrainingEnded():
                self._bar.stop()

    def _print(self, text: str) -> None:
        # square brackets in a text are not markup
        self._bar.console.print(localize(text), markup=False, highlight=False, soft_wrap=True)


def build_console(stream: TextIO | None = None) -> events.Log:
    """Make a live console if the stream is a terminal, else a plain one."""
    from rich.console import Console

    console = Console(file=stream or sys.stderr)
    return LiveConsole(console) if console.is_terminal else PlainConsole(stream)


def format_record(record: events.TrainRecord) -> str:
    """Format negative log-likelihood, perplexity, speed and learning rate. The loss is added if it is another number,
    because of label smoothing or penalties."""
    perplexity = f"ppl {record.perplexity:.2f}  " if record.perplexity < MAX_PERPLEXITY else ""
    loss = f"loss {record.loss:.4f}  " if record.loss != record.nll else ""
    return (
        f"nll {record.nll:.4f}  {perplexity}{loss}{record.tokens_per_second:,.0f} tok/s  lr {record.learning_rate:.2e}"
    )


def format_validation(record: events.ValidationRecord) -> list[str]:
    """Format the metrics on one line, then the samples. The validation loss is the negative log-likelihood, and is
    named as that of training; a task for which it is more has both metrics."""
    loss = "loss" if "nll" in record.metrics else "nll"
    numbers = {name: f"{value:{'.4f' if value < MAX_PERPLEXITY else '.1e'}}" for name, value in record.metrics.items()}
    metrics = "  ".join(f"{loss if name == 'loss' else name} {number}" for name, number in numbers.items())
    step, best = record.step, Message("  (best so far)") if record.best else ""
    lines: list[str] = [Message("step {step}  validation: {metrics}{best}", step=step, metrics=metrics, best=best)]
    for sample in record.samples:
        source, reference, output = (text.translate(CONTROL_SIGNS) for text in sample)
        lines.append(Message("  source     {text}", text=source))
        lines.append(Message("  reference  {text}", text=reference))
        lines.append(Message("  output     {text}", text=output))
    return lines
