"""Sharded training with FSDP2: every process holds a share of the parameters, gradients and optimizer moments.

Each tensor is cut along its first dimension into one part per process. `fully_shard` gathers the parameters of a layer
before it is computed and frees them afterwards, and sums its gradients into the parts (Rajbhandari et al. 2020: ZeRO
stage 3; Zhao et al. 2023: FSDP). Between steps parameters, moments and moving averages are DTensors: `local_part` is
this process's part, `whole` gathers all parts, `part_like` cuts a whole tensor.

    shard     one group of all processes
    hybrid    sharded inside a node and replicated over nodes: a mesh of nodes x processes per node, so that only
              gradients travel between nodes

Validation and `model.safetensors` need whole weights. Rank 0 gathers them into a plain copy of the model, so no task,
engine or command has to know about shards.
"""

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.errors import UserError
from regard.runtime import World


@dataclasses.dataclass(frozen=True)
class Shard:
    """The parts that this process holds: number `index` of `count`."""

    index: int
    count: int
    writes: bool
    """True if this process saves its parts; replicas have the same ones."""


class Sharded(nn.Module):
    """A model whose parameters are spread over processes; called as the model itself."""

    def __init__(self, model: nn.Module, world: World, shape: tuple[int, int]) -> None:
        """Shard `model` in place over a mesh of `shape`: replicas, and shards of each."""
        super().__init__()
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        scalars = [name for name, parameter in model.named_parameters() if parameter.dim() == 0]
        if scalars:
            problem = f"FSDP2 cannot shard parameters without dimensions, and this model has {scalars[0]}"
            raise UserError(
                problem, 'set `runtime.parallel = "replicate"`', code="unsupported", where="runtime.parallel"
            )
        replicas, shards = shape
        names = ("replicate", "shard") if replicas > 1 else ("shard",)
        mesh = init_device_mesh(world.device.type, shape if replicas > 1 else (shards,), mesh_dim_names=names)
        first = replicas == 1 or mesh.get_local_rank("replicate") == 0
        self.shard = Shard(mesh.get_local_rank("shard"), shards, first)
        self._plain = [empty_copy(model)]  # in a list: its weights are no parameters of this module
        # Parts and their sums are fp32, as with DDP; `autocast` computes the products in bf16.
        policy = MixedPrecisionPolicy(cast_forward_inputs=False)
        for stack in layer_stacks(model):
            for layer in stack:
                fully_shard(layer, mesh=mesh, mp_policy=policy)
        self.root = _Root(model)
        fully_shard(self.root, mesh=mesh, mp_policy=policy)

    def forward(self, *args: object, **kwargs: object) -> object:
        return self.root(*args, **kwargs)[0]

    @property
    def module(self) -> nn.Module:
        return self.root.model

    def plain(self, weights: Mapping[str, Tensor], device: torch.device) -> nn.Module:
        """A copy of the model before sharding, with whole `weights`, as `weights_of` names them."""
        model = copy.deepcopy(self._plain[0])
        first: dict[Tensor, str] = {}
        for name, parameter in [*model.named_parameters(remove_duplicate=False)]:
            source = weights[first.setdefault(parameter, name)].to(device)
            owner, _, own = name.rpartition(".")
            setattr(model.get_submodule(owner), own, nn.Parameter(source, parameter.requires_grad))
        return model.to(device)


class _Root(nn.Module):
    """The module that FSDP2 hooks. It waits for gradients of the tensors in the output, and does not look into our
    classes, so they are returned beside it. The output matrix in it is a parameter, whose gradient comes last."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: object, **kwargs: object) -> tuple[object, list[Tensor]]:
        output = self.model(*args, **kwargs)
        return output, [tensor for tensor in tensors_in(output) if tensor.requires_grad and not tensor.is_leaf]


def tensors_in(value: object) -> Iterator[Tensor]:
    """All tensors in a value: in tuples, lists, dictionaries and data classes."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from tensors_in(getattr(value, field.name))


def empty_copy(model: nn.Module) -> nn.Module:
    """A copy of the model with its buffers and without memory for its parameters."""
    empty = {id(p): nn.Parameter(p.detach().to("meta"), p.requires_grad) for p in model.parameters()}
    return copy.deepcopy(model, dict(empty))


def layer_stacks(model: nn.Module) -> Iterator[nn.ModuleList]:
    """The stacks of layers that are computed one after another: module lists that can be called."""
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and type(module).forward is not nn.ModuleList.forward:
            yield module


def checkpoint_activations(model: nn.Module) -> None:
    """Keep only the inputs of every layer for the backward pass, which computes the layer again (Chen et al. 2016)."""
    layers = [layer for stack in layer_stacks(model) for layer in stack]
    if not layers:
        problem = "`runtime.activation_checkpointing` has no effect: the model has no Transformer layers"
        raise UserError(problem, "leave it out", code="unused-setting", where="runtime.activation_checkpointing")
    for layer in layers:
        layer.forward = _recomputed(layer.forward)


def _recomputed(forward: Callable[..., object]) -> Callable[..., object]:
    def call(*args: object, **kwargs: object) -> object:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(partial(forward, **kwargs), *args, use_reentrant=False)

    return call


def is_sharded(tensor: Tensor) -> bool:
    """True for a DTensor; its class is imported only where there are shards."""
    return hasattr(tensor, "full_tensor")


def local_part(tensor: Tensor) -> Tensor:
    """This process's part of a sharded tensor, sharing memory with it; any other tensor itself."""
    return tensor.to_local() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def whole(tensor: Tensor) -> Tensor:
    """All parts of a sharded tensor as one; every rank calls this. Any other tensor itself."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def part_like(tensor: Tensor, like: Tensor) -> Tensor:
    """Cut a whole tensor as `like` is, without communication; the tensor itself if `like` is not sharded."""
    if not is_sharded(like) or is_sharded(tensor):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    mesh, placements = like.device_mesh, like.placements  # type: ignore[attr-defined]
    return distribute_tensor(tensor.to(like.device), mesh, placements, src_data_rank=None)
