"""Checks of the means: device, memory, disk and time, measured on the recipe's own worst batch and first steps."""

import os
import shutil
import time
from itertools import count, islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from regard.data.arrays import Array
from regard.data.batch import Batch
from regard.data.parallel import count_workers
from regard.data.planning import groups_by_length
from regard.kernels import kernels_available
from regard.recipe import Recipe
from regard.run.doctor.check import Check, Status
from regard.run.doctor.patient import Patient
from regard.runtime import World, autocast, seed_everything
from regard.training.optimizer import build_optimizer, clip_gradients, set_rate

GIB = 1 << 30
FLOAT = 4  # bytes
TIGHT = 0.9
SLICE_TOKENS = 256
TIMED_STEPS, TIMED_SECONDS = 20, 10.0
LONG_DAYS, ENDLESS_DAYS = 7, 60


class Examined(Protocol):
    """What is asked of a patient, whatever its task."""

    @property
    def run(self) -> Any: ...

    @property
    def world(self) -> World: ...

    @property
    def task(self) -> Any: ...


def check_device(recipe: Recipe, world: World) -> Check:
    """What will compute, and whether something better stands beside it unused."""
    name = "device"
    if world.device.type == "cuda":
        finding = f"{torch.cuda.get_device_name(world.device)}, {world.precision}"
        if world.precision == "fp32" and torch.cuda.is_bf16_supported():
            return Check(name, "warn", finding, "runtime.precision=bf16 is much faster on this GPU")
        if not kernels_available():
            remedy = "install triton and a C compiler (gcc): batches are then packed, and the layers compiled"
            return Check(name, "warn", f"{finding}; no kernel can be compiled here", remedy)
        return Check(name, "pass", finding)
    cores, threads = count_workers(0), torch.get_num_threads()
    finding = f"CPU, {world.precision}, {threads} thread{'s' * (threads != 1)} on {cores} core{'s' * (cores != 1)}"
    if torch.cuda.is_available():
        return Check(name, "warn", f"{finding}, while there is a GPU", "write runtime.device=auto")
    if threads > cores:
        return Check(name, "warn", f"{finding}: they hinder each other", f"write runtime.threads={cores}")
    return Check(name, "pass", finding)


def check_memory(patient: Patient) -> Check:
    """Weights, gradients, moments and the activations of the worst batch, against the memory there is."""
    name, training = "memory", patient.run.recipe.training
    free = free_memory(patient.world)
    remedy = f"lower training.batch_tokens (now {training.batch_tokens:,}), or raise training.accumulation (now "
    remedy += f"{training.accumulation}): the same step in more, smaller parts"
    try:
        kept, working = needed_memory(patient)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return Check(name, "fail", f"the worst batch does not fit into the {sized(free)} that are free", remedy)
    finding = f"{sized(kept)} for the model and its optimizer, {sized(working)} for the worst batch; {sized(free)} free"
    need = kept + working
    status: Status = "fail" if need > free else "warn" if need > TIGHT * free else "pass"
    if kept > TIGHT * free:
        remedy = "a smaller model.size or text.vocab_size, or a machine with more memory"
    return Check(name, status, finding, "" if status == "pass" else remedy)


def needed_memory(patient: Patient) -> tuple[int, int]:
    """Bytes that stay, and bytes one micro-batch needs for a while."""
    model, training = patient.new_model().train(), patient.run.recipe.training
    copies = 4 + bool(training.ema)  # weights, gradients, two moments, the moving average
    kept = copies * FLOAT * sum(p.numel() for p in model.parameters() if p.requires_grad)
    worst = _worst_examples(patient)
    if patient.world.device.type == "cuda":
        return kept, measured_on_gpu(patient, model, _batch(patient, worst))
    few = worst[: max(1, SLICE_TOKENS // int(patient.examples.tgt_lengths[worst].max()))]
    half = few[: max(1, len(few) // 2)]
    large, small = (saved_bytes(patient, model, _batch(patient, part)) for part in (few, half))
    # All sentences of a batch are padded alike: beside what does not depend on them, each needs the same.
    each = (large - small) / (len(few) - len(half)) if len(few) > 1 else large
    return kept, int(large + each * (len(worst) - len(few)))


def _worst_examples(patient: Patient) -> Array:
    """One process's part of the fullest batch that can be planned; of equals the one with the longest sentences."""
    training, pairs = patient.run.recipe.training, patient.examples
    longer = np.maximum(pairs.src_lengths, pairs.tgt_lengths)
    plan = [np.array(group) for group in groups_by_length(longer.tolist(), training.batch_tokens)]
    full = [len(batch) * int(pairs.src_lengths[batch].max() + pairs.tgt_lengths[batch].max()) for batch in plan]
    return plan[int(np.argmax(full))][:: patient.world.size * training.accumulation]


def _batch(patient: Patient, indices: Array) -> Batch:
    return patient.examples.pad(indices).to(patient.world.device)


def saved_bytes(patient: Examined, model: torch.nn.Module, batch: Any) -> int:
    """What a forward pass keeps for the backward pass, and the gradients of its largest tensor, the scores."""
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    seen: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor), autocast(patient.world):
        loss = patient.task.loss(model, batch)
    total = sum(seen.values()) + 2 * max(seen.values(), default=0)
    del loss  # up to here it held what was saved, so that no memory was used twice and counted once
    return total


def measured_on_gpu(patient: Examined, model: torch.nn.Module, batch: Any) -> int:
    """The peak of a real forward and backward pass, the gradients themselves aside.

    With accumulation a second pass counts too: it finds the gradients of the first already there.
    """
    torch.cuda.reset_peak_memory_stats(patient.world.device)
    before = torch.cuda.memory_allocated(patient.world.device)
    for _ in range(min(2, patient.run.recipe.training.accumulation)):
        with autocast(patient.world):
            loss = patient.task.loss(model, batch)
        loss.sum.backward()
    gradients = FLOAT * sum(p.numel() for p in model.parameters() if p.requires_grad)
    return max(0, torch.cuda.max_memory_allocated(patient.world.device) - before - gradients)


def free_memory(world: World) -> int:
    """Bytes that can be had: on the GPU, or of the machine within the bounds of a container."""
    if world.device.type == "cuda":
        return int(torch.cuda.mem_get_info(world.device)[0]) + torch.cuda.memory_reserved(world.device)
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    meminfo, group = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
    if meminfo.exists():
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
        free = int(fields["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in fields else free
    bounds = [group / name for name in ("memory.max", "memory.current")]
    if all(path.exists() for path in bounds):
        most, used = (path.read_text().strip() for path in bounds)
        free = min(free, int(most) - int(used)) if most.isdigit() else free
    return free


def check_disk(patient: Patient, folder: Path) -> Check:
    """Room for the checkpoints that are kept, the best, the one being written, and the tokenised pairs."""
    training, store = patient.run.recipe.training, patient.store
    with torch.device("meta"):
        parameters = sum(p.numel() for p in patient.run.new_model().parameters())
    checkpoint = (3 + bool(training.ema)) * FLOAT * parameters
    tokens = int(store.src_lengths.sum() + store.tgt_lengths.sum())
    width = 2 if max(map(len, patient.run.vocabularies)) <= 1 << 16 else 4
    stored = int((tokens * width / len(store) + 24) * patient.kept_pairs)
    need = (training.keep + 2) * checkpoint + stored
    place = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(place).free
    finding = f"{training.keep + 2} checkpoints of {sized(checkpoint)} and {sized(stored)} of pairs; "
    finding += f"{sized(free)} free at {place}"
    if need > free:
        return Check("disk", "fail", finding, "free some space, lower training.keep, or choose another --folder FOLDER")
    return Check(
        "disk", "warn" if need > TIGHT * free else "pass", finding, "" if need <= TIGHT * free else "it is tight"
    )


def planned_steps(patient: Patient) -> tuple[int, float]:
    """After how many steps training ends, max_minutes and patience aside, and the steps of an epoch of all data."""
    training = patient.run.recipe.training
    epoch = max(1.0, patient.batches.steps_in_epoch(0) * patient.kept_pairs / len(patient.store))
    epochs = training.max_epochs
    return min(training.max_steps, int(np.ceil(epochs) * epoch) if epochs else training.max_steps), epoch


def check_schedule(patient: Patient) -> Check:
    """The learning rate reaches its height before training ends."""
    training = patient.run.recipe.training
    steps, epoch = planned_steps(patient)
    finding = f"{steps:,} steps, {steps / epoch:.1f} epochs of {epoch:,.0f} steps, warm-up {training.warmup:,}"
    if training.warmup >= steps:
        remedy = f"the rate never reaches its height: write training.warmup={max(1, steps // 10)}, or train longer"
        return Check("schedule", "fail", finding, remedy)
    if training.warmup > steps / 2:
        return Check(
            "schedule", "warn", finding, f"most steps only warm up: write training.warmup={max(1, steps // 10)}"
        )
    return Check("schedule", "pass", finding)


def check_time(patient: Patient) -> Check:
    """How long training will take, validation aside, from a few real steps."""
    training = patient.run.recipe.training
    steps, _ = planned_steps(patient)
    seconds, tokens = _time_steps(patient)
    total = steps * seconds
    finding = f"{clock(total)} (h:mm) for {steps:,} steps, {tokens / seconds:,.0f} tokens/s, validation aside"
    faster = "train on a GPU, or choose a smaller model.size or training.max_steps"
    if 0 < 60 * training.max_minutes < total:
        reached = int(60 * training.max_minutes / seconds)
        remedy = f"expect about {reached:,} steps, or raise training.max_minutes (now {training.max_minutes:g})"
        return Check("time", "warn", f"{finding}; max_minutes ends it before", remedy)
    days = total / 86_400
    status: Status = "fail" if days > ENDLESS_DAYS else "warn" if days > LONG_DAYS else "pass"
    return Check("time", status, finding, "" if status == "pass" else faster)


def _time_steps(patient: Patient) -> tuple[float, float]:
    """Seconds and tokens of an average step. The first one timed does not count: it finds its kernels and memory."""
    model = patient.new_model().train()
    optimizer = build_optimizer(model, patient.run.recipe.training)
    set_rate(optimizer, 1e-9)
    epoch = patient.batches.steps_in_epoch(0)
    average = int(patient.examples.src_lengths.sum() + patient.examples.tgt_lengths.sum()) / epoch
    steps = (patient.batches.batch(number % epoch) for number in count())
    usual = (step for step in steps if step.tokens >= average / 2)  # what is left over at an epoch's end tells little
    seconds, tokens = [], []
    for step in islice(usual, 1 + TIMED_STEPS):
        seconds.append(train_step(patient, model, optimizer, step))
        tokens.append(step.tokens)
        if sum(seconds) > TIMED_SECONDS:
            break
    first = 1 if len(seconds) > 1 else 0
    return max(sum(seconds[first:]) / sum(tokens[first:]) * average, 1e-9), average


def train_step(patient: Examined, model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: Any) -> float:
    """One step as the loop trains it; return its seconds."""
    seed_everything(patient.world.seed, "step", 0)
    _wait(patient.world)
    began = time.perf_counter()
    for batch in step.micro_batches:
        with autocast(patient.world):
            loss = patient.task.loss(model, batch.to(patient.world.device))
        (loss.sum / max(1, step.count)).backward()
    clip_gradients(model.parameters(), patient.run.recipe.training.clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    _wait(patient.world)
    return time.perf_counter() - began


def _wait(world: World) -> None:
    if world.device.type == "cuda":
        torch.cuda.synchronize(world.device)


def clock(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60}:{minutes % 60:02d}"


def sized(count: float) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / (1 << 20):.0f} MiB"
