"""Whether kernels of our own can be compiled here; every room that has one also has a way without."""

import os
import shutil
from functools import cache
from importlib.util import find_spec


@cache
def kernels_available() -> bool:
    """Triton is installed (it comes with torch for GPUs), and a C compiler, which it launches kernels with."""
    compilers = (os.environ.get("CC"), "cc", "gcc", "clang")
    return find_spec("triton") is not None and any(shutil.which(name) for name in compilers if name)
