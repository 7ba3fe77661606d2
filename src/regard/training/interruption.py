"""Ctrl-C, SIGTERM and a closed terminal as a polite request: the step is finished and a checkpoint written."""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

Handler = Callable[[int, FrameType | None], Any] | int | None


class Interruption:
    """While open, the first SIGINT, SIGTERM or SIGHUP sets `requested`; a second Ctrl-C aborts at once.

    A SIGHUP that the process was started to ignore (nohup) stays ignored.
    Started by torchrun, a process gets the same Ctrl-C twice, from the terminal and from torchrun, so there
    (`patient`) only the first counts; torchrun itself ends those that take too long.
    """

    def __init__(self, patient: bool = False) -> None:
        self.requested = False
        self._patient = patient
        self._before: dict[signal.Signals, Handler] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT and not self._patient:
            raise KeyboardInterrupt
        self.requested = True
