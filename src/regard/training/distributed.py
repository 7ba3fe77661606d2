"""Training in several processes: replicated (DDP) or sharded (FSDP2, sharding.py), and collectives over them.

DDP and FSDP2 hook `forward` only and average gradients over ranks, so the loop multiplies its loss by the number of
ranks and divides by the tokens of the whole step: the gradient is that of one process seeing all of it.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.errors import UserError
from regard.files import io_errors
from regard.runtime import World
from regard.training.costs import activation_memory, device_memory, training_memory
from regard.training.sharding import Sharded, checkpoint_activations, layer_stacks
from regard.training.weights import count_parameters

T = TypeVar("T")
LOST_PEER = re.compile(r"gloo|NCCL|Connection (closed|reset)|Broken pipe|Timed out waiting", re.I)
"""Parts of the errors of torch if a process of the group is gone."""
# Buffers are constants, equal on every rank, and need no synchronisation; the option has two names in torch's versions.
_NEW_NAME = "forward_sync_buffers" in signature(DistributedDataParallel).parameters
_NO_BUFFER_SYNC: dict[str, Any] = {"forward_sync_buffers" if _NEW_NAME else "broadcast_buffers": False}


@contextmanager
def peer_errors(world: World) -> Iterator[None]:
    """Turn the error of a collective whose other process is gone into a UserError."""
    try:
        yield
    except RuntimeError as error:  # gloo and NCCL raise it with a text; newer versions of torch a subclass
        if world.size == 1 or not (isinstance(error, dist.DistError) or LOST_PEER.search(str(error))):
            raise
        problem = f"rank {world.rank}: a different process of this command ended, hangs or cannot be reached"
        remedy = "read the messages of the other processes; the same command continues (`train`: with `--resume`)"
        raise UserError(problem, remedy, code="lost-process", where=f"rank {world.rank}") from error


def place(model: nn.Module, world: World, tokens: int = 0, d_model: int = 0) -> nn.Module:
    """Move the model to the world's device; with several processes, replicate it with DDP or shard it with FSDP2.

    `runtime.parallel = "auto"` shards a model that does not fit otherwise with `tokens` per micro-batch.
    """
    layers = sum(map(len, layer_stacks(model)))
    shape = mesh_shape(model, world, activation_memory(tokens, layers, d_model, world))
    if shape is not None:
        placed = Sharded(model, world, shape)
        if world.activation_checkpointing:
            checkpoint_activations(placed.module)
        return placed
    model = model.to(world.device)
    if world.activation_checkpointing:
        checkpoint_activations(model)
    if world.size == 1:
        return model
    devices = [world.device] if world.device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True, **_NO_BUFFER_SYNC)


def mesh_shape(model: nn.Module, world: World, activations: int) -> tuple[int, int] | None:
    """Replicas of the model, and shards of each; None if every process has the whole model."""
    nodes, shards = world.size // world.local_size, world.local_size
    if world.size == 1 or world.parallel == "replicate":
        return None
    if world.parallel != "shard" and all_reduce_max(shards, world) != -all_reduce_max(-shards, world):
        if world.parallel == "hybrid":
            problem = f'`runtime.parallel = "hybrid"` needs equally many processes per node; {world.size} are unequal'
            remedy = 'set `runtime.parallel = "shard"`'
            raise UserError(problem, remedy, code="invalid-setting", where="runtime.parallel")
        nodes, shards = 1, world.size
    if world.parallel == "auto":
        parameters, memory = count_parameters(model), device_memory(world)
        needs = [training_memory(parameters, activations, count) for count in (1, shards)]
        if not all_reduce_max(int(needs[0] > memory), world):
            return None
        if not all_reduce_max(int(needs[1] > memory), world):
            return nodes, shards
    return (1, world.size) if world.parallel != "hybrid" else (nodes, shards)


def unwrap(model: nn.Module) -> nn.Module:
    return model.module if isinstance(model, DistributedDataParallel | Sharded) else model


def no_sync(model: nn.Module, last: bool) -> AbstractContextManager[None]:
    """Skip the exchange of gradients unless this is the `last` micro-batch of a step."""
    if last or not isinstance(model, DistributedDataParallel):
        return nullcontext()
    return model.no_sync()


def with_own_group(world: World) -> World:
    """The world with a process group for one more thread, so that its collectives never meet those of training, which
    come in an order of their own. Every rank calls this."""
    return replace(world, group=dist.new_group(backend="gloo", timeout=timedelta(minutes=world.timeout)))


@dataclass(frozen=True)
class Ranks:
    """The processes of a world as the team of one work (regard/work.py); `share` travels over the CPU."""

    rank: int
    size: int

    @classmethod
    def of(cls, world: World) -> "Ranks | None":
        """All processes of the world; None if there is only one."""
        return cls(world.rank, world.size) if world.size > 1 else None

    def share(self, value: T) -> list[T]:
        values: list[T] = [value] * self.size
        dist.all_gather_object(values, value)
        return values


def together(action: Callable[[], T], world: World) -> T:
    """Run an action on every rank and wait for all of them; a UserError of one rank is raised on every rank."""
    result: list[T] = []
    error = None
    try:
        with io_errors(Path()):
            result.append(action())
    except UserError as raised:
        error = raised
    failure = broadcast_from_rank0(next(filter(None, gather_to_rank0(error, world)), None), world)
    if failure is not None:
        raise failure
    return result[0]


def all_reduce_max(value: int, world: World) -> int:
    """Return the maximum over all ranks; the value travels over the CPU and does not wait for a GPU."""
    if world.size == 1:
        return value
    shared = torch.tensor(value)
    dist.all_reduce(shared, op=dist.ReduceOp.MAX)
    return int(shared)


def all_reduce_sum(values: Tensor, world: World) -> Tensor:
    """Return the sum over all ranks."""
    if world.size == 1:
        return values
    total = values.clone()
    dist.all_reduce(total)
    return total


def gather_to_rank0(value: T, world: World) -> list[T]:
    """Return the values of all ranks in order on rank 0, and an empty list on the others."""
    if world.size == 1:
        return [value]
    values = [value] * world.size
    dist.gather_object(value, values if world.is_main else None, dst=0, group=world.group)
    return values if world.is_main else []


def broadcast_from_rank0(value: T, world: World) -> T:
    """Return the value of rank 0 on every rank."""
    if world.size == 1:
        return value
    values = [value]
    dist.broadcast_object_list(values, src=0, group=world.group, device=torch.device("cpu"))
    return values[0]
