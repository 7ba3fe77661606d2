"""Checks of device, schedule, memory, disk and time, measured on batches of the recipe."""

import os
import shutil
import time
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from regard.data.arrays import Array
from regard.data.batch import Batch, Step
from regard.doctor.check import Check, CheckProgress, Status, grade, judge
from regard.doctor.model import compute_loss
from regard.doctor.sample import DryRun, elements
from regard.kernels import kernels_available
from regard.messages import Message, format_duration, join_messages
from regard.processes import count_workers
from regard.run_files import STORES
from regard.runtime import World, seed_everything
from regard.training.advice import advise, peak_rate
from regard.training.optimizer import build_optimizer, clip_gradients, set_rate
from regard.training.settings import TrainingSettings

GIB, MIB = 1 << 30, 1 << 20
FLOAT = 4  # bytes
FULL = 0.9
"""Share of the free memory or disk that may be used."""
SLICE_ELEMENTS = 512
"""Elements of a batch that is measured on a CPU, where a whole batch takes long."""
TIMED_STEPS, TIMED_SECONDS = 20, 10.0
WARN_DAYS, FAIL_DAYS = 7, 60


def check_device(world: World) -> Check:
    """The device and its precision; a warning if a better one is not used."""
    name = Message("device")
    if world.device.type == "cuda":
        finding = f"{torch.cuda.get_device_name(world.device)}, {world.precision}"
        if world.precision == "fp32" and torch.cuda.is_bf16_supported():
            return Check(name, "warn", finding, Message("runtime.precision=bf16 is much faster on this GPU"))
        if not kernels_available():
            remedy = Message("install triton and a C compiler (gcc): batches are then packed, and layers compiled")
            finding = join_messages("; ", [finding, Message("kernels cannot be compiled")])
            return Check(name, "warn", finding, remedy)
        return Check(name, "pass", finding)
    cores, threads = count_workers(0), torch.get_num_threads()
    values = {"precision": world.precision, "threads": threads, "cores": cores}
    finding = Message("CPU, {precision}, threads: {threads}, cores: {cores}", **values)
    if torch.cuda.is_available():
        finding = join_messages("; ", [finding, Message("there is a GPU, too")])
        return Check(name, "warn", finding, Message("write {setting}", setting="runtime.device=auto"))
    remedy = Message("write {setting}", setting=f"runtime.threads={cores}")
    return judge(name, "warn" if threads > cores else "pass", finding, remedy)


def planned_steps(dry: DryRun) -> tuple[TrainingSettings, float]:
    """The settings of training in steps, and the number of steps of an epoch, extrapolated from the sample.

    If it is not known how many examples there are (--quick), an epoch is that of the examples that were read, and
    training is as long as max_steps allows.
    """
    epoch = dry.batches.steps_in_epoch(0) * dry.scale
    training = dry.recipe.training
    if not dry.survey.counted:
        training = training.model_copy(update={"max_epochs": 0.0})
    return training.in_steps(max(1, round(epoch))), epoch


def check_schedule(dry: DryRun) -> Check:
    """The warm-up ends before training does, the learning rate is usual, and the data are read once and not too often.

    If it is not known how many examples there are, the number of epochs is an upper bound and is not judged.
    """
    (settings, epoch), counted, d_model = planned_steps(dry), dry.survey.counted, dry.recipe.model.d_model
    epochs = settings.max_steps / epoch
    known = Message("{epochs:,.1f} epochs of {steps:,.0f} steps", epochs=epochs, steps=epoch)
    finding = Message(
        "{steps:,} steps, warm-up {warmup:,}, peak learning rate {rate:.2g}, {epochs}",
        steps=settings.max_steps,
        warmup=settings.warmup,
        rate=peak_rate(settings, d_model),
        epochs=known if counted else Message("fewer than {epochs:,.1f} epochs (--quick)", epochs=epochs),
    )
    warnings = advise(settings, d_model, epoch if counted else None, bool(dry.recipe.start_from))
    status: Status = "fail" if any(item.fatal for item in warnings) else "warn" if warnings else "pass"
    finding = join_messages("\n", [finding, *(item.problem for item in warnings)])
    return judge(Message("schedule"), status, finding, join_messages("\n", (item.remedy for item in warnings)))


def check_memory(dry: DryRun) -> Check:
    """Weights, gradients, optimizer state and activations of the largest batch fit into the free memory."""
    name, training, free = Message("memory"), dry.recipe.training, free_memory(dry.world)
    bounds = ("batch_tokens", "batch_examples") if training.batch_examples else ("batch_tokens",)
    now = (Message("training.{name} (now {value:,})", name=name, value=getattr(training, name)) for name in bounds)
    remedy = Message(
        "lower {batch}, or raise training.accumulation (now {count}): the same step in smaller micro-batches",
        batch=join_messages(", ", now),
        count=training.accumulation,
    )
    try:
        fixed, activations = needed_memory(dry)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        finding = Message("the largest batch does not fit into the {free} that are free", free=size_text(free))
        return Check(name, "fail", finding, remedy)
    sizes = {"fixed": size_text(fixed), "batch": size_text(activations), "free": size_text(free)}
    finding = Message("{fixed} for the model and its optimizer, {batch} for the largest batch; {free} free", **sizes)
    if fixed > FULL * free:
        remedy = Message("choose a smaller model.size or text.vocab_size, or a machine with more memory")
    return judge(name, grade(fixed + activations, FULL * free, free), finding, remedy)


def needed_memory(dry: DryRun) -> tuple[int, int]:
    """Bytes of the model and its optimizer, and bytes that the largest micro-batch needs in addition."""
    model, training = dry.new_model().train(), dry.recipe.training
    copies = 4 + bool(training.ema)  # weights, gradients, two moments, the moving average
    if dry.world.device.type == "cpu":
        copies += 3 + bool(training.ema)  # the checkpoint that is written while training goes on
    fixed = copies * FLOAT * sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    sizes = [size for _, size in dry.planned]
    step = max(range(len(sizes)), key=sizes.__getitem__)
    if dry.world.device.type == "cuda":
        return fixed, peak_on_gpu(dry, model, max(dry.batches.batch(step).micro_batches, key=elements))
    # With more accumulation the same step has smaller micro-batches of the same width. Each saved tensor has a constant
    # size, or one that is linear in the number of elements of the batch.
    rows = max(len(tensor) for tensor in dry.batches.batch(step).micro_batches[0].tensors.values() if tensor.dim() > 1)
    parts = max(1, min(sizes[step] // SLICE_ELEMENTS, rows // 2))
    slices = [_micro_batch(dry, step, number) for number in (parts, min(rows, 2 * parts))]
    saved = [np.array(saved_sizes(dry, model, batch)) for batch in slices]
    x, y = map(elements, slices)
    if x > y and len(saved[0]) == len(saved[1]):
        saved[0] = saved[0] + (saved[0] - saved[1]) / (x - y) * (sizes[step] - x)
    return fixed, activation_bytes(saved[0])


def activation_bytes(sizes: Array) -> int:
    """Bytes of the saved tensors, and two more of the largest, the logits: they have gradients too."""
    return int(sizes.sum() + 2 * sizes.max(initial=0))


def _micro_batch(dry: DryRun, step: int, parts: int) -> Batch:
    """The largest micro-batch of a step with `parts` times as much accumulation."""
    training = dry.recipe.training
    more = training.model_copy(update={"accumulation": parts * training.accumulation})
    task = replace(dry.task, recipe=dry.recipe.model_copy(update={"training": more}))
    return max(task.batches(dry.store, dry.world).batch(step).micro_batches, key=elements)


def saved_sizes(dry: DryRun, model: nn.Module, batch: Batch) -> list[int]:
    """Bytes of every tensor that a forward pass saves for the backward pass."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    saved: dict[int, int] = {}

    def record(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(record, lambda tensor: tensor):
        loss = compute_loss(dry, dry.task, model, batch)
    sizes = list(saved.values())
    del loss  # until here it holds the saved tensors, so that no memory is used twice and counted once
    return sizes


def peak_on_gpu(dry: DryRun, model: nn.Module, batch: Batch) -> int:
    """The peak of a forward and backward pass without the gradients themselves.

    With accumulation there is a second pass, which has the gradients of the first one in memory.
    """
    device = dry.world.device
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    batch = batch.to(device)
    for _ in range(min(2, dry.recipe.training.accumulation)):
        compute_loss(dry, dry.task, model, batch).sum.backward()
    gradients = FLOAT * sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    return max(0, torch.cuda.max_memory_allocated(device) - before - gradients)


def free_memory(world: World) -> int:
    """Free bytes: of the GPU, or of the machine within the limits of its container."""
    if world.device.type == "cuda":
        return int(torch.cuda.mem_get_info(world.device)[0]) + torch.cuda.memory_reserved(world.device)
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    meminfo, group = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
    if meminfo.exists():
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
        free = int(fields["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in fields else free
    limits = [group / name for name in ("memory.max", "memory.current")]
    if all(path.exists() for path in limits):
        maximum, used = (path.read_text().strip() for path in limits)
        free = min(free, int(maximum) - int(used)) if maximum.isdigit() else free
    return free


def check_disk(dry: DryRun, model: nn.Module, folder: Path) -> Check:
    """The checkpoints (the newest, the best and the one being written) and the tokenised data fit on the disk."""
    training, directly = dry.recipe.training, not any(weight.requires_grad for weight in model.parameters())
    copies = 1 if directly else 3 + bool(training.ema)  # weights, two moments, the moving average
    checkpoint = copies * sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    checkpoints = 1 if directly else training.keep + 2
    stored = sum(path.stat().st_size for path in (dry.run.folder / STORES).rglob("*") if path.is_file())
    stored = int(stored * dry.scale)
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    values = {"count": checkpoints, "size": size_text(checkpoint), "data": size_text(stored), "free": size_text(free)}
    needed = Message("{count} checkpoints of {size} and {data} of tokenised data; {free} free", **values)
    finding = Message("{needed} at {folder}", needed=needed, folder=existing)
    remedy = Message("free some space, lower training.keep, or choose another --folder FOLDER")
    return judge(Message("disk"), grade(checkpoints * checkpoint + stored, FULL * free, free), finding, remedy)


def check_time(dry: DryRun, progress: CheckProgress | None = None) -> Check:
    """The duration of the training without validations, estimated from a few steps."""
    name, minutes, steps = Message("time"), dry.recipe.training.max_minutes, planned_steps(dry)[0].max_steps
    seconds, tokens = time_steps(dry, progress)
    total = steps * seconds
    values = {"duration": format_duration(total), "steps": steps, "speed": tokens / seconds}
    finding = Message("{duration} for {steps:,} steps, {speed:,.0f} tokens/s, without validations", **values)
    if 0 < 60 * minutes < total:
        finding = join_messages("; ", [finding, Message("max_minutes ends it earlier")])
        values = {"steps": int(60 * minutes / seconds), "minutes": minutes}
        remedy = Message("expect about {steps:,} steps, or raise training.max_minutes (now {minutes:g})", **values)
        return Check(name, "warn", finding, remedy)
    faster = Message("train on a GPU, or choose a smaller model.size or fewer steps")
    return judge(name, grade(total / 86_400, WARN_DAYS, FAIL_DAYS), finding, faster)


def time_steps(dry: DryRun, progress: CheckProgress | None = None) -> tuple[float, float]:
    """Seconds and tokens of an average step. The first one does not count: it compiles kernels and allocates memory."""
    model = dry.new_model().train()
    optimizer = build_optimizer(model, dry.recipe.training)
    set_rate(optimizer, 1e-9)
    average = sum(tokens for tokens, _ in dry.planned) / len(dry.planned)
    steps = (dry.batches.batch(number % len(dry.planned)) for number in count())
    usual = (step for step in steps if step.tokens >= average / 2)  # the last step of an epoch is often small
    seconds, tokens = [], []
    for number, step in enumerate(islice(usual, 1 + TIMED_STEPS)):
        seconds.append(train_step(dry, model, optimizer, step))
        tokens.append(step.tokens)
        if progress is not None:
            progress(Message("steps timed:"), number + 1, 1 + TIMED_STEPS)
        if sum(seconds) > TIMED_SECONDS:
            break
    first = 1 if len(seconds) > 1 else 0
    return max(sum(seconds[first:]) / sum(tokens[first:]) * average, 1e-9), average


def train_step(dry: DryRun, model: nn.Module, optimizer: torch.optim.Optimizer, step: Step) -> float:
    """Train one step as the training loop does; return its seconds."""
    seed_everything(dry.world.seed, "step", 0)
    synchronize(dry.world)
    began = time.perf_counter()
    for batch in step.micro_batches:
        loss = compute_loss(dry, dry.task, model, batch.to(dry.world.device))
        (loss.sum / max(1, step.count)).backward()
    clip_gradients(model.parameters(), dry.recipe.training.clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    synchronize(dry.world)
    return time.perf_counter() - began


def synchronize(world: World) -> None:
    if world.device.type == "cuda":
        torch.cuda.synchronize(world.device)


def size_text(size: float) -> str:
    """A number of bytes, for people."""
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / MIB:.0f} MiB"
