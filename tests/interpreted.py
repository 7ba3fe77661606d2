"""Triton's interpreter, which runs kernels on a CPU, made to work with newer numpy."""

from typing import Any


def patch_interpreter() -> None:
    """numpy no longer takes an array of one number for a number, which the interpreter's loops rely on."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patch_and_index(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch_and_index
