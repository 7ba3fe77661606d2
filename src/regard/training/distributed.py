"""The one file that knows how a model is spread over processes; everywhere else a model is a model.

DDP hooks `forward` alone and averages gradients over ranks, so the loop multiplies its loss by the number of ranks
and divides by the tokens of the whole step: the gradient is that of one process seeing all of it.
"""

from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.runtime import World

T = TypeVar("T")

# Buffers are constants, the same on every rank from the start; the option that says so has two names over versions.
_NEW_NAME = "forward_sync_buffers" in signature(DistributedDataParallel).parameters
_SAME_BUFFERS: dict[str, Any] = {"forward_sync_buffers" if _NEW_NAME else "broadcast_buffers": False}


def place(model: nn.Module, world: World) -> nn.Module:
    """Move the model to the world's device and, among several processes, keep its gradients equal on all of them."""
    model = model.to(world.device)
    if world.size == 1:
        return model
    devices = [world.device] if world.device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True, **_SAME_BUFFERS)


def unwrap(model: nn.Module) -> nn.Module:
    """The model itself, with its own methods and parameter names."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def no_sync(model: nn.Module, last: bool) -> AbstractContextManager[None]:
    """Exchange gradients at the `last` micro-batch of a step only."""
    if last or not isinstance(model, DistributedDataParallel):
        return nullcontext()
    return model.no_sync()


def agree(value: int, world: World) -> int:
    """The greatest value any rank holds: a flag raised on one is raised on all. Never waits for a GPU."""
    if world.size == 1:
        return value
    shared = torch.tensor(value)
    dist.all_reduce(shared, op=dist.ReduceOp.MAX)
    return int(shared)


def add_up(values: Tensor, world: World) -> Tensor:
    """The sum over all ranks."""
    if world.size == 1:
        return values
    total = values.clone()
    dist.all_reduce(total)
    return total


def gathered(value: T, world: World) -> list[T]:
    """The values of all ranks in their order, on rank 0; elsewhere nothing. They travel by way of the CPU."""
    if world.size == 1:
        return [value]
    box: list[Any] = [None] * world.size
    dist.gather_object(value, box if world.is_main else None, dst=0)
    return box if world.is_main else []


def from_main(value: T, world: World) -> T:
    """Rank 0's value, on every rank; the others wait for it."""
    if world.size == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
    return box[0]
