"""Learning-rate schedules: functions from the step, counted from 1, to the learning rate."""

import math
from collections.abc import Callable
from functools import partial

from regard.training.settings import TrainingSettings

Schedule = Callable[[int], float]


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
        case "constant":
            return partial(constant, peak=rate, warmup=warmup)
