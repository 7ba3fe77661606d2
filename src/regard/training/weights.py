"""Tensors by name, in and out: a model's weights with its ties, and an optimizer's moments. Never pickle."""

import re
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.errors import UserError

Tensors = dict[str, Tensor]

RENAMED = {
    r"\baround_(attention|cross_attention|feedforward)\.": r"\1_residual.",
    r"\bfeedforward\.widen\.": "feedforward.fc1.",
    r"\bfeedforward\.narrow\.": "feedforward.fc2.",
    r"\bweighing\.between\.": "scored_attention.position_bias.",
    r"\bweighing\.": "scored_attention.",
    r"\brightward\.": "forward_layer.",
    r"\bleftward\.": "backward_layer.",
    r"\bdecoder\.glance\.": "decoder.source_attention.",
    r"\bdecoder\.join\.": "decoder.combine.",
    r"\benter_(encoder|decoder)\.": r"\1_in.",
    r"\bleave_(encoder|decoder)\.": r"\1_out.",
    r"^(\w+:|)narrow\.": r"\1output_projection.",
    r"^(\w+:|)reader\.encoder\.": r"\1encoder.rnn.",
    r"^(\w+:|)reader\.": r"\1encoder.",
}
"""Names of weights in checkpoints of format 1, and their names now; `\\w+:` is the prefix of a moment."""


def current_name(name: str) -> str:
    """The name that a weight of an old checkpoint has now; current names stay."""
    for pattern, replacement in RENAMED.items():
        name = re.sub(pattern, replacement, name)
    return name


def weights_of(model: nn.Module) -> Tensors:
    """A copy on the CPU of every weight and buffer; what the model shares under two names is there once, the first."""
    tied = set(_ties(model))
    return {name: _copied(tensor) for name, tensor in model.state_dict().items() if name not in tied}


def load_weights(model: nn.Module, weights: Tensors, source: str) -> None:
    """Put `weights` into the model, whose own ties fill the names saved once; `source` names them in an error."""
    own = model.state_dict()
    for name in weights.keys() & own.keys():
        if weights[name].shape != own[name].shape:
            raise UserError(
                f"{source} does not fit this model: {name} is {tuple(weights[name].shape)} in the file and "
                f"{tuple(own[name].shape)} in the model",
                "use the settings the checkpoint was trained with",
                code="other-model",
                where=source,
            )
    ties = _ties(model)
    missing = [name for name in own if name not in weights and ties.get(name) not in weights]
    unknown = [name for name in weights if name not in own]
    if missing or unknown:
        raise UserError(
            f"{source} does not fit this model: " + "; ".join(_named("missing", missing) + _named("unknown", unknown)),
            "use the settings the checkpoint was trained with",
            code="other-model",
            where=source,
        )
    model.load_state_dict(weights, strict=False)


def moments_of(model: nn.Module, optimizer: Optimizer) -> Tensors:
    """What the optimizer remembers of each parameter, as `moment:parameter`, for example `exp_avg:output.weight`."""
    return {
        f"{moment}:{name}": _copied(value)
        for name, parameter in model.named_parameters()
        for moment, value in optimizer.state.get(parameter, {}).items()
    }


def load_moments(model: nn.Module, optimizer: Optimizer, moments: Tensors) -> None:
    """Give the optimizer back what `moments_of` took from it, in whatever order it holds the parameters now."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    order = [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, Tensors] = {}
    for key, value in moments.items():
        moment, _, name = key.partition(":")
        if name in order:
            state.setdefault(order.index(name), {})[moment] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def all_finite(model: nn.Module) -> bool:
    """Whether every parameter is a number throughout; the device is asked once."""
    flags = [torch.isfinite(parameter).all() for parameter in model.parameters()]
    return not flags or bool(torch.stack(flags).all())


def _ties(model: nn.Module) -> dict[str, str]:
    """Each later name of a tensor the model holds under several, with the first one."""
    first: dict[tuple[object, ...], str] = {}
    ties = {}
    for name, tensor in model.state_dict().items():
        place = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride()) if tensor.numel() else (name,)
        if place in first:
            ties[name] = first[place]
        first.setdefault(place, name)
    return ties


def _copied(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True).contiguous()


def _named(verb: str, names: Iterable[str]) -> list[str]:
    listed = list(names)
    more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
    return [f"it {verb} {', '.join(listed[:3])}{more}"] if listed else []
