"""Output for people and scripts: progress and errors on stderr, results, tables and scores on stdout.

Text of users is printed literally: it is never read as markup, and control characters are replaced by visible signs.
Colours are used on a terminal only. If nobody reads stderr any more, nothing is written there, and the work continues.
"""

import json
import math
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from regard.errors import UserError
from regard.files import explain_os_error
from regard.messages import Message, join_messages, localize
from regard.viz.panel import CONTROL as CONTROL
from regard.viz.progress import ProgressLine as ProgressLine
from regard.viz.progress import has_escapes
from regard.viz.progress import is_main as is_main

if TYPE_CHECKING:
    from rich.console import Console

    from regard.metrics.score import Score
    from regard.metrics.significance import Comparison
    from regard.viz.panel import Screen

TABLE_WIDTH = 160
"""Columns of a table that is not printed on a terminal."""
MAX_WRITTEN_OUT = 1e8
NO_MEMORY = re.compile(
    r"out of memory|can't allocate memory|not enough memory|bad_alloc|can't start new thread|failed to map segment",
    re.I,
)
"""Texts of torch, Python and the loader of libraries."""
OS_ERROR = re.compile(r"\(os error (\d+)\)")
"""The number of an error of the operating system in the errors of libraries written in Rust."""


def report(text: str = "") -> None:
    """Print a line about progress on stderr, in the terminal's language."""
    if is_main():
        if ProgressLine.shown is not None:
            ProgressLine.shown.clear()
        with suppress(OSError):
            print(localize(text).translate(CONTROL), file=sys.stderr, flush=True)


def print_result(text: str) -> None:
    """Print a result on stdout; on a terminal control characters are replaced, elsewhere it is unchanged."""
    if is_main():
        text = localize(text)
        print(text.translate(CONTROL) if sys.stdout.isatty() else text)


def print_drawing(text: str) -> None:
    """Print a text with colours on stdout, unchanged."""
    if is_main():
        print(text)


def print_json(value: object) -> None:
    """Print a result on stdout as one line of JSON."""
    print_result(to_json(value))


def to_json(value: object) -> str:
    """One line of JSON; an infinite number and NaN become null."""
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def print_error(error: UserError) -> None:
    """Print an error and its remedy on stderr."""
    try:
        _print_error(error)
    except (OSError, ImportError):  # stderr is gone, or no more files can be opened
        with suppress(OSError):
            print(f"error [{error.code}]: {error}".translate(CONTROL), file=sys.stderr, flush=True)


def _print_error(error: UserError) -> None:
    from rich.text import Text

    from regard.cli.shell import as_called

    code = f" [{error.code}]" if error.code else ""
    problem = Text.assemble((f"error{code}:", "bold red"), " ", error.problem.translate(CONTROL))
    screen = console(sys.stderr)
    screen.print(problem, soft_wrap=True)
    if error.remedy:
        screen.print(Text(f"  {as_called(str(error.remedy)).translate(CONTROL)}"), soft_wrap=True)


def explain(error: Exception) -> UserError | None:
    """Describe an error of the machine; None if the error is a bug in regard."""
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | ImportError) and NO_MEMORY.search(str(error))
    ):
        return UserError(
            f"there is not enough memory: {str(error).partition(chr(10))[0] or 'an allocation failed'}",
            "use smaller batches, shorter texts or a smaller model, or close other applications",
            code="out-of-memory",
        )
    if not isinstance(error, OSError) and (match := OS_ERROR.search(str(error))):
        error = OSError(int(match[1]), os.strerror(int(match[1])))
    return explain_os_error(error) if isinstance(error, OSError) else None


def console(stream: TextIO) -> "Console":
    """A rich console that does not interpret text."""
    from rich.console import Console

    width = None if stream.isatty() else TABLE_WIDTH
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=width)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> None:
    """Print a table on stdout; the columns named in `right` are aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    if not is_main():
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        table.add_column(Text(localize(name)), justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(localize(cell).translate(CONTROL)) for cell in row))
    console(sys.stdout).print(table)


def print_scores(scores: "Sequence[Score]") -> None:
    """One line per metric: its value and how it was computed."""
    from regard.viz.report import column_title

    values = (f"{score.value:.2f}" if score.value < MAX_WRITTEN_OUT else f"{score.value:.1e}" for score in scores)
    rows = [[column_title(score.name), value, score.signature] for score, value in zip(scores, values, strict=True)]
    columns = (Message("metric"), Message("value"), Message("computed as"))
    print_table(columns, rows, right=("value",))


def print_comparison(comparisons: "Sequence[Comparison]", base: str, run: str) -> None:
    """One line per metric: both scores, their difference, its confidence interval and the p-value."""
    rows = [
        [
            item.metric,
            f"{item.base:.2f}",
            f"{item.other:.2f}",
            f"{item.delta:+.2f}",
            Message("{low:+.2f} to {high:+.2f}", low=item.ci_low, high=item.ci_high),
            f"{item.p_value:.3f}",
        ]
        for item in comparisons
    ]
    columns = (Message("metric"), base, run, Message("difference"), Message("95% interval"), "p")
    print_table(columns, rows, right=columns[1:])
    print_result(conclusion(comparisons))


def conclusion(comparisons: "Sequence[Comparison]") -> str:
    """Which differences are significant, in words."""
    from regard.metrics.significance import SIGNIFICANCE_LEVEL

    items = (
        Message("{metric}: significant", metric=item.metric)
        if item.p_value < SIGNIFICANCE_LEVEL
        else Message("{metric}: not significant", metric=item.metric)
        for item in comparisons
    )
    joined = join_messages("; ", items)
    return Message("{items} (paired bootstrap test, p < {level})", items=joined, level=SIGNIFICANCE_LEVEL)


def truncation_note(truncated: int, number: int) -> Message:
    """How many of a number of texts were truncated."""
    counts = {"truncated": truncated, "count": number}
    return Message(
        "note: {truncated:,} of {count:,} texts were longer than the model reads and were truncated", **counts
    )


def in_colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and has_escapes()


def panel() -> "Screen":
    """The terminal as `Task.render` uses it."""
    from regard.viz.panel import Screen

    return Screen(in_colour())
