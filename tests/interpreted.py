"""A patch of Triton's interpreter, which runs kernels on a CPU, for newer versions of numpy."""

from typing import Any


def patch_interpreter() -> None:
    """Give tensors `__index__`: the loops of the interpreter use an array of one number as a number."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patch_and_index(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch_and_index
