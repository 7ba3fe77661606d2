"""Availability of Triton kernels; every kernel also has an implementation without Triton."""

import os
import shutil
from functools import cache
from importlib.util import find_spec


@cache
def kernels_available() -> bool:
    """True if Triton is installed (with torch for GPUs) and a C compiler, which Triton needs."""
    compilers = (os.environ.get("CC"), "cc", "gcc", "clang")
    return find_spec("triton") is not None and any(shutil.which(name) for name in compilers if name)
