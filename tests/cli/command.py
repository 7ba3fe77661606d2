"""Run commands of `regard` in this process."""

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.tiny import number_sentences as sentences
from tests.tiny import translate_words as translated

from regard.cli import main

__all__ = ["ERROR", "Result", "fails", "refused", "regard", "sentences", "translated"]

ERROR = re.compile(r"^error(?: \[([a-z0-9-]+)\])?: ", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    """The exit status, stdout and stderr of a command."""

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
        """The lines of stdout."""
        return self.out.split("\n")[:-1]


class Terminal(io.TextIOWrapper):
    """A stream that is a terminal."""

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
    """Run `regard ARGUMENTS` as a shell does; with `terminal`, all three streams are terminals."""
    content = stdin.encode() if isinstance(stdin, str) else stdin
    with streams(content, Terminal if terminal else io.TextIOWrapper) as (out, err):
        status = main([str(argument) for argument in arguments])
    return Result(status, out.getvalue().decode(), err.getvalue().decode())


def fails(*arguments: object, stdin: str | bytes = b"") -> Result:
    """Run a command that must end with a UserError, without a traceback; `Result.code` is its code."""
    result = regard(*arguments, stdin=stdin)
    assert result.status == 1, (result.status, result.err)
    assert ERROR.search(result.err)
    assert "Traceback" not in result.err
    return result


def refused(*arguments: object, stdin: str | bytes = b"") -> str:
    """The error message of a command that fails."""
    return fails(*arguments, stdin=stdin).err
