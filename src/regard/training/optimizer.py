"""Adam as in Vaswani et al. 2017, section 5.3, and AdamW (Loshchilov & Hutter 2019) when weights shall decay."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from regard.training.settings import TrainingSettings


def build_optimizer(model: nn.Module, settings: TrainingSettings) -> Optimizer:
    """Adam, or AdamW when `weight_decay` is above zero; one fused kernel updates all parameters.

    Only matrices decay: a norm's gain pulled towards zero, or a bias, would change what the layer can express rather
    than how large its weights grow. The rate is set anew at every step.
    """
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    betas = (settings.adam_beta1, settings.adam_beta2)
    on_gpu = bool(learned) and learned[0].is_cuda
    # On a GPU the rate is a tensor, which a captured step reads at every replay.
    rate = torch.zeros((), device=learned[0].device) if on_gpu else 0.0
    options: dict[str, Any] = dict(betas=betas, eps=settings.adam_epsilon, fused=True, capturable=on_gpu)
    if not settings.weight_decay:
        return Adam(learned, lr=rate, **options)
    groups = [
        {"params": [p for p in learned if p.dim() >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in learned if p.dim() < 2], "weight_decay": 0.0},
    ]
    return AdamW([group for group in groups if group["params"]], lr=rate, **options)


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Use `rate` from the next step on."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def clip_gradients(parameters: Iterable[Tensor], longest: float) -> Tensor:
    """Shorten all gradients together to the global norm `longest` (0: leave them); return the norm they had.

    The norm is also how a gradient that is not finite is noticed, so it is computed either way; it stays on the device.
    """
    learned = [parameter for parameter in parameters if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm([p.grad for p in learned if p.grad is not None])
    if longest:
        torch.nn.utils.clip_grads_with_norm_(learned, longest, norm)
    return norm
