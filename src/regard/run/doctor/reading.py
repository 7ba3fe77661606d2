"""Checks of a model that reads: does it start where theory says, does everything learn, can it, and what does it cost?

What differs between pretraining and the tasks of understanding is in the patient, which each of them brings.
"""

import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch

from regard.run.doctor.check import Check, Status, guarded
from regard.run.doctor.costs import TIGHT, clock, free_memory, measured_on_gpu, saved_bytes, sized, train_step
from regard.run.doctor.learning import OVERFIT_SECONDS, OVERFIT_STEPS, OVERFIT_WARMUP, OWN_DEFECT
from regard.run.doctor.patient import without_dropout
from regard.run.doctor.texts import PIECES_PER_WORD
from regard.runtime import World, autocast, seed_everything
from regard.text.bert import BertTokenizer
from regard.training.optimizer import build_optimizer, clip_gradients, set_rate

FIRST_LOSS_TOLERANCE = 0.7
BY_HEART = 0.25  # of the loss of the best guess
UNKNOWN_A_LOT, UNKNOWN_TOO_MUCH = 0.02, 0.2
FLOAT = 4  # bytes
SLICE = 4  # inputs that are measured on a CPU, where all of a batch would take long
TIMED_STEPS, TIMED_SECONDS = 8, 10.0
LONG_DAYS = 7


@dataclass(frozen=True)
class ReaderPatient(ABC):
    """A run in a temporary folder, on a sample that is this share of the recipe's data."""

    run: Any
    world: World
    share: float

    @cached_property
    def task(self) -> Any:
        return self.run.task()

    @abstractmethod
    def few(self) -> Any:
        """A batch to be learnt by heart."""

    @abstractmethod
    def longest(self, count: int) -> Any:
        """A batch of so many of the longest inputs."""

    @property
    @abstractmethod
    def full(self) -> int:
        """Inputs of the largest batch one process computes at once."""

    @abstractmethod
    def expected(self, batch: Any) -> tuple[float, str]:
        """The loss of a model that knows nothing, and why it is that; infinite where nothing can be said."""

    @abstractmethod
    def guessed(self, batch: Any) -> float:
        """The least loss of a model that reads nothing and knows how often each answer is right."""

    @property
    @abstractmethod
    def steps(self) -> tuple[int, float]:
        """After how many steps training ends, and the steps of an epoch of all data."""

    @property
    def unasked(self) -> tuple[str, ...]:
        """How weights begin that nothing is asked of."""
        return ()

    def new_model(self, dropout: bool = True) -> Any:
        """The model as training begins with it; without dropout the same weights."""
        run = self.run if dropout else without_dropout(self.run)
        seed_everything(run.recipe.runtime.seed, "weights")
        return run.first_model().to(self.world.device)


def examine_reader(patient: ReaderPatient, quick: bool) -> Iterator[Check]:
    """Everything about the model, its training and its costs."""
    for name, check in (
        ("first loss", check_first_loss),
        ("gradients", check_gradients),
        ("schedule", check_schedule),
        ("memory", check_memory),
    ):
        yield guarded(name, partial(check, patient))
    for name, slow in (("learns by heart", check_overfit), ("time", check_time)):
        skipped = Check(name, "skip", "takes a while; ask without --quick")
        yield skipped if quick else guarded(name, partial(slow, patient))


def check_pieces(vocabulary: BertTokenizer, texts: Iterable[str], started: bool) -> Check:
    """Words are written with few pieces, and hardly any is unknown; measured on text held out."""
    name, cut = "vocabulary", [vocabulary.tokenize(text) for text in texts]
    pieces, words = sum(map(len, cut)), max(1, sum(len(set(each.words)) for each in cut))
    unknown = sum(each.ids.count(vocabulary.unk) for each in cut) / words
    finding = f"{len(vocabulary):,} pieces; {pieces / words:.2f} a word, {unknown:.1%} of words are [UNK]"
    larger = "start from another run" if started else "raise text.vocab_size"
    if unknown > UNKNOWN_A_LOT:
        remedy = f"are all texts in the same language and script? If so, {larger}"
        return Check(name, "fail" if unknown > UNKNOWN_TOO_MUCH else "warn", finding, remedy)
    if pieces / words > PIECES_PER_WORD:
        return Check(name, "warn", finding, f"texts become long: {larger}")
    return Check(name, "pass", finding)


def entropy(labels: Iterable[float]) -> float:
    """-sum_k p_k ln p_k over the shares p of the labels."""
    counts = Counter(labels)
    return -sum(count / counts.total() * math.log(count / counts.total()) for count in counts.values())


def computed(patient: ReaderPatient, model: Any, batch: Any) -> Any:
    """The loss as in training."""
    with autocast(patient.world):
        return patient.task.loss(model, batch)


@torch.no_grad()
def check_first_loss(patient: ReaderPatient) -> Check:
    """A head that knows nothing gives everything about the same chance; one that was learnt already may know more."""
    name, batch = "first loss", patient.few()
    loss = computed(patient, patient.new_model().eval(), batch)
    first, (expected, why) = float(loss.nll / loss.count), patient.expected(batch)
    if not math.isfinite(first):
        return Check(name, "fail", "it is not a finite number", OWN_DEFECT)
    if not math.isfinite(expected):
        return Check(name, "pass", f"{first:.2f} ({why})")
    finding = f"{first:.2f} nats, about {expected:.2f} expected of a model that knows nothing ({why})"
    known = first < expected - FIRST_LOSS_TOLERANCE and not patient.run.recipe.start_from
    if first > expected + FIRST_LOSS_TOLERANCE or known:
        return Check(name, "fail", finding, "weights or labels are scaled or aligned wrongly; " + OWN_DEFECT)
    return Check(name, "pass", finding)


def check_gradients(patient: ReaderPatient) -> Check:
    """Every weight that learns is reached by a finite gradient that is not zero throughout."""
    name, model = "gradients", patient.new_model().train()
    loss = computed(patient, model, patient.few())
    (loss.sum / loss.count).backward()
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    asked = {name: p for name, p in learned.items() if not name.startswith(patient.unasked or "-")}
    broken = [name for name, p in learned.items() if p.grad is not None and not bool(torch.isfinite(p.grad).all())]
    silent = [name for name, p in asked.items() if p.grad is None or not bool(p.grad.any())]
    if broken:
        remedy = "write runtime.precision=fp32; if that does not help, " + OWN_DEFECT
        return Check(name, "fail", f"not a finite number in {', '.join(broken[:3])}", remedy)
    if silent:
        return Check(name, "fail", f"none reaches {', '.join(silent[:3])}", OWN_DEFECT)
    size = sum(p.numel() for p in model.parameters())
    return Check(name, "pass", f"finite and not zero in all {len(asked)} tensors that are asked, {size:,} parameters")


def check_schedule(patient: ReaderPatient) -> Check:
    """The learning rate reaches its height before training ends."""
    steps, epoch = patient.steps
    training = patient.run.recipe.training
    warmup = training.warmup or round(getattr(training, "warmup_share", 0.0) * steps)
    finding = f"{steps:,} steps, {steps / epoch:.1f} epochs of {epoch:,.0f} steps, warm-up {warmup:,}"
    if warmup >= steps:
        remedy = f"the rate never reaches its height: write training.warmup={max(1, steps // 10)}, or train longer"
        return Check("schedule", "fail", finding, remedy)
    return Check("schedule", "pass", finding)


def check_memory(patient: ReaderPatient) -> Check:
    """Weights, gradients, moments and the activations of the largest batch, against the memory there is."""
    training, free = patient.run.recipe.training, free_memory(patient.world)
    model = patient.new_model().train()
    kept = (4 + bool(training.ema)) * FLOAT * sum(p.numel() for p in model.parameters() if p.requires_grad)
    if patient.world.device.type == "cuda":
        working = measured_on_gpu(patient, model, patient.longest(patient.full))
    else:
        count = min(SLICE, patient.full)
        working = saved_bytes(patient, model, patient.longest(count)) * patient.full // count
    finding = f"{sized(kept)} for the model and its optimizer, {sized(working)} for the largest batch; "
    need = kept + working
    status: Status = "fail" if need > free else "warn" if need > TIGHT * free else "pass"
    remedy = "raise training.accumulation: the same step in more, smaller parts; or lower data.max_length"
    return Check("memory", status, finding + f"{sized(free)} free", "" if status == "pass" else remedy)


def check_overfit(patient: ReaderPatient, seconds: float = OVERFIT_SECONDS) -> Check:
    """A model that can learn anything can learn a few examples by heart, dropout aside: much better than guessing."""
    name, batch, settings = "learns by heart", patient.few(), patient.run.recipe.model
    model = patient.new_model(dropout=False).train()
    peak = 1e-3 * math.sqrt(512 / settings.d_model) / settings.num_layers
    optimizer = build_optimizer(model, patient.run.recipe.training.model_copy(update={"weight_decay": 0.0}))
    bound, first, began = BY_HEART * patient.guessed(batch), math.inf, time.monotonic()
    for step in range(1, OVERFIT_STEPS + 1):
        result = computed(patient, model, batch)
        mean = float(result.nll / result.count)
        first = mean if step == 1 else first
        finding = f"loss of a few examples from {first:.2f} to {mean:.3f} in {step} steps, "
        finding += f"{bound:.3f} wanted"
        if mean < bound:
            return Check(name, "pass", finding)
        if time.monotonic() - began > seconds:
            remedy = "too slow here to tell: run doctor where you will train, or leave this out with --quick"
            return Check(name, "warn", finding, remedy)
        (result.sum / result.count).backward()
        clip_gradients(model.parameters(), 1.0)
        set_rate(optimizer, peak * min(1.0, step / OVERFIT_WARMUP))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    remedy = "do equal texts have different labels? Else try a smaller model; if no setting helps, " + OWN_DEFECT
    return Check(name, "fail", finding, remedy)


def check_time(patient: ReaderPatient) -> Check:
    """How long training will take, validation aside, from a few real steps; the first one finds its memory."""
    model = patient.new_model().train()
    optimizer = build_optimizer(model, patient.run.recipe.training)
    set_rate(optimizer, 1e-9)
    batches, seconds = patient.run.batches(patient.world), []
    for number in range(1 + TIMED_STEPS):
        seconds.append(train_step(patient, model, optimizer, batches.batch(number)))
        if sum(seconds) > TIMED_SECONDS:
            break
    timed, (steps, _) = seconds[1:] or seconds, patient.steps
    total = steps * sum(timed) / len(timed)
    finding = f"{clock(total)} (h:mm) for {steps:,} steps, {len(timed) / sum(timed):.1f} steps/s, validation aside"
    if total > LONG_DAYS * 86_400:
        return Check("time", "warn", finding, "train on a GPU, or a smaller model, or less")
    return Check("time", "pass", finding)
