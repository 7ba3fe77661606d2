"""The run as a person sees it: a live line on a terminal, plain lines anywhere else.

A terminal that was closed, or a full disk behind stderr, ends no training: what nobody can read is not written.
"""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from regard.training.records import Log, TrainRecord, ValidationRecord

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

# Samples are the text of users and of a model that learns: control characters in them are drawn, not obeyed.
DRAWN = {code: chr(0x2400 + code) for code in range(0x20)} | dict.fromkeys(range(0x7F, 0xA0), "␡")


class PlainConsole:
    """One line a record, for files, pipes and the logs of clusters."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._max_steps = 0

    def begin(self, step: int, max_steps: int) -> None:
        """Say where a resumed run goes on."""
        self._max_steps = max_steps
        if step:
            self.note(f"going on after step {step}")

    def step(self, number: int) -> None:
        """A line a step would be too much."""

    def train(self, record: TrainRecord) -> None:
        """One line."""
        self.note(f"step {record.step}/{self._max_steps}  {describe(record)}  {duration(record.seconds_left)} left")

    def validation(self, record: ValidationRecord) -> None:
        """One line, and three for each sample."""
        for line in describe_validation(record):
            self.note(line)

    def note(self, text: str) -> None:
        """One line."""
        with suppress(OSError):
            print(text, file=self._stream, flush=True)

    def end(self) -> None:
        """Nothing to put away."""


class LiveConsole:
    """A bar that moves, with what matters beside it; validations and samples scroll by above."""

    def __init__(self, console: "Console") -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("step"), MofNCompleteColumn(), BarColumn(bar_width=24), TextColumn("{task.description}"))
        self._bar = Progress(*columns, console=console)
        self._task: TaskID = self._bar.add_task("starting", total=None)

    def begin(self, step: int, max_steps: int) -> None:
        """Show the bar."""
        self._bar.update(self._task, total=max_steps, completed=step)
        self._bar.start()

    def step(self, number: int) -> None:
        """Move the bar, at most as often as it is drawn."""
        self._bar.update(self._task, completed=number)

    def train(self, record: TrainRecord) -> None:
        """Move the bar."""
        text = f"{describe(record)}  {duration(record.seconds_left)} left"
        self._bar.update(self._task, completed=record.step, description=text)

    def validation(self, record: ValidationRecord) -> None:
        """Lines above the bar."""
        for line in describe_validation(record):
            self.note(line)

    def note(self, text: str) -> None:
        """A line above the bar; square brackets in a text are text."""
        with suppress(OSError):
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        """Leave the bar where it is."""
        with suppress(OSError):
            self._bar.stop()


BEYOND_WORDS = 1e9  # a perplexity of more than there are words: what is minimised is no likelihood


def build_console(stream: TextIO | None = None) -> Log:
    """A live line if the stream is a terminal, else plain lines."""
    from rich.console import Console

    console = Console(file=stream or sys.stderr)
    return LiveConsole(console) if console.is_terminal else PlainConsole(stream)


def describe(record: TrainRecord) -> str:
    """What is minimised, the plain likelihood (what validation calls loss), perplexity, speed and rate."""
    perplexity = f"ppl {record.perplexity:.2f}  " if record.perplexity < BEYOND_WORDS else ""
    return (
        f"loss {record.loss:.4f}  nll {record.nll:.4f}  {perplexity}"
        f"{record.tokens_per_second:,.0f} tok/s  lr {record.learning_rate:.2e}"
    )


def describe_validation(record: ValidationRecord) -> list[str]:
    """The metrics on one line, then the samples."""
    metrics = "  ".join(f"{name} {value:.4f}" for name, value in record.metrics.items())
    lines = [f"step {record.step}  validation: {metrics}{'  (best so far)' if record.best else ''}"]
    for source, reference, output in (tuple(text.translate(DRAWN) for text in sample) for sample in record.samples):
        lines += [f"  source     {source}", f"  reference  {reference}", f"  output     {output}"]
    return lines


def duration(seconds: float) -> str:
    """1:02:03 or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
