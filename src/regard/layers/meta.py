"""Modules without values: shapes only, for weights that are loaded later."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

FILL = {Tensor.normal_, Tensor.uniform_, Tensor.fill_, Tensor.zero_}


@contextmanager
def on_meta() -> Iterator[None]:
    """Build modules on the meta device, without initialisation.

    torch computes random values on this device with its compiler, which takes a second to import.
    """
    with torch.device("meta"), _SkipInitialization():
        yield


def allocate(model: nn.Module) -> nn.Module:
    """Give every tensor on the meta device memory on the CPU, with any values; other tensors stay as they are.

    `Module.to_empty` does this for all tensors, and imports torch's compiler.
    """
    return model._apply(lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype) if tensor.is_meta else tensor)


class _SkipInitialization(TorchFunctionMode):
    """Leave a tensor as it is where a function would fill it with values."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == nn.init.__name__:
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        if func in FILL and args[0].is_meta:
            return args[0]
        return func(*args, **kwargs)
