"""A server of regard for a benchmark; no measurement itself."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def running_server(runs: Sequence[str], *options: str) -> Iterator[tuple[str, int]]:
    """Start `regard serve` on a free port; the address and the process number, when all models are loaded.

    The server writes no line for each request: its output is not read, so it would stop when the pipe is full.
    """
    command = [sys.executable, "-m", "regard", "serve", *runs, "--port", "0", "--no-access-log", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = []
            for line in process.stderr:
                lines.append(line)
                if line.startswith("ready"):
                    break
            else:
                raise SystemExit("".join(lines))
            (address,) = re.findall(r"http://\S+:\d+", "".join(lines))
            yield address, process.pid
        finally:
            process.terminate()
            process.communicate()
    if process.returncode:
        raise SystemExit(f"the server ended with status {process.returncode}")
