"""The command line: one command per file, and `main`, which runs one.

Large libraries are imported inside the commands, so that help is printed at once.
"""

import io
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from regard.cli.shell import FAILED, INTERRUPTED
from regard.errors import UserError

LOST_PROCESS = "lost-process"
"""Code of the error that every process prints; without torchrun, all others are printed by the first process."""
WAIT_SECONDS = 5.0
"""How long a process of torchrun waits for the first one to print an error that both may have."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    0 success, 1 an input that cannot be used or an error of the machine (printed without a traceback), 2 an unknown
    command or option, 130 interrupted. Any other exception is a bug and has a traceback.
    """
    from regard.cli.app import app_command

    if arguments is None and sys.getfilesystemencoding() == "ascii" and not sys.flags.utf8_mode:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # LANG=C: texts are UTF-8 anyway
    sys.stdin = sys.stdin or Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115  (closed by `<&-`)
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # UTF-8 in every locale
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    if "TORCHELASTIC_RUN_ID" in os.environ:
        from regard.runtime import is_final

        if is_final():
            return FAILED
    try:
        app_command().main(args=None if arguments is None else list(arguments), prog_name="regard")
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as exit_:
        return _flushed(exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None))
    except Exception as error:
        return _failed(error)
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # nobody reads it: discard what is buffered, or the interpreter fails on it at the end
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return _flushed(0)


def _failed(error: Exception) -> int:
    """Print a UserError or an error of the machine; raise any other."""
    from regard.cli.screen import explain, is_main, print_error

    explained = error if isinstance(error, UserError) else explain(error)
    if explained is None:
        raise error
    if "TORCHELASTIC_RUN_ID" in os.environ:
        _explain_once(explained, final=error is explained and explained.code != LOST_PROCESS)
    elif is_main() or explained.code == LOST_PROCESS:
        print_error(explained)
    return FAILED


def _explain_once(error: UserError, final: bool) -> None:
    """Print an error of a process of torchrun, unless another one explains the end of all. No restart can mend a
    `final` error, and all processes may have it: then the first of them prints it."""
    from regard.cli.screen import is_main, print_error
    from regard.runtime import is_final, mark_final

    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends all processes as soon as one has failed
    try:
        if not (final and is_main()) and is_final(wait=WAIT_SECONDS if final else WAIT_SECONDS / 5):
            return
        print_error(error)
        if final:
            mark_final()
    finally:
        signal.signal(signal.SIGTERM, before)


def _flushed(status: int) -> int:
    """Flush stdout; a closed pipe (`| head`) is not reported."""
    from regard.cli.screen import print_error

    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            problem = f"stdout cannot be written: {error.strerror}"
            print_error(UserError(problem, "free disk space and run the command again", code="disk-full"))
        return FAILED
    return status
