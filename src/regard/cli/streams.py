"""Input and output of commands: lines of a file or of stdin, a complete output file or none, prompts on a terminal."""

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

import typer

from regard.cli.screen import ProgressLine, is_main, report
from regard.cli.shell import INTERRUPTED
from regard.errors import UserError
from regard.messages import Message, localize
from regard.work import ENDING, Interrupted, Work

if TYPE_CHECKING:
    from regard.run.model import Model

INVITATION = Message("Type a line, then Enter; Ctrl-D ends.")
STDIO = "-"
"""The file name that means stdin or stdout."""

Ask = Callable[[str], str | None]
"""Asks a person for one line under a title; None if the input ends."""


def read_lines(name: str) -> Iterator[str]:
    """The lines of a file or of stdin, read one by one; a line that is not UTF-8 is a UserError."""
    from regard.data.records import decode_lines
    from regard.files import open_binary

    if name == STDIO:
        yield from decode_lines(open_stdin(), "stdin")
        return
    with open_binary(Path(name)) as stream:
        yield from decode_lines(stream, name)


def open_stdin() -> BinaryIO:
    """stdin; a UserError if several processes would each read a part of it."""
    if os.environ.get("WORLD_SIZE", "1") != "1":
        problem = "several processes cannot read stdin"
        raise UserError(problem, "set `--input FILE`", code="unsupported-option", where="input")
    return sys.stdin.buffer


def line_name(name: str) -> str:
    """The name of a line of this input in errors; its number follows."""
    return f"{'stdin' if name == STDIO else name}, line"


def regular_file(name: str) -> Path | None:
    """The path of an input that can be read twice; None for stdin, a pipe or a missing file."""
    from regard.files import find_file

    path = find_file(Path(name))
    return path if name != STDIO and path.is_file() else None


def count_lines(name: str) -> int | None:
    """The number of lines of a file; None if it is not known before they are read."""
    from regard.files import open_binary

    if (path := regular_file(name)) is None:
        return None
    with open_binary(path) as stream:
        try:
            return sum(1 for _ in stream)
        except (OSError, EOFError, ValueError):  # a damaged file is an error when it is used
            return None


@contextmanager
def work_on(
    title: str, output: str, total: int | None, model: "Model", options: object, *files: str | None
) -> Iterator[Work]:
    """Work with progress on the terminal. If the output is a file, Ctrl-C and SIGTERM keep what is done beside it, and
    the same command continues, unless the model, its `options` or the content of `files` changed."""
    path, made_from = Path(output), None
    if output == STDIO or (path.exists() and not path.is_file()):
        unfinished = None
    else:
        from regard.files import digest

        unfinished = path.with_name(path.name + ENDING)
        inputs = [digest(file) if (file := regular_file(name)) else None for name in files if name]
        made_from = {"input": inputs, "options": options, **model.made_from()}
    from regard.training.distributed import Ranks, peer_errors

    team, errors = Ranks.of(model.world), peer_errors(model.world)
    with errors, interruptible(), ProgressLine(title) as line, Work(line, total, unfinished, made_from, team) as work:
        if work.changed:
            facts = {"file": unfinished, "names": ", ".join(work.changed)}
            report(Message("{file} cannot be continued (changed: {names}); starting anew", **facts))
        elif work.is_continued:
            report(Message("continuing with the results in {file}", file=unfinished))
        yield work


@contextmanager
def interruptible() -> Iterator[None]:
    """End the command with status 130 at Ctrl-C and SIGTERM, and tell how to continue work that is kept."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt as stop:
        if isinstance(stop, Interrupted):
            report(Message("stopped after {done:,}; repeat the command to continue (kept in {path})", **vars(stop)))
        raise typer.Exit(INTERRUPTED) from stop
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def open_output(name: str) -> Iterator[TextIO]:
    """stdout, a device or pipe, or a file that appears when it is complete; .gz, .xz and .bz2 are compressed. Of
    several processes only the first one writes."""
    from regard.files import io_errors, replacing

    path = Path(name)
    if not is_main():
        with Path(os.devnull).open("w", encoding="utf-8") as stream:
            yield stream
    elif name == STDIO:
        yield sys.stdout
    elif path.exists() and not path.is_file():
        with io_errors(path), path.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
    else:
        with replacing(path) as temporary:
            with temporary.open("w", encoding="utf-8", newline="\n") as stream:
                yield stream
            compress(temporary)


def compress(path: Path) -> None:
    """Compress a file in place if its name ends in .gz, .xz or .bz2; equal contents give equal files."""
    import shutil

    from regard import files

    if path.suffix not in files.COMPRESSED:
        return
    plain = path.rename(path.with_name("plain"))
    with plain.open("rb") as source, path.open("wb") as raw, files.compress(raw, path.suffix) as stream:
        shutil.copyfileobj(source, stream)
    plain.unlink()


def check_output(output: str, *inputs: str | None) -> None:
    """Raise UserError if the output file is one of the input files, or not on this machine."""
    from regard.data.remote import URL
    from regard.files import find_file

    if URL.match(output):
        problem, remedy = f"`--output {output}`: URLs are only read", "write a local file, and copy it"
        raise UserError(problem, remedy, code="unwritable", where=output)

    path = Path(output)
    for source in [find_file(Path(name)) for name in inputs if name not in (None, STDIO)]:
        if output != STDIO and path.exists() and source.exists() and path.samefile(source):
            problem = f"`--output {output}` is also the input"
            raise UserError(problem, "choose a different output file", code="overwrites-input", where=output)


def is_interactive(*inputs: object) -> bool:
    """True if no input is given and stdin is a terminal, so that the command is interactive."""
    return not any(inputs) and sys.stdin.isatty()


def check_one_input(**inputs: object) -> None:
    """Raise UserError if more than one kind of input is given."""
    names = [name for name, value in inputs.items() if value]
    if len(names) > 1:
        raise UserError(f"{' and '.join(names)} are both set", "choose one", code="conflicting-options", where=names[0])


def make_prompt() -> Ask:
    """Ask on the terminal, with line editing and a history if stdin and stdout are both the terminal. Otherwise the
    title goes to stderr, and the answer is a line of stdin."""
    stdin = sys.stdin
    if stdin is sys.__stdin__ and isinstance(stdin, io.TextIOWrapper) and stdin.isatty() and sys.stdout.isatty():
        return _make_editor(stdin)
    lines = read_lines(STDIO)

    def ask(title: str) -> str | None:
        print(f"{title}> ", end="", file=sys.stderr, flush=True)
        return next(lines, None)

    return ask


def _make_editor(stdin: io.TextIOWrapper) -> Ask:
    """Ask with `input`, which edits lines if the module readline is imported."""
    from regard.data.records import decode_lines

    with suppress(ImportError):
        import readline  # noqa: F401
    stdin.reconfigure(errors="surrogateescape")  # bytes that are not UTF-8 are refused by decode_lines

    def ask(title: str) -> str | None:
        try:
            line = input(f"{title}> ")
        except EOFError:
            return None
        return next(decode_lines(io.BytesIO(line.encode(errors="surrogateescape") + b"\n"), "stdin"))

    return ask


def prompt_lines(invitation: str = "") -> Iterator[str]:
    """The lines that a person types."""
    report(invitation or localize(INVITATION))
    ask = make_prompt()
    while (line := ask("")) is not None:
        yield line
    report()


def input_lines(texts: Sequence[str], name: str, interactive: bool = False) -> Iterator[Iterator[str]]:
    """The input in groups that are computed together: everything at once, or line by line if a person types."""
    if interactive or is_interactive(texts, name != STDIO):
        yield from (iter([line]) for line in prompt_lines())
    else:
        yield iter(texts) if texts else read_lines(name)
