"""Warnings before training: settings that are valid and still unlikely to work."""

import math
from typing import NamedTuple

from regard.messages import Message
from regard.training.optimizer import build_schedule
from regard.training.settings import TrainingSettings

MAX_RATE, MAX_FINE_TUNING_RATE = 0.2, 0.03
"""Of the peak learning rate times sqrt(d_model): 0.016 for the schedule of Vaswani et al. 2017, 0.064 for recipes of
small models here; from trained weights 0.0014 for BERT."""
MIN_RATE = 1e-4
"""Of the peak learning rate of a model with random weights."""
MAX_EPOCHS, USUAL_EPOCHS = 300, 50


class Advice(NamedTuple):
    """Something that is unlikely to work, and its remedy."""

    problem: str
    remedy: str
    fatal: bool = False
    """True if the model cannot learn."""


def advise(settings: TrainingSettings, d_model: int, epoch: float | None, fine_tuning: bool) -> list[Advice]:
    """Warnings about warm-up, learning rate and number of epochs. `settings` are in steps (`in_steps`), `epoch` is the
    number of steps of an epoch if it is known, and `fine_tuning` is True if the weights are those of another run."""
    warnings = [
        _warmup(settings),
        _rate(settings, d_model, fine_tuning) if settings.optimizer == "adam" else None,
        None if epoch is None else _epochs(settings, epoch),
    ]
    return [advice for advice in warnings if advice is not None]


def peak_rate(settings: TrainingSettings, d_model: int) -> float:
    """The highest learning rate that training reaches."""
    return build_schedule(settings, d_model)(min(max(1, settings.warmup), settings.max_steps))


def _warmup(settings: TrainingSettings) -> Advice | None:
    steps, warmup = settings.max_steps, settings.warmup
    values, shorter = {"warmup": warmup, "steps": steps}, f"training.warmup={max(1, steps // 10)}"
    if warmup >= steps:
        problem = Message("the warm-up of {warmup:,} steps does not end within the {steps:,} training steps", **values)
        return Advice(problem, Message("write {setting}, or train longer", setting=shorter), fatal=True)
    if warmup > steps / 2:
        problem = Message("the warm-up of {warmup:,} steps is most of the training of {steps:,} steps", **values)
        return Advice(problem, Message("write {setting}", setting=shorter))
    return None


def _rate(settings: TrainingSettings, d_model: int, fine_tuning: bool) -> Advice | None:
    peak = peak_rate(settings, d_model)
    highest = (MAX_FINE_TUNING_RATE if fine_tuning else MAX_RATE) / math.sqrt(max(1, d_model))
    values, of_paper = {"peak": peak, "limit": highest}, settings.schedule == "paper"
    if peak > highest:
        usual = f"training.learning_rate={1 if of_paper else highest / 10:.1g}"
        problem = Message("the learning rate rises to {peak:.2g}; above {limit:.2g} most runs diverge", **values)
        longer = Message("write {setting} or a longer training.warmup", setting=usual)
        return Advice(problem, longer if of_paper else Message("write {setting}", setting=usual))
    if peak < MIN_RATE and not fine_tuning and settings.warmup < settings.max_steps:
        problem = Message("the learning rate rises to {peak:.2g} only, too low from random weights", peak=peak)
        larger, usual = Message("try a larger training.learning_rate"), "training.learning_rate=0.0005"
        return Advice(problem, larger if of_paper else Message("write {setting}", setting=usual))
    return None


def _epochs(settings: TrainingSettings, epoch: float) -> Advice | None:
    values = {"steps": settings.max_steps, "epochs": (epochs := settings.max_steps / epoch)}
    if epochs < 1:
        problem = Message("{steps:,} steps are {epochs:.2f} epochs: some of the training data are never read", **values)
        return Advice(problem, Message("write training.max_steps={steps} or more", steps=math.ceil(epoch)))
    if epochs > MAX_EPOCHS and not settings.patience:
        problem = Message("{steps:,} steps are {epochs:,.0f} epochs: the model will memorise the data", **values)
        fewer = {"setting": f"training.max_epochs={USUAL_EPOCHS}", "steps": round(USUAL_EPOCHS * epoch)}
        remedy = Message("write {setting} ({steps:,} steps), or training.patience=5 to stop early", **fewer)
        return Advice(problem, remedy)
    return None
