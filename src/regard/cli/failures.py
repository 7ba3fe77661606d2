"""Errors of the machine as messages: a full disk, an unreadable file, too many open files, no memory left."""

import os
import re

from regard.errors import UserError
from regard.files import explain_os_error

NO_MEMORY = re.compile(
    r"out of memory|can't allocate memory|not enough memory|bad_alloc|can't start new thread|failed to map segment",
    re.I,
)
"""Texts of torch, Python and the loader of libraries."""
OS_ERROR = re.compile(r"\(os error (\d+)\)")
"""The number of an error of the operating system in the errors of libraries written in Rust."""


def explain(error: Exception) -> UserError | None:
    """Describe an error of the machine; None if the error is a bug in regard."""
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | ImportError) and NO_MEMORY.search(str(error))
    ):
        return UserError(
            f"there is not enough memory: {str(error).partition(chr(10))[0] or 'an allocation failed'}",
            "use smaller batches, shorter texts or a smaller model, or close other applications",
            code="out-of-memory",
        )
    if not isinstance(error, OSError) and (match := OS_ERROR.search(str(error))):
        error = OSError(int(match[1]), os.strerror(int(match[1])))
    return explain_os_error(error) if isinstance(error, OSError) else None
