"""Triton's interpreter, which runs kernels on a CPU: a test file or script is run in a process of its own.

Triton decides at import whether it compiles or interprets, so it cannot be switched on inside a test.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs triton")


def run_interpreted(path: str | Path) -> str:
    """Run a Python file whose kernels are interpreted; return what it prints."""
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def patch_interpreter() -> None:
    """Give tensors `__index__`, for newer versions of numpy: loops use an array of one number as a number."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patch_and_index(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch_and_index
