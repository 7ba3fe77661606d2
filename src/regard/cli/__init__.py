"""The command line: one verb per file, and `main`, which runs a command.

Large libraries are imported inside the verbs, so that help is printed at once.
"""

import errno
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from regard.errors import UserError

USER_ERROR, INTERRUPTED = 1, 130
DISK_FULL = "the disk is full: the output is incomplete"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    0 success, 1 an input that cannot be used (`UserError`, printed without a traceback), 2 an unknown command or
    option, 130 interrupted. Any other exception is a bug and has a traceback.
    """
    from regard.cli.app import app_command
    from regard.cli.screen import print_error

    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # UTF-8 in every locale
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        app_command().main(args=None if arguments is None else list(arguments), prog_name="regard")
    except UserError as error:
        print_error(error)
        return USER_ERROR
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            print_error(UserError(f"the name is too long for a file or folder: {error.filename}", code="invalid-name"))
            return USER_ERROR
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print_error(UserError(DISK_FULL, "free some space and try again", code="disk-full"))
        _discard_stdout()
        return USER_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as exit_:
        return _flushed(exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None))
    return _flushed(0)


def open_closed_streams() -> None:
    """Replace streams that are closed (`<&-`) by the null device."""
    sys.stdin = sys.stdin or Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def _flushed(status: int) -> int:
    """Flush stdout; a closed pipe (`| head`) is not reported."""
    from regard.cli.screen import print_error

    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            problem = f"stdout cannot be written: {error.strerror}"
            print_error(UserError(problem, "free some space and try again", code="disk-full"))
        _discard_stdout()
        return USER_ERROR
    return status


def _discard_stdout() -> None:
    """Discard what is still buffered, so that the interpreter does not fail on it when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
