"""Warnings before training: settings that are valid and still unlikely to work."""

import math
import statistics
from typing import NamedTuple

from regard.messages import Message, join_messages
from regard.training.optimizer import build_schedule
from regard.training.settings import TrainingSettings

MAX_RATE, MAX_FINE_TUNING_RATE = 0.2, 0.03
"""Of the peak learning rate times sqrt(d_model): 0.016 for the schedule of Vaswani et al. 2017, 0.064 for recipes of
small models here; from trained weights 0.0014 for BERT."""
MIN_RATE = 1e-4
"""Of the peak learning rate of a model with random weights."""
MAX_EPOCHS, USUAL_EPOCHS = 300, 50
LIKELY = 8
"""A learning rate above this part of MAX_RATE is the likely reason of a training that learns nothing."""
RISE, MIN_RISE, EXPLODED, USUAL_LINES = 0.25, 0.5, 100, 5
"""A loss diverges if it rises by this share of the lowest one, and by this many nats; a gradient norm explodes if it is
this many times the median of this many lines before it."""


class Advice(NamedTuple):
    """Something that is unlikely to work, and its remedy."""

    problem: str
    remedy: str
    fatal: bool = False
    """True if the model cannot learn."""


def advise(settings: TrainingSettings, d_model: int, epoch: float | None, fine_tuning: bool) -> list[Advice]:
    """Warnings about warm-up, learning rate and number of epochs.

    `settings` are in steps (`in_steps`), `epoch` is the number of steps of an epoch if it is known, and `fine_tuning`
    is True if the weights are those of another run.
    """
    warnings = [
        _warmup(settings),
        _rate(settings, d_model, fine_tuning) if settings.optimizer == "adam" else None,
        None if epoch is None else _epochs(settings, epoch),
    ]
    return [advice for advice in warnings if advice is not None]


class LossWatch:
    """Says when a training loss diverges or a gradient norm explodes, once for each time it happens."""

    def __init__(self) -> None:
        self._lowest, self._norms, self._high = math.inf, list[float](), 0

    def add(self, nll: float, norm: float) -> Message | None:
        """Add a log line; return a warning if it is the second far above the lowest loss, or has a huge gradient."""
        usual = statistics.median(self._norms[-USUAL_LINES:]) if len(self._norms) >= USUAL_LINES else math.inf
        self._norms.append(norm)
        self._high = self._high + 1 if nll > self._lowest + max(MIN_RISE, RISE * self._lowest) else 0
        self._lowest = min(self._lowest, nll)
        if self._high == 2:
            values = {"nll": nll, "lowest": self._lowest}
            return Message("the training loss diverges: nll {nll:.4g} after {lowest:.4g}", **values)
        if norm > EXPLODED * usual:
            return Message("the gradient norm explodes: {norm:.3g} after {usual:.3g}", norm=norm, usual=usual)
        return None


def not_learning(settings: TrainingSettings, d_model: int, post_norm: bool) -> str:
    """What to try if a model learns nothing, the likely reason first. `settings` are in steps."""
    peak, width = peak_rate(settings, d_model), math.sqrt(max(1, d_model))
    rates = Message("a lower training.learning_rate (it rises to {peak:.2g})", peak=peak)
    higher = Message("a higher training.learning_rate (it rises to {peak:.2g} only)", peak=peak)
    tries = [rates] if settings.optimizer == "adam" and peak > MAX_RATE / LIKELY / width else []
    tries += [higher] if settings.optimizer == "adam" and peak < MIN_RATE else []
    if post_norm:
        tries += [Message('a longer training.warmup, or model.norm = "pre"')]
    tries += [] if tries else [rates]
    check = Message("check with `regard doctor` that targets or labels belong to their inputs")
    return Message("try {tries}; {check}", tries=join_messages(", ", tries), check=check)


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
