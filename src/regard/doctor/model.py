"""Checks of the model: its first loss, what its outputs depend on, its gradients, and whether it learns.

B sequences, T tokens, V vocabulary, M tokens of a batch without padding.
"""

import math
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.doctor.check import MODEL_DEFECT, OTHERWISE, Check, CheckProgress
from regard.doctor.sample import DryRun
from regard.losses.crossentropy import Loss
from regard.messages import Message, join_messages
from regard.runtime import autocast
from regard.tasks.base import AnyTask, is_packed
from regard.text.symbols import PAD
from regard.training.optimizer import build_optimizer, clip_gradients, set_rate

MAX_DEVIATION, MAX_STD = 1.25, 1.5
"""Of the first loss of a causal model from theory, and the standard deviation of its logits."""
SAME = 1e-5
"""Logits that differ by less are equal."""
FIRST_REGULAR_ID = PAD + 3
"""The first token after the special symbols."""
LOSS_SAMPLES = 16
OVERFIT_STEPS, OVERFIT_WARMUP, OVERFIT_SECONDS = 500, 40, 30.0
MISALIGNED = join_messages("; ", [Message("weights, embeddings or labels are scaled or aligned wrongly"), MODEL_DEFECT])


def compute_loss(dry: DryRun, task: AnyTask, model: nn.Module, batch: Batch) -> Loss:
    with autocast(dry.world):
        return task.loss(model, batch)


@torch.no_grad()
def check_first_loss(dry: DryRun) -> Check:
    """An untrained model has the loss of a random guess."""
    if dry.causal_sequence and not dry.recipe.start_from:
        return _check_first_logits(dry)
    name, batch, model = Message("first-loss"), dry.small_batch, dry.new_model().eval()
    loss = _mean_loss(dry, model, batch)
    if not math.isfinite(loss):
        return Check(name, "fail", Message("the loss is {loss}", loss=loss), MODEL_DEFECT)
    expected = dry.task.checks.expected_loss(dry.task, batch)
    if expected is None:
        return Check(name, "pass", f"{loss:.2f}")
    values = {"loss": loss, "expected": expected.value, "formula": expected.formula}
    finding = Message("{loss:.2f}, about {expected:.2f} expected of an untrained model ({formula})", **values)
    too_low = loss < expected.value - expected.tolerance and not dry.recipe.start_from
    if too_low or loss > expected.value + expected.tolerance:
        return Check(name, "fail", finding, MISALIGNED)
    return Check(name, "pass", finding)


def _mean_loss(dry: DryRun, model: nn.Module, batch: Batch) -> float:
    """The loss per label; the mean of several if the task samples something (masks) at every call."""
    losses = []
    for _ in range(LOSS_SAMPLES):
        loss = compute_loss(dry, dry.task, model, batch)
        losses.append(float(loss.nll / loss.count))
        if len(losses) == 2 and losses[0] == losses[1]:
            break
    return sum(losses) / len(losses)


def _check_first_logits(dry: DryRun) -> Check:
    """A causal model begins with a loss of at most about ln V + 1/2.

    A normalised vector of length sqrt(D) times rows of variance 1/D gives logits of variance one, and for such logits
    E[log sum exp - one of them] = ln V + 1/2. One token is exempt: with tied embeddings the residual path carries the
    input token to the output, where its own row gives it a logit of up to sqrt(D). So the input token is left out, and
    the positions where it is the label. The mean over few distinct labels may deviate by three standard deviations.
    The standard deviation of the logits shows a wrong scale sooner than the loss; a small one does no harm.
    """
    name, batch = Message("first-loss"), dry.small_batch
    logits = decoder_logits(dry, dry.new_model().eval(), batch)  # (M, V)
    inside = not_padding(dry, batch)
    tokens, labels = batch[dry.causal_sequence][inside], batch.labels[inside]
    labelled = labels != PAD
    logits, tokens, labels = logits[labelled], tokens[labelled], labels[labelled]
    other = tokens != labels
    if other.float().mean() < 0.5:
        finding = Message("the labels are the input tokens, not the tokens after them")
        return Check(name, "fail", finding, MODEL_DEFECT)
    expected, raw = math.log(logits.size(-1)) + 0.5, float(F.cross_entropy(logits, labels))
    loss = float(F.cross_entropy(logits.scatter(1, tokens[:, None], -torch.inf)[other], labels[other]))
    std = float(logits[torch.ones_like(logits, dtype=torch.bool).scatter(1, tokens[:, None], False)].std())
    spread = Message("standard deviation of the logits {std:.2f}, at most {limit} expected", std=std, limit=MAX_STD)
    values = {"loss": loss, "expected": expected, "spread": spread}
    finding = Message("{loss:.2f} nats per token, {expected:.2f} expected untrained (ln V + 1/2); {spread}", **values)
    tolerance = max(MAX_DEVIATION, 3 / math.sqrt(len(labels[other].unique())))
    if not (abs(loss - expected) < tolerance and std < MAX_STD):
        if not dry.recipe.model.normalises_output:
            remedy = Message("without layer norm this is not a defect; mind the learning rate")
            return Check(name, "warn", finding, remedy)
        return Check(name, "fail", finding, MISALIGNED)
    if raw > loss + MAX_DEVIATION:
        first = Message("the log begins at {loss:.2f}, because tied embeddings prefer the input token", loss=raw)
        finding = join_messages("; ", [finding, first])
    return Check(name, "pass", finding)


def decoder_logits(dry: DryRun, model: nn.Module, batch: Batch) -> Tensor:
    """Logits (M, V) of all tokens, computed as in training."""
    with autocast(dry.world):
        return dry.task.checks.decoder_logits(model, batch, is_packed(dry.task, dry.world)).float()


def not_padding(dry: DryRun, batch: Batch, sequence: str = "") -> Tensor:
    """(B, T): True for tokens or frames, False for padding."""
    name = sequence or dry.causal_sequence
    positions = torch.arange(batch[name].size(1), device=batch[name].device).expand(batch[name].shape[:2])
    return positions < batch[f"{name}_lengths"][:, None] if f"{name}_lengths" in batch.tensors else positions >= 0


def _fill_padding(dry: DryRun, batch: Batch, name: str, value: int) -> Tensor:
    """A sequence of the batch with `value` in place of its padding."""
    inside = not_padding(dry, batch, name)
    return batch[name].where(inside if batch[name].dim() == 2 else inside[..., None], value)


@torch.no_grad()
def check_leaks(dry: DryRun) -> Check:
    """Logits depend on nothing they must not depend on (later tokens, padding, other sequences), and on the input."""
    name, causal = Message("leaks"), dry.causal_sequence
    model, batch = dry.new_model().eval(), _shorten(dry, dry.small_batch)
    before, inside = decoder_logits(dry, model, batch), not_padding(dry, batch)
    if not bool(torch.isfinite(before).all()):
        return Check(name, "fail", Message("the logits of an untrained model are not finite"), MODEL_DEFECT)

    def change(changed: Batch, selected: Tensor) -> float:
        difference = (decoder_logits(dry, model, changed) - before).abs().amax(dim=1)
        return float(difference[selected].max()) if bool(selected.any()) else 0.0

    size = batch[causal].size(1)
    position = torch.arange(size, device=inside.device).expand_as(inside)[inside]
    row = torch.arange(len(inside), device=inside.device)[:, None].expand_as(inside)[inside]
    sequences = {"source", causal}
    filled = {key: _fill_padding(dry, batch, key, FIRST_REGULAR_ID) for key in sequences}
    cuts = {0, size // 2, max(0, size - 2)}
    leaks = {
        Message("later tokens"): max(change(_replace(dry, batch, {causal}, cut), position <= cut) for cut in cuts),
        Message("padding"): change(batch.replaced(**filled), position >= 0),
        Message("other sequences of the batch"): change(_replace(dry, batch, sequences, row=0), row > 0),
    }
    inputs = {Message("earlier tokens"): change(_replace(dry, batch, {causal}, after=-1), position >= 0)}
    if causal != "source":
        inputs[Message("the source")] = change(_replace(dry, batch, {"source"}, row=0), row == 0)
    if any(difference > SAME for difference in leaks.values()):
        found = [(cause, by) for cause, by in leaks.items() if by > SAME]
        changes = (Message("{cause} change a logit by {by:.2g}", cause=cause, by=by) for cause, by in found)
        mask = Message("an attention mask is wrong: the training loss would be good and the outputs bad")
        return Check(name, "fail", join_messages("; ", changes), join_messages("; ", [mask, MODEL_DEFECT]))
    ignored = [cause for cause, difference in inputs.items() if difference <= SAME]
    causes = join_messages(", ", ignored or leaks)
    finding = Message("logits do not depend on {causes}", causes=causes)
    return Check(name, "fail", finding, MODEL_DEFECT) if ignored else Check(name, "pass", finding)


def _shorten(dry: DryRun, batch: Batch) -> Batch:
    """The batch with every second sequence cut in half, so that there is padding."""
    for name in {"source", dry.causal_sequence}:
        if f"{name}_lengths" in batch.tensors:
            lengths = batch[f"{name}_lengths"].clone()
            lengths[::2] = (lengths[::2] // 2).clamp(min=1)
            batch = batch.replaced(**{f"{name}_lengths": lengths})
            batch = batch.replaced(**{name: _fill_padding(dry, batch, name, PAD)})
    return batch


def _replace(dry: DryRun, batch: Batch, sequences: set[str], after: int | None = None, row: int | None = None) -> Batch:
    """The batch with other tokens or features after position `after`, or in one `row`; no special symbols."""
    for name in sequences:
        ids = batch[name].clone()
        if ids.is_floating_point():
            other = -ids
        else:
            regular = len(dry.task.tokenizers[name]) - FIRST_REGULAR_ID
            other = (ids - FIRST_REGULAR_ID + 1).remainder(regular) + FIRST_REGULAR_ID
        if after is not None:
            ids[:, after + 1 :] = other[:, after + 1 :]
        if row is not None:
            ids[row] = other[row]
        batch = batch.replaced(**{name: ids})
    return batch


def check_gradients(dry: DryRun) -> Check:
    """Every weight gets a finite gradient that is not zero: otherwise it does not learn."""
    name, model = Message("gradients"), dry.new_model().train()
    loss = compute_loss(dry, dry.task, model, dry.small_batch)
    (loss.sum / loss.count).backward()
    trained = {key: weight for key, weight in model.named_parameters() if weight.requires_grad}
    broken = [k for k, w in trained.items() if w.grad is not None and not bool(torch.isfinite(w.grad).all())]
    exempt = dry.task.checks.weights_without_gradient
    zero = [k for k, w in trained.items() if not (w.grad is not None and w.grad.any()) and not k.startswith(exempt)]
    if broken:
        remedy = join_messages("; ", [Message("write {setting}", setting="runtime.precision=fp32"), OTHERWISE])
        return Check(name, "fail", Message("not finite in {names}", names=_first_names(broken)), remedy)
    if zero:
        return Check(name, "fail", Message("missing or zero in {names}", names=_first_names(zero)), MODEL_DEFECT)
    size, norm = sum(weight.numel() for weight in trained.values()), float(clip_gradients(model.parameters(), 0.0))
    values = {"tensors": len(trained), "size": size, "norm": norm}
    finding = Message("finite in all {tensors} tensors of {size:,} parameters, norm {norm:.2f}", **values)
    return Check(name, "pass", finding)


def _first_names(names: list[str]) -> str:
    more = [Message(" and {count} more", count=len(names) - 3)] if len(names) > 3 else []
    return join_messages("", [", ".join(names[:3]), *more])


def check_overfit(dry: DryRun, progress: CheckProgress | None = None) -> Check:
    """A model that can learn at all overfits one small batch, without dropout and label smoothing.

    The optimizer is Adam, whatever the recipe has. The learning rate is lower for wide and deep models, which diverge
    first.
    """
    name, batch, task = Message("overfit"), dry.small_batch, dry.plain_task
    model, settings = dry.new_model(plain=True).train(), dry.recipe.model
    peak = 1e-3 * math.sqrt(512 / max(1, settings.d_model)) / settings.num_layers
    optimizer = build_optimizer(model, task.recipe.training.model_copy(update={"optimizer": "adam"}))
    bound, first, began = task.checks.overfit_bound(task, batch), math.inf, time.monotonic()
    for step in range(1, OVERFIT_STEPS + 1):
        result = compute_loss(dry, task, model, batch)
        loss = float(result.nll / result.count)
        first = loss if step == 1 else first
        values = {"first": first, "loss": loss, "step": step, "bound": bound}
        finding = Message(
            "one batch: loss {first:.2f} to {loss:.3f} in {step} steps, below {bound:.3f} expected", **values
        )
        if loss < bound:
            return Check(name, "pass", finding)
        if time.monotonic() - began > OVERFIT_SECONDS:
            remedy = Message("this machine is too slow to tell: run the doctor where you will train, or use --quick")
            return Check(name, "warn", finding, remedy)
        (result.sum / result.count).backward()
        clip_gradients(model.parameters(), 1.0)
        set_rate(optimizer, peak * min(1.0, step / OVERFIT_WARMUP))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if progress is not None:
            progress(Message("steps on one batch:"), step, OVERFIT_STEPS)
    remedy = Message("check that equal inputs have equal labels; try model.norm=pre or a smaller model")
    return Check(name, "fail", finding, join_messages("; ", [remedy, OTHERWISE]))
