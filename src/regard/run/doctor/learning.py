"""Checks of the model: does it start where theory says, see only what it may, and can it learn at all?

B sentences, T target, V vocabulary, M real target tokens of a batch.
"""

import math
import time

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch
from regard.run.doctor.check import Check
from regard.run.doctor.patient import Patient, real
from regard.runtime import autocast
from regard.text.symbols import PAD
from regard.training.optimizer import build_optimizer, clip_gradients, set_rate

FIRST_LOSS_TOLERANCE, WIDEST_SPREAD = 1.25, 1.5
SAME = 1e-5
OVERFIT_STEPS, OVERFIT_WARMUP, OVERFIT_SECONDS = 500, 40, 30.0
OWN_DEFECT = "this is a defect of the model and not of the recipe: please report it with the recipe"


@torch.no_grad()
def check_first_loss(patient: Patient) -> Check:
    """A model that knows nothing gives every word about the same chance: a loss of ln V + 1/2.

    A normalised vector of length sqrt(D) times rows of variance 1/D gives logits of variance one, and for such logits
    E[log sum exp - one of them] = ln V + 1/2. One word is exempt: with tied embeddings the residual path carries the
    decoder's input up to the output, where its own row answers it with up to sqrt(D). That is as it should be, so the
    word just read is left out of the comparison, and so are the positions where it is asked for. Each distinct label
    brings a logit of its own, so the mean over few of them is allowed three standard deviations. The spread of the
    logits shows a wrong scale sooner than the loss does; one that is too small delays nothing and is let pass.
    """
    name = "first loss"
    model, batch = patient.new_model().eval(), patient.few()
    scores = patient.logits(model, batch)  # (M, V)
    given, wanted = batch["target"][real(batch)], batch.labels[real(batch)]
    other = given != wanted
    if other.float().mean() < 0.5:
        return Check(name, "fail", "the labels are the decoder's own input, not one word ahead of it", OWN_DEFECT)
    expected = math.log(scores.size(-1)) + 0.5
    raw = float(F.cross_entropy(scores, wanted))
    loss = float(F.cross_entropy(scores.scatter(1, given[:, None], -torch.inf)[other], wanted[other]))
    apart = torch.ones_like(scores, dtype=torch.bool).scatter(1, given[:, None], False)
    spread = float(scores[apart].std())
    finding = f"{loss:.2f} nats a token, {expected:.2f} expected of an untrained model (ln V + 1/2); "
    finding += f"logits of spread {spread:.2f}, at most {WIDEST_SPREAD} expected"
    tolerance = max(FIRST_LOSS_TOLERANCE, 3 / math.sqrt(len(wanted[other].unique())))
    if not (abs(loss - expected) < tolerance and spread < WIDEST_SPREAD):
        remedy = "weights, embeddings or labels are scaled or aligned wrongly; " + OWN_DEFECT
        return Check(name, "fail", finding, remedy)
    if raw > loss + FIRST_LOSS_TOLERANCE:
        finding += f"; the log begins at {raw:.2f}, since tied embeddings favour the word just read"
    return Check(name, "pass", finding)


@torch.no_grad()
def check_leaks(patient: Patient) -> Check:
    """What a position must not see is changed, and its scores must stay; what it must see is, and they must move."""
    name = "no leaks"
    model, batch = patient.new_model().eval(), _uneven(patient.few())
    before = patient.logits(model, batch)
    if not bool(torch.isfinite(before).all()):
        return Check(name, "fail", "the scores of an untrained model are not finite numbers", OWN_DEFECT)

    def moved(changed: Batch, rows: Tensor) -> float:
        difference = (patient.logits(model, changed) - before).abs().amax(dim=1)
        return float(difference[rows].max()) if bool(rows.any()) else 0.0

    words, size = real(batch), batch["target"].size(1)
    place = torch.arange(size, device=words.device).expand_as(words)[words]
    sentence = torch.arange(len(batch.labels), device=words.device)[:, None].expand_as(words)[words]
    leaks = {
        "later words of the target": max(
            moved(_changed(patient, batch, after=cut), place <= cut) for cut in {0, size // 2, size - 2} if cut >= 0
        ),
        "padding": moved(_padding_changed(batch), place >= 0),
        "other sentences of the batch": moved(_changed(patient, batch, row=0), sentence > 0),
    }
    blind = {
        "the source": moved(_changed(patient, batch, row=0, target=False), sentence == 0),
        "the words before": moved(_changed(patient, batch, after=-1), place >= 0),
    }
    found = [f"{what} changed a score by {by:.2g}" for what, by in leaks.items() if by > SAME]
    if found:
        remedy = "a mask lets through what it should hide: training would look splendid and translation fail; "
        return Check(name, "fail", "; ".join(found), remedy + OWN_DEFECT)
    if unseen := [what for what, by in blind.items() if by <= SAME]:
        return Check(name, "fail", f"changing {' or '.join(unseen)} changes no score: it is not looked at", OWN_DEFECT)
    return Check(name, "pass", f"scores do not depend on {', '.join(leaks)}")


def _uneven(batch: Batch) -> Batch:
    """The batch with every second sentence cut in half: no corpus is so even that padding goes unexamined."""
    lengths = [batch["source_lengths"].clone(), batch["target_lengths"].clone()]
    for length in lengths:
        length[::2] = (length[::2] // 2).clamp(min=1)
    short = batch.replaced(source_lengths=lengths[0], target_lengths=lengths[1])
    inside = torch.arange(batch["source"].size(1), device=batch["source"].device) < short["source_lengths"][:, None]
    source, target = batch["source"].where(inside, PAD), batch["target"].where(real(short), PAD)
    return short.replaced(source=source, target=target)


def _other(ids: Tensor, words: int) -> Tensor:
    """Another word for each, never a special symbol."""
    first = PAD + 3
    return (ids - first + 1).remainder(words - first) + first


def _changed(
    patient: Patient, batch: Batch, after: int | None = None, row: int | None = None, target: bool = True
) -> Batch:
    """The batch with other target words behind place `after`, or with another sentence pair in `row`."""
    src_words, tgt_words = map(len, patient.run.vocabularies)
    src, tgt = batch["source"].clone(), batch["target"].clone()
    if after is not None:
        tgt[:, after + 1 :] = _other(tgt[:, after + 1 :], tgt_words)
    if row is not None:
        src[row] = _other(src[row], src_words)
        if target:
            tgt[row] = _other(tgt[row], tgt_words)
    return batch.replaced(source=src, target=tgt)


def _padding_changed(batch: Batch) -> Batch:
    """The batch with words where padding was."""
    outside = torch.arange(batch["source"].size(1), device=batch["source"].device) >= batch["source_lengths"][:, None]
    return batch.replaced(
        source=torch.where(outside, PAD + 3, batch["source"]),
        target=torch.where(real(batch), batch["target"], PAD + 3),
    )


def check_gradients(patient: Patient) -> Check:
    """Every parameter is reached by a finite gradient that is not zero throughout, or it would never learn."""
    name = "gradients"
    model, batch = patient.new_model().train(), patient.few()
    with autocast(patient.world):
        loss = patient.task.loss(model, batch)
    (loss.sum / loss.count).backward()
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    silent = [name for name, p in learned.items() if p.grad is None or not bool(p.grad.any())]
    broken = [name for name, p in learned.items() if p.grad is not None and not bool(torch.isfinite(p.grad).all())]
    if broken:
        remedy = "write runtime.precision=fp32; if that does not help, " + OWN_DEFECT
        return Check(name, "fail", f"not a finite number in {_some(broken)}", remedy)
    if silent:
        return Check(name, "fail", f"none reaches {_some(silent)}", OWN_DEFECT)
    norm = float(clip_gradients(model.parameters(), 0.0))
    return Check(name, "pass", f"finite and not zero in all {len(learned)} parameter tensors, norm {norm:.2f}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def check_overfit(patient: Patient, seconds: float = OVERFIT_SECONDS) -> Check:
    """A model that can learn anything can learn a few sentences by heart, dropout and smoothing aside.

    A decoder that took no notice of the source could at best guess which of B sentences it is writing: B ln B nats in
    all. The loss must fall below half of that. The rate is gentler on wide and deep models, which diverge first.
    """
    name = "learns by heart"
    model, batch, task = patient.new_model(dropout=False).train(), patient.few(), patient.without_smoothing()
    settings = patient.run.recipe.model
    peak = 1e-3 * math.sqrt(512 / settings.d_model) / settings.num_layers
    bound = 0.5 * max(len(batch.labels), 2) * math.log(max(len(batch.labels), 2)) / int(batch["target_lengths"].sum())
    optimizer = build_optimizer(model, patient.run.recipe.training.model_copy(update={"weight_decay": 0.0}))
    first = loss = math.inf
    began = time.monotonic()
    for step in range(1, OVERFIT_STEPS + 1):
        with autocast(patient.world):
            result = task.loss(model, batch)
        mean = result.sum / result.count
        loss = float(mean.detach())
        first = loss if step == 1 else first
        finding = (
            f"loss of {len(batch.labels)} sentences from {first:.2f} to {loss:.3f} in {step} steps, {bound:.3f} wanted"
        )
        if loss < bound:
            return Check(name, "pass", finding)
        if time.monotonic() - began > seconds:
            remedy = "too slow here to tell: run doctor where you will train, or leave this out with --quick"
            return Check(name, "warn", finding, remedy)
        mean.backward()
        clip_gradients(model.parameters(), 1.0)
        set_rate(optimizer, peak * min(1.0, step / OVERFIT_WARMUP))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    remedy = "model.norm=pre trains more easily, and so does a smaller model; if no setting helps, " + OWN_DEFECT
    return Check(name, "fail", finding, remedy)
