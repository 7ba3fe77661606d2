"""A contender in a process of its own, spoken to over a pipe.

Every contender imports its own packages from its own folder, so that none clashes with another's, and keeps its model
in its own memory. The process answers one question at a time and sleeps in between: only one works at any moment. It
times its own work, so that the pipe costs nobody anything.

    python -m benchmarks.worker MODULE CLASS        questions on stdin, answers on stdout, what libraries say on stderr
"""

import os
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.standin import stand_in

ROOT = Path(__file__).parents[1]


class PeerError(Exception):
    """What a peer could not do, and why, in one line."""


@dataclass(frozen=True)
class Facts:
    """What a contender says of itself."""

    version: str
    parameters: int | None
    """Of its model, where it has one that counts them."""


class Worker:
    """This side of the pipe."""

    def __init__(self, module: str, contender: str, folders: Sequence[Path], threads: int) -> None:
        """Start the process; `folders` come first on its path."""
        paths = [*map(str, folders), str(ROOT), str(ROOT / "src")]
        told = {"PYTHONPATH": os.pathsep.join(paths), "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false"}
        threaded = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        self.said = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the process lives)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", module, contender],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            env={**os.environ, **told, **threaded},
        )

    def ask(self, verb: str, *arguments: Any) -> Any:
        """The answer, or `PeerError`."""
        assert self.process.stdin and self.process.stdout
        try:
            pickle.dump((verb, arguments), self.process.stdin)
            self.process.stdin.flush()
            done, answer = pickle.load(self.process.stdout)
        except (BrokenPipeError, EOFError):
            raise PeerError(f"its process ended with {self.process.wait()}: {self.last_line()}") from None
        if not done:
            raise PeerError(answer)
        return answer

    def last_line(self) -> str:
        self.said.seek(0)
        lines = self.said.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")

    def close(self) -> None:
        """Let the process go."""
        assert self.process.stdin and self.process.stdout
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.said.close()
        with suppress(BrokenPipeError):  # what it was never told does not matter any more
            self.process.stdin.close()


class Desk:
    """The other side: what a contender can be asked."""

    def __init__(self, module: str, contender: str) -> None:
        self.module, self.name = module, contender
        self.contender: Any = None

    def build(self, shape: Any, unused: Sequence[str]) -> Facts:
        """Import and build the contender; `unused` are the packages it imports in vain."""
        import torch

        stand_in(*unused)
        torch.set_num_threads(shape.threads)
        torch.manual_seed(1)
        self.contender = getattr(import_module(self.module), self.name)(shape)
        model = self.contender.model
        weights = [] if model is None else [each for each in model.parameters() if each.requires_grad]
        return Facts(str(self.contender.version), sum(each.numel() for each in weights) or None)

    def train(self, batches: list[Any]) -> float:
        """-> seconds, one optimizer step a batch."""
        begin = time.perf_counter()
        for batch in batches:
            self.contender.train(batch)
        return time.perf_counter() - begin

    def decode(self, batches: list[tuple[Any, Any]], width: int, output: int, least: float) -> float:
        """-> seconds, one (src, lengths) after the other; every sentence must get `output` tokens.

        Whoever is done before `least` seconds does it again: a moment measures badly.
        """
        times, begin = 0, time.perf_counter()
        while not times or time.perf_counter() - begin < least:
            lengths = [length for src, real in batches for length in self.contender.decode(src, real, width)]
            times += 1
        seconds = (time.perf_counter() - begin) / times
        if lengths != [output] * sum(len(src) for src, _ in batches):
            raise ValueError(f"wrote {min(lengths)} to {max(lengths)} tokens where {output} were asked for")
        return seconds


def main(module: str, contender: str) -> None:
    """Answer until nobody asks. Whatever a library prints goes to stderr: stdout belongs to the answers."""
    warnings.filterwarnings("ignore")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # what is printed last says most
    desk = Desk(module, contender)
    while True:
        try:
            verb, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = True, getattr(desk, verb)(*arguments)
        except Exception as problem:
            text = " ".join(str(problem).split())
            answer = False, f"{type(problem).__name__}: {text[:200]}"
            sys.excepthook(type(problem), problem, problem.__traceback__)
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    from benchmarks.worker import main  # so that what is pickled belongs to a module both sides know

    main(*sys.argv[1:])
