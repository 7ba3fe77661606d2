"""Errors of the machine have messages; a stderr that nobody reads ends no command."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.cli.command import ERROR, fails, regard
from tests.system.helpers import ENVIRONMENT

from regard.cli import main
from regard.cli.screen import ProgressLine, explain, in_colour, print_error, report
from regard.errors import UserError
from regard.run.run import Run

ALLOCATION = (
    "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), "out-of-memory"),
        (RuntimeError(ALLOCATION), "out-of-memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), "out-of-memory"),
        (RuntimeError("can't start new thread"), "out-of-memory"),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), "out-of-memory"),
        (Exception("Error while serializing: I/O error: No space left on device (os error 28)"), "disk-full"),
        (Exception("I/O error: Input/output error (os error 5)"), "machine-error"),
        (OSError(errno.ENOSPC, "No space left on device"), "disk-full"),
        (OSError(errno.EIO, "Input/output error"), "machine-error"),
        (OSError(errno.EMFILE, "Too many open files", "a.txt"), "machine-error"),
        (OSError(errno.EFBIG, "File too large"), "machine-error"),
        (PermissionError(errno.EACCES, "Permission denied", "a.txt"), "unreadable-file"),
    ],
)
def test_errors_of_the_machine_have_a_message(monkeypatch: pytest.MonkeyPatch, error: Exception, code: str) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Run, "open", fail)
    for command in ("average", "evaluate"):
        result = fails(command, "runs/x")
        assert result.code == code
        assert (getattr(error, "filename", None) or "") in result.err


@pytest.mark.parametrize(
    "error",
    [RuntimeError("a bug"), FileNotFoundError(errno.ENOENT, "No such file"), ImportError("no module"), KeyError()],
)
def test_other_errors_are_bugs(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: object) -> None:
        raise error

    assert explain(error) is None
    monkeypatch.setattr(Run, "open", fail)
    with pytest.raises(type(error)):
        regard("average", "runs/x")


def main_without_stderr(*arguments: object) -> int:
    """The status of a command whose stderr cannot be written."""
    with Path("/dev/full").open("w", encoding="utf-8") as full, patch.object(sys, "stderr", full):
        return main([str(argument) for argument in arguments])


def test_a_training_needs_no_stderr(recipe: Path, tmp_path: Path) -> None:
    assert main_without_stderr("train", recipe, "training.max_steps=1", "--folder", tmp_path / "run") == 0
    assert (tmp_path / "run" / "checkpoints" / "step-00000001").is_dir()


def test_an_error_without_stderr_has_its_status() -> None:
    assert main_without_stderr("recipes", "dtaes") == 1


class Gone:
    """A terminal that was closed."""

    def write(self, text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")

    def flush(self) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def isatty(self) -> bool:
        return True


def test_a_closed_terminal_stops_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Gone())
    monkeypatch.setenv("TERM", "xterm")
    report("nobody reads this")
    print_error(UserError("nobody reads this"))
    with ProgressLine("nobody") as progress:
        progress(1)


def test_an_error_is_printed_if_no_file_can_be_opened(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then rich cannot be imported."""
    monkeypatch.setitem(sys.modules, "rich.text", None)
    print_error(UserError("too many files\x1b", "close some", code="machine-error"))
    errors = capsys.readouterr().err
    match = ERROR.search(errors)
    assert match and match[1] == "machine-error" and "too many files␛" in errors and "close some" in errors


def test_escapes_in_the_name_of_a_folder_do_not_reach_the_terminal(recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "\x1b[31mred\x9b"
    result = regard("train", recipe, "training.max_steps=1", "--folder", folder, terminal=True)
    assert result.status == 0 and "␛[31mred␡" in result.out and "␛[31mred␡" in result.err
    assert "\x1b[31mred" not in result.out + result.err and "\x9b" not in result.out + result.err
    assert "\x1b[31mred\x9b" in regard("train", folder, "training.max_steps=1").out, "a program gets the name"


@pytest.mark.parametrize(("term", "colour"), [("dumb", False), ("xterm", True)])
def test_colours_need_a_terminal_that_shows_them(
    monkeypatch: pytest.MonkeyPatch, trained: Path, term: str, colour: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("NO_COLOR", raising=False)
    result = regard("inspect", trained, "one two", terminal=True)
    assert result.status == 0 and ("\x1b[" in result.out) == colour
    assert not in_colour(), "stdout of the test is no terminal"


@pytest.mark.parametrize("size", ["2", "many"])
def test_variables_of_torchrun_have_no_effect_outside_training(
    monkeypatch: pytest.MonkeyPatch, trained: Path, size: str
) -> None:
    for name, value in (("WORLD_SIZE", size), ("RANK", "1"), ("LOCAL_RANK", "7")):
        monkeypatch.setenv(name, value)
    result = regard("translate", trained, stdin="one two\n")
    assert (result.status, len(result.lines)) == (0, 1)


def test_training_with_variables_of_torchrun_but_without_it_is_an_error(
    monkeypatch: pytest.MonkeyPatch, recipe: Path, tmp_path: Path
) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert fails("train", recipe, "--folder", tmp_path / "run").code == "invalid-environment"
    assert not (tmp_path / "run").exists()
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "1")
    monkeypatch.setenv("RANK", "-1")
    assert regard("train", recipe, "--folder", tmp_path / "run").status == 1


def test_arguments_are_utf8_in_every_locale() -> None:
    environment = {**ENVIRONMENT, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "regard", "äöü"]
    result = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert result.returncode == 2 and "äöü" in result.stderr.decode(), os.fsdecode(result.stderr)
