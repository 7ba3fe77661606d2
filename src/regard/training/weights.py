"""Weights and optimizer moments as tensors by name, sharded or not; tied weights are stored once."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from regard.errors import UserError
from regard.training.sharding import is_sharded, local_part, part_like, whole

Tensors = dict[str, Tensor]
MOMENTS = {"exp_avg", "exp_avg_sq", "step", "momentum_buffer"}
"""The moments of all optimizers."""


def rename(name: str, patterns: Mapping[str, str]) -> str:
    """The name of a weight after all regular expressions are replaced, one after another."""
    for pattern, replacement in patterns.items():
        name = re.sub(pattern, replacement, name)
    return name


def weights_of(model: nn.Module, wanted: bool = True, averages: Mapping[str, Tensor] | None = None) -> Tensors:
    """Copy every weight and buffer to the CPU; a tied weight is there once, under its first name.

    A weight that has one of the `averages` is replaced by it. Sharded weights are gathered, so every rank calls this,
    and those that need no copy set `wanted` to False.
    """
    weights = {}
    for name, tensor in own_weights(model).items():
        gathered = whole((averages or {}).get(name, tensor))
        if wanted:
            weights[name] = _copied(gathered)
    return weights


def parts_of(tensors: Mapping[str, Tensor], first: bool = True) -> Tensors:
    """Copy this rank's part of every tensor to the CPU; tensors that are not sharded only on the `first` rank."""
    return {name: _copied(local_part(x)) for name, x in tensors.items() if first or is_sharded(x)}


def own_weights(model: nn.Module) -> Mapping[str, Tensor]:
    """Every weight and buffer, sharded or not, without a copy; a tied weight is there once, under its first name."""
    tied = set(_ties(model))
    return {name: tensor for name, tensor in model.state_dict().items() if name not in tied}


def load_weights(model: nn.Module, weights: Tensors, source: str) -> None:
    """Load `weights` into the model; tied weights are saved once. `source` names them in an error."""
    check_finite(weights, source)
    state, ties = model.state_dict(), _ties(model)
    missing = [name for name in state if name not in weights and ties.get(name) not in weights]
    unknown = [name for name in weights if name not in state]
    if missing or unknown:
        raise _other_model(source, "; ".join(_named("missing", missing) + _named("unknown", unknown)))
    check_shapes(model, weights, source)
    model.load_state_dict({name: part_like(x, state[name]) for name, x in weights.items()}, strict=False)


def check_shapes(model: nn.Module, weights: Tensors, source: str) -> None:
    """Raise a UserError if weights do not have the shapes of a model, which may be on the meta device.

    A model that has more parameters than the file is refused before memory is allocated for it.
    """
    state = model.state_dict()
    for name in sorted(weights.keys() & state.keys()):
        ours, theirs = state[name], weights[name]
        if ours.shape != theirs.shape or ours.is_floating_point() != theirs.is_floating_point():
            in_file, in_model = (f"{tuple(tensor.shape)} ({tensor.dtype})" for tensor in (theirs, ours))
            raise _other_model(source, f"{name} is {in_file} in the file and {in_model} in the model")
    count, saved = count_parameters(model), sum(tensor.numel() for tensor in weights.values())
    if count > saved:
        raise _other_model(source, f"it holds {saved:,} numbers, and the model has {count:,} parameters")


def _other_model(source: str, difference: str) -> UserError:
    problem = f"{source} does not fit this model: {difference}"
    remedy = "use the settings that the checkpoint was trained with"
    return UserError(problem, remedy, code="other-model", where=source)


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def check_finite(weights: Tensors, source: str) -> None:
    """Raise a UserError if a weight is NaN or infinite; the output of such a model means nothing."""
    for name, tensor in weights.items():
        if not tensor.is_floating_point() or bool(tensor.float().sum().isfinite()):  # the sum is fast
            continue
        if not bool(tensor.float().isfinite().all()):
            problem = f"{source}: the weight {name} contains NaN or infinite values"
            remedy = "use a different checkpoint: last, or an older step"
            raise UserError(problem, remedy, code="not-finite", where=f"{source}:{name}")


def moments_of(model: nn.Module, optimizer: Optimizer, first: bool = True) -> Tensors:
    """Copy the optimizer's moments as `moment:parameter`, for example `exp_avg:output.weight`; see `parts_of`."""
    moments = {
        f"{moment}:{name}": value
        for name, parameter in model.named_parameters()
        for moment, value in optimizer.state.get(parameter, {}).items()
    }
    return parts_of(moments, first)


def load_moments(model: nn.Module, optimizer: Optimizer, moments: Tensors) -> None:
    """Load the moments that `moments_of` returned; the order of parameters may differ.

    Moments of another optimizer are left out: a run can continue with another one.
    """
    known = {"momentum_buffer"} if isinstance(optimizer, SGD) else MOMENTS - {"momentum_buffer"}
    parameters = dict(model.named_parameters())
    names = {parameter: name for name, parameter in parameters.items()}
    order = [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, Tensors] = {}
    for key, value in moments.items():
        moment, _, name = key.partition(":")
        if name in order and moment in known:
            shape = parameters[name].shape
            if value.shape not in (shape, torch.Size(())):
                shapes = f"{key} has shape {tuple(value.shape)}, its parameter {tuple(shape)}"
                remedy = "use a different checkpoint"
                raise UserError(f"the checkpoint is damaged: {shapes}", remedy, code="damaged-file", where=key)
            state.setdefault(order.index(name), {})[moment] = (
                part_like(value, parameters[name]) if value.dim() else value
            )
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def all_finite(model: nn.Module) -> bool:
    """True if every parameter, or this rank's part of it, is finite; the device is synchronised once."""
    flags = [torch.isfinite(local_part(parameter)).all() for parameter in model.parameters()]
    return not flags or bool(torch.stack(flags).all())


def _ties(model: nn.Module) -> dict[str, str]:
    """Map every further name of a tied tensor to its first name."""
    first: dict[tuple[object, ...], str] = {}
    storage: tuple[object, ...]
    ties = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        storage = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride()) if tensor.numel() else (name,)
        storage = (id(tensor),) if is_sharded(tensor) else storage
        if storage in first:
            ties[name] = first[storage]
        first.setdefault(storage, name)
    return ties


def _copied(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True).contiguous()


def _named(title: str, names: list[str]) -> list[str]:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return [f"{title}: {', '.join(names[:3])}{more}"] if names else []
