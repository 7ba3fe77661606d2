"""A way to type commands in this process, and the small language that the run of these tests has learnt."""

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from regard.cli import main

WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs"}
TRAIN_SHARE = -20
ERROR = re.compile(r"^error(?: \[([a-z0-9-]+)\])?: ", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    """What a command left: its exit status, stdout and stderr."""

    status: int
    out: str
    err: str

    @property
    def code(self) -> str:
        """The code of the error on stderr; empty if there is none."""
        match = ERROR.search(self.err)
        return (match[1] or "") if match else ""

    @property
    def lines(self) -> list[str]:
        """stdout's lines, none of them lost."""
        return self.out.split("\n")[:-1]


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@contextmanager
def streams(stdin: bytes, kind: type[io.TextIOWrapper]) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    before = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    written = [kind(stream, write_through=True) for stream in (out, err)]
    sys.stdin, sys.stdout, sys.stderr = kind(io.BytesIO(stdin)), *written
    try:
        yield out, err
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for stream in written:
            stream.detach()


def regard(*arguments: object, stdin: str | bytes = b"", terminal: bool = False) -> Result:
    """Run `regard ARGUMENTS` as a shell would; with `terminal`, as one does when a person sits before it."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    with streams(given, Terminal if terminal else io.TextIOWrapper) as (out, err):
        status = main([str(argument) for argument in arguments])
    return Result(status, out.getvalue().decode(), err.getvalue().decode())


def refused(*arguments: object, stdin: str | bytes = b"") -> str:
    """Run a command that must be refused as the user's mistake, without a traceback; return what it says."""
    result = regard(*arguments, stdin=stdin)
    assert result.status == 1, (result.status, result.err)
    assert ERROR.search(result.err)
    assert "Traceback" not in result.err
    return result.err


def translated(line: str) -> str:
    """What the run has learnt: each word's German."""
    return " ".join(WORDS[word] for word in line.split())


def sentences() -> list[str]:
    """All sentences of three words, in an order without a pattern; the last ones are kept from training."""
    names = list(WORDS)
    lines = [" ".join((names[i % 6], names[i // 6 % 6], names[i // 36])) for i in range(216)]
    return [lines[i * 125 % 216] for i in range(216)]


def write_corpus(folder: Path) -> None:
    """train, valid and test, .src and .tgt."""
    lines = sentences()
    for part, chosen in (("train", lines[:TRAIN_SHARE]), ("valid", lines[TRAIN_SHARE:-10]), ("test", lines[-10:])):
        (folder / f"{part}.src").write_text("".join(f"{line}\n" for line in chosen), encoding="utf-8")
        (folder / f"{part}.tgt").write_text("".join(f"{translated(line)}\n" for line in chosen), encoding="utf-8")
