"""Speaking to people and programs: what happens goes to stderr, what was asked for goes to stdout.

Text that came from users is only ever shown as it is: it is never read as markup, and control characters in it are
drawn, not obeyed. Colours appear on a terminal alone.
"""

import json
import math
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from regard.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

CONTROL = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"}
CONTROL |= dict.fromkeys(range(0x7F, 0xA0), "␡")
WIDE = 160  # columns of a table that no terminal bounds


def is_main() -> bool:
    """Whether this process speaks: of those torchrun started, the first alone."""
    return os.environ.get("RANK", "0") == "0"


def say(text: str = "") -> None:
    """A line about what is going on, on stderr."""
    if is_main():
        print(text.translate(CONTROL), file=sys.stderr, flush=True)


def result(text: str) -> None:
    """What was asked for, on stdout, to the letter."""
    if is_main():
        print(text)


def result_json(value: Any) -> None:
    """What was asked for, as one line of JSON."""
    result(to_json(value))


def to_json(value: Any) -> str:
    """One line of JSON; a number that JSON cannot write (infinite, or none) becomes null."""
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def complain(error: UserError) -> None:
    """What was wrong, in red where there are colours, and what to do about it."""
    if not is_main():
        return
    from rich.text import Text

    code = f" [{error.code}]" if error.code else ""
    problem = Text.assemble((f"error{code}:", "bold red"), " ", error.problem.translate(CONTROL))
    screen = console(sys.stderr)
    screen.print(problem, soft_wrap=True)
    if error.remedy:
        screen.print(Text(f"  {error.remedy.translate(CONTROL)}"), soft_wrap=True)


def console(stream: TextIO) -> "Console":
    """rich, told to leave text alone."""
    from rich.console import Console

    width = None if stream.isatty() else WIDE
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=width)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> None:
    """A table on stdout; the columns named in `right` are numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    if not is_main():
        return
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        drawn.add_column(Text(name), justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(cell.translate(CONTROL)) for cell in row))
    console(sys.stdout).print(drawn)


def in_colour() -> bool:
    """Whether pictures on stdout may have colours."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


class Ticker:
    """A count that moves on one line of a terminal, and is silent anywhere else; `with` leaves no trace of it."""

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what, self._stream = what, stream or sys.stderr
        self._live, self._shown = self._stream.isatty() and is_main(), 0.0

    def __call__(self, done: int, total: int | None = None) -> None:
        """`done` so far, ten times a second at most."""
        if self._live and time.monotonic() - self._shown > 0.1:
            of = f" of {total:,}" if total else ""
            print(f"\r{self._what} {done:,}{of} \x1b[K", end="", file=self._stream, flush=True)
            self._shown = time.monotonic()

    def __enter__(self) -> "Ticker":
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Wipe the line, so that something else can be written."""
        if self._shown:
            print("\r\x1b[K", end="", file=self._stream, flush=True)
            self._shown = 0.0
