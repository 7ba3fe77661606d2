"""Writing in a thread while training goes on: one write at a time, whose error is never lost."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait


class Writer:
    """A context that runs one write at a time in a thread and, however it ends, waits for the last one."""

    def __init__(self) -> None:
        self._writing: Future[object] | None = None

    def start(self, write: Callable[[], object]) -> None:
        """Start a write after the one in progress, whose error is raised here."""
        self.wait()
        executor = ThreadPoolExecutor(1, "checkpoint")
        self._writing = executor.submit(write)
        executor.shutdown(wait=False)  # the thread ends with the write; Python itself does not end before it

    def wait(self) -> None:
        """Wait for the write in progress, if there is one, and raise its error."""
        if self._writing is not None:
            wait([self._writing])  # Ctrl-C may be raised here; then `__exit__` waits once more
            writing, self._writing = self._writing, None
            writing.result()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *error: object) -> None:
        self.wait()
