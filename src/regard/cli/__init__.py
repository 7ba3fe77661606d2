"""The command line: one verb a file, and `main`, which every start goes through.

Large libraries are imported inside the verbs, so that asking for help is instant.
"""

import errno
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from regard.errors import UserError

USER_ERROR, INTERRUPTED = 1, 130
DISK_FULL = "the disk is full: not everything was written"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    0 done, 1 something the user gave cannot be used (said without a traceback), 2 a command that cannot be understood,
    130 interrupted. Any other exception is a defect of ours and shows where it happened.
    """
    from regard.cli.app import app_command
    from regard.cli.screen import complain

    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # text is UTF-8 whatever the machine's locale says
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        app_command().main(args=None if arguments is None else list(arguments), prog_name="regard")
    except UserError as error:
        complain(error)
        return USER_ERROR
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            complain(UserError(f"no file or folder can have so long a name: {error.filename}"))
            return USER_ERROR
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        complain(UserError(DISK_FULL, "free some space and go on"))
        _give_up_stdout()
        return USER_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as exit_:
        return _flushed(exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None))
    return _flushed(0)


def open_closed_streams() -> None:
    """A process may be started without the three streams (`<&-`); then there is nothing to read and nobody to tell."""
    sys.stdin = sys.stdin or Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def _flushed(status: int) -> int:
    """Write out what is still held back; a reader that went away (`| head`) is no error worth words."""
    from regard.cli.screen import complain

    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            complain(UserError(f"stdout cannot be written: {error.strerror}", "free some space and go on"))
        _give_up_stdout()
        return USER_ERROR
    return status


def _give_up_stdout() -> None:
    """What is still held back goes nowhere, so that the interpreter does not fail on it again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
