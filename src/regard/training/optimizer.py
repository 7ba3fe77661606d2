"""Adam as in Vaswani et al. 2017, section 5.3, and AdamW (Loshchilov & Hutter 2019) with weight decay."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from regard.training.settings import TrainingSettings


def build_optimizer(model: nn.Module, settings: TrainingSettings) -> Optimizer:
    """Make Adam, or AdamW if `weight_decay` is above zero; one fused kernel updates all parameters.

    Only matrices decay: a smaller bias or norm gain would change what the layer can express, not only the size of its
    weights. `set_rate` sets the learning rate at every step.
    """
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    betas = (settings.adam_beta1, settings.adam_beta2)
    on_gpu = bool(trainable) and trainable[0].is_cuda
    # On a GPU the learning rate is a tensor, so that a CUDA graph reads it at every replay.
    rate = torch.zeros((), device=trainable[0].device) if on_gpu else 0.0
    epsilon = settings.adam_epsilon
    if not settings.weight_decay:
        return Adam(trainable, lr=rate, betas=betas, eps=epsilon, fused=True, capturable=on_gpu)
    groups = [
        {"params": [p for p in trainable if p.dim() >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in trainable if p.dim() < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return AdamW(groups, lr=rate, betas=betas, eps=epsilon, fused=True, capturable=on_gpu)


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def clip_gradients(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Clip the gradients to the global norm `max_norm` (0: no clipping); return the norm before clipping.

    The norm also detects gradients that are not finite, so it is always computed; it stays on the device.
    """
    trainable = [parameter for parameter in parameters if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm([p.grad for p in trainable if p.grad is not None])
    if max_norm:
        torch.nn.utils.clip_grads_with_norm_(trainable, max_norm, norm)
    return norm
