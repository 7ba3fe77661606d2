"""How far work on many inputs is: one line of a terminal, updated in place; elsewhere a line from time to time."""

import os
import sys
import time
from contextlib import suppress
from typing import ClassVar, TextIO

from regard.messages import Message, format_duration, join_messages, localize

SECONDS_BETWEEN_UPDATES, SECONDS_BETWEEN_LINES = 0.1, 10.0


def is_main() -> bool:
    """True if this process prints: the first one of those that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def has_escapes() -> bool:
    """True if the terminal understands escape sequences."""
    return os.environ.get("TERM") != "dumb"


class ProgressLine:
    """A count, its total, the rate and the time left; `with` clears the line of a terminal.

    Rate and time count from the first call, so call it before the first result. On a terminal the line is updated at
    most ten times per second; elsewhere a new line is printed at most every ten seconds.
    """

    shown: ClassVar["ProgressLine | None"] = None
    """The line on the terminal, which other output has to clear first."""

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        self._title, self._stream = title, stream or sys.stderr
        self._live = self._stream.isatty() and has_escapes()
        self._begin: tuple[float, int] | None = None
        self._next, self._is_shown = 0.0, False

    def __call__(self, done: int, total: int | None = None) -> None:
        """Show the count, if the last one is old enough."""
        now = time.monotonic()
        if self._begin is None:
            self._begin = now, done
            self._next = now if self._live else now + SECONDS_BETWEEN_LINES
        if now < self._next or not is_main():
            return
        text = localize(self._describe(done, total, now))
        self._next = now + (SECONDS_BETWEEN_UPDATES if self._live else SECONDS_BETWEEN_LINES)
        self._is_shown = self._live
        ProgressLine.shown = self
        with suppress(OSError):
            line = f"\r{text} \x1b[K" if self._live else f"{text}\n"
            print(line, end="", file=self._stream, flush=True)

    def _describe(self, done: int, total: int | None, now: float) -> str:
        begin, before = self._begin or (now, done)
        of_total = Message(" of {total:,}", total=total) if total else ""
        parts: list[str] = [join_messages("", [self._title, f" {done:,}", of_total])]
        if done > before and now > begin:
            rate = (done - before) / (now - begin)
            parts.append(Message("{rate:,.1f}/s", rate=rate) if rate < 10 else Message("{rate:,.0f}/s", rate=rate))
            if total:
                parts.append(Message("{time} left", time=format_duration(max(0, total - done) / rate)))
        return join_messages(", ", parts)

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Clear the line, so that something else can be printed."""
        if self._is_shown:
            with suppress(OSError):
                print("\r\x1b[K", end="", file=self._stream, flush=True)
            self._next, self._is_shown = 0.0, False
