"""Ctrl-C, SIGTERM and SIGHUP as a request to stop: training finishes the step and writes a checkpoint."""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

Handler = Callable[[int, FrameType | None], object] | int | None


class Interruption:
    """A context in which the first SIGINT, SIGTERM or SIGHUP sets `requested`; a second Ctrl-C is a KeyboardInterrupt.

    If the process was started to ignore SIGHUP (nohup), it still does. A process of torchrun gets the same Ctrl-C
    twice, from the terminal and from torchrun; there `ignore_repeated` ignores the second, and torchrun itself ends
    processes that take too long.
    """

    def __init__(self, ignore_repeated: bool = False) -> None:
        self.requested = False
        self._ignore_repeated = ignore_repeated
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
        if self.requested and number == signal.SIGINT and not self._ignore_repeated:
            raise KeyboardInterrupt
        self.requested = True
