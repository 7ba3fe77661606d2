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
    from regard.cli.screen import LOST_PROCESS, explain, print_error

    explained = error if isinstance(error, UserError) else explain(error)
    if explained is None:
        raise error
    if explained.code == LOST_PROCESS:  # torchrun ends the other processes; this one has yet to say why
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif error is explained and "TORCHELASTIC_RUN_ID" in os.environ:  # a restart cannot mend it
        from regard.runtime import mark_final

        mark_final()
    print_error(explained)
    return FAILED


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
