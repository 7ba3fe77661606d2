"""Optimizers and learning-rate schedules.

Adam as in Vaswani et al. 2017, section 5.3, AdamW (Loshchilov & Hutter 2019) with weight decay, and stochastic gradient
descent with momentum (Polyak 1964; Sutskever et al. 2013):

    v <- m v + g + d w        m momentum, g gradient, d weight decay
    w <- w - r v              r learning rate

A schedule is a function from the step, counted from 1, to the learning rate. A model that names its layers
(`Layered`) can be fine-tuned with a rate for each, and layer by layer (Howard & Ruder 2018, sections 3.2 and 3.3):

    r_l = r / decay^k         k layers between layer l and the output; the head has k = 0
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from regard.training.settings import TrainingSettings
from regard.training.sharding import whole

Schedule = Callable[[int], float]
Groups = list[list[nn.Parameter]]
RATIO = 32
"""How many times smaller than its peak a slanted triangular learning rate is at its ends."""


@runtime_checkable
class Layered(Protocol):
    """A model whose layers can have learning rates of their own."""

    def layer_groups(self) -> Groups:
        """All parameters, from the output to the input: the head, each layer from the last to the first, the rest."""


def layer_groups(model: nn.Module) -> Groups:
    """The parameters of each layer, from the output to the input; one group if the model does not name its layers."""
    return model.layer_groups() if isinstance(model, Layered) else [list(model.parameters())]


def build_optimizer(model: nn.Module, settings: TrainingSettings) -> Optimizer:
    """Make the optimizer of the settings; one fused kernel updates all parameters.

    adam    Adam, or AdamW if `weight_decay` is above zero: the decay is decoupled from the gradient
    sgd     gradient descent with momentum; the decay is an L2 term, added to the gradient

    Only matrices decay: a smaller bias or norm gain would change what the layer can express, not only the size of its
    weights. `set_rate` sets the learning rate at every step.
    """
    layers = layer_groups(model) if settings.layer_decay != 1 else [list(model.parameters())]
    decay = settings.weight_decay
    groups: list[dict[str, object]] = []
    for depth, layer in enumerate(layers):
        trainable = [parameter for parameter in layer if parameter.requires_grad]
        parts = decay_groups(trainable, decay) if decay else [{"params": trainable}] if trainable else []
        groups += [part | {"scale": settings.layer_decay**-depth} for part in parts]
    first = next((p for p in model.parameters() if p.requires_grad), None)
    on_gpu = first is not None and first.is_cuda
    # On a GPU the learning rate is a tensor, so that a CUDA graph reads it at every replay.
    for group in groups:
        group["lr"] = torch.zeros((), device=first.device) if first is not None and on_gpu else 0.0
    if settings.optimizer == "sgd":
        return SGD(groups, momentum=settings.momentum, fused=True)
    betas, epsilon = (settings.adam_beta1, settings.adam_beta2), settings.adam_epsilon
    kind = AdamW if decay else Adam
    return kind(groups, betas=betas, eps=epsilon, fused=True, capturable=on_gpu)


def decay_groups(parameters: Sequence[nn.Parameter], weight_decay: float) -> list[dict[str, object]]:
    """Matrices, which decay, and other parameters, which do not."""
    groups: list[dict[str, object]] = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate; a group with a `scale` gets that many times the rate."""
    for group in optimizer.param_groups:
        own = rate * group.get("scale", 1.0)
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(own)
        else:
            group["lr"] = own


def clip_gradients(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Clip the gradients to the global norm `max_norm` (0: no clipping); return the norm before clipping.

    The norm also detects gradients that are not finite, so it is always computed; it stays on the device.
    """
    trainable = [parameter for parameter in parameters if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm([p.grad for p in trainable if p.grad is not None])
    if max_norm:
        torch.nn.utils.clip_grads_with_norm_(trainable, max_norm, norm)
    return whole(norm)


def paper(step: int, factor: float, d_model: int, warmup: int) -> float:
    """factor · d_model^-0.5 · min(step^-0.5, step · warmup^-1.5) (Vaswani et al. 2017, equation 3)."""
    return float(factor * d_model**-0.5 * min(step**-0.5, step * max(warmup, 1) ** -1.5))


def inverse_sqrt(step: int, peak: float, warmup: int) -> float:
    """peak · min(step / warmup, √(warmup / step)): the curve of the paper, scaled to the maximum `peak`."""
    warmup = max(warmup, 1)
    return peak * min(step / warmup, math.sqrt(warmup / step))


def cosine(step: int, peak: float, warmup: int, max_steps: int) -> float:
    """A linear rise to `peak`, then peak · (1 + cos πt) / 2, t = 0 to 1 at `max_steps` (Loshchilov & Hutter 2017)."""
    if step < warmup:
        return peak * step / warmup
    progress = min(1.0, (step - warmup) / max(1, max_steps - warmup))
    return peak * (1 + math.cos(math.pi * progress)) / 2


def linear(step: int, peak: float, warmup: int, max_steps: int) -> float:
    """A linear rise to `peak`, then a linear fall to zero at `max_steps` (Devlin et al. 2018, section A.2)."""
    if step < warmup:
        return peak * step / warmup
    return peak * max(0.0, (max_steps - step) / max(1, max_steps - warmup))


def slanted(step: int, peak: float, warmup: int, max_steps: int) -> float:
    """peak · (1 + p (RATIO - 1)) / RATIO, p rising linearly from 0 to 1 at `warmup` and falling to 0 at `max_steps`
    (Howard & Ruder 2018, equation 3: slanted triangular)."""
    return (peak + (RATIO - 1) * linear(step, peak, warmup, max_steps)) / RATIO


def constant(step: int, peak: float, warmup: int) -> float:
    """peak · min(1, step / warmup)."""
    return peak * min(1.0, step / max(warmup, 1))


def build_schedule(settings: TrainingSettings, d_model: int) -> Schedule:
    """Make the schedule of the settings; `d_model` scales the one of the paper."""
    rate, warmup = settings.learning_rate, settings.warmup
    match settings.schedule:
        case "paper":
            return partial(paper, factor=rate, d_model=d_model, warmup=warmup)
        case "inverse_sqrt":
            return partial(inverse_sqrt, peak=rate, warmup=warmup)
        case "cosine":
            return partial(cosine, peak=rate, warmup=warmup, max_steps=settings.max_steps)
        case "linear":
            return partial(linear, peak=rate, warmup=warmup, max_steps=settings.max_steps)
        case "slanted":
            return partial(slanted, peak=rate, warmup=warmup, max_steps=settings.max_steps)
        case "constant":
            return partial(constant, peak=rate, warmup=warmup)
