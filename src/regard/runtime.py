"""Seed, device, precision, threads and process group, set once at the start.

`open_world` is the first call of every command that computes. It seeds before any weight is initialised, chooses the
device, and joins the other processes if `torchrun` started several. It returns a `World`, which is passed on as an
argument and is never a global variable.
"""

import os
import random
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal
from uuid import uuid4

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed import Store, TCPStore, distributed_c10d  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from regard.config import Field, Settings
from regard.errors import UserError
from regard.kernels import kernels_available
from regard.seeding import derive_seed

Precision = Literal["fp32", "bf16"]
Parallel = Literal["auto", "replicate", "shard", "hybrid"]

# The other ranks wait for rank 0 while it prepares the data, so a collective may take long. A dead worker is noticed at
# once, by its closed connection or by torchrun; a hung one in training after `runtime.timeout`.
PREPARATION_TIMEOUT = timedelta(hours=12)
POLL_SECONDS = 0.1

# Virtual machines may report bf16 instructions that they do not have: the first bf16 product then kills the process.
_BF16_PROBE = """
import torch
with torch.autocast("cpu", dtype=torch.bfloat16):
    layer = torch.nn.Linear(64, 64)
    layer(torch.ones(32, 64)).float().sum().backward()
"""


MANY_THREADS = 64
"""More threads need as many cores: a small machine may not allow a thousand of them, which ends the process."""


class RuntimeSettings(Settings):
    """Device, precision, threads, seed and compilation."""

    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|cuda(:\d+)?)$",
        description="cpu, cuda, one GPU such as cuda:1, or auto (a GPU if there is one)",
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="precision of matrix products: fp32, bf16, or auto (bf16 on a GPU, fp32 on the CPU)"
    )
    threads: int = Field(0, ge=0, le=1024, description="number of CPU threads per process; 0: PyTorch's default")
    seed: int = Field(1, ge=0, description="random seed for weights, batch order and dropout")
    compile: Literal["auto", "on", "off"] = Field(
        "auto", description="train with torch.compile, which takes half a minute at the start; auto: on a GPU"
    )
    capture: Literal["auto", "off"] = Field(
        "auto", description="run the training step as a CUDA graph; auto: on a single GPU"
    )
    parallel: Parallel = Field(
        "auto",
        description="only with several processes: replicate (DDP: each has the whole model), shard (FSDP2: each has a "
        "share), hybrid (sharded inside a node, replicated over nodes), or auto (replicate if memory suffices)",
    )
    activation_checkpointing: bool = Field(
        False, description="save memory: compute the layers' activations again in the backward pass, a third more work"
    )
    timeout: float = Field(
        30.0,
        gt=0,
        description="only with several processes: minutes after which training ends if a process hangs (torchrun may "
        "restart it); must be longer than a validation and a checkpoint",
    )


@dataclass(frozen=True)
class World:
    """Rank of this process among `size` processes, its device, precision and seed."""

    rank: int
    size: int
    local_rank: int
    device: torch.device
    precision: Precision
    seed: int = 1
    compile: bool = False
    capture: bool = False
    local_size: int = 1
    """Number of processes on this node."""
    parallel: Parallel = "auto"
    activation_checkpointing: bool = False
    timeout: float = 30.0
    """Minutes that a collective waits for another process."""
    group: dist.ProcessGroup | None = None
    """The process group that gathers and broadcasts Python objects; None: the group of all other collectives."""

    @property
    def is_main(self) -> bool:
        """True for rank 0, the only process that writes files and prints."""
        return self.rank == 0


def open_world(settings: RuntimeSettings, alone: bool = False) -> World:
    """Seed, choose device and precision, and join the process group if `torchrun` started this process. With `alone`
    the process joins no group: variables of torchrun that are left in the environment are ignored."""
    seed_everything(settings.seed)
    if settings.threads:
        torch.set_num_threads(min(settings.threads, max(MANY_THREADS, os.cpu_count() or 1)))
    alone = alone and not dist.is_initialized()
    rank, size, local_rank = (default if alone else _from_torchrun(name, default) for name, default in _LAUNCH)
    device = _choose_device(settings.device, size, local_rank, "--device " if alone else "runtime.device=")
    precision = _choose_precision(settings.precision, device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if size > 1 and not dist.is_initialized():
        _join(rank, size, device)
    on_gpu = device.type == "cuda"
    compiled = {"auto": on_gpu and kernels_available(), "on": True, "off": False}[settings.compile]
    captured = on_gpu and settings.capture != "off" and not settings.activation_checkpointing
    local_size = min(size, _from_torchrun("LOCAL_WORLD_SIZE", size))
    return World(
        rank, size, local_rank, device, precision, settings.seed, compiled, captured, local_size, settings.parallel,
        settings.activation_checkpointing, settings.timeout,
    )  # fmt: skip


def limit_waiting(minutes: float) -> None:
    """From now on, raise an error in a collective that waits longer than this for another process."""
    if dist.is_initialized():
        distributed_c10d._set_pg_timeout(timedelta(minutes=minutes))


def mark_final() -> None:
    """Note in the store of torchrun's agent that this command failed by a mistake of its user."""
    if (store := _agent_store()) is not None:
        store.set(_FINAL, "1")


def is_final(wait: float = 0.0) -> bool:
    """True if a process of this command called `mark_final`, before a restart or in the next `wait` seconds: then no
    restart can help."""
    if (store := _agent_store()) is None:
        return False
    end = time.monotonic() + wait
    while not (final := store.check([_FINAL])) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    return bool(final)


def _agent_store() -> TCPStore | None:
    """The store that torchrun's agent keeps over all restarts; None without an agent, or if it cannot be reached."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    try:
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        return TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=10))
    except (KeyError, ValueError, RuntimeError):
        return None


def close_world() -> None:
    """Leave the process group, if there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()


def total_memory() -> int:
    """Bytes of memory of the machine, or of its container."""
    total, limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), Path("/sys/fs/cgroup/memory.max")
    maximum = limit.read_text().strip() if limit.exists() else ""
    return min(total, int(maximum)) if maximum.isdigit() else total


def seed_everything(seed: int, *purpose: int | str) -> int:
    """Seed torch (every device), numpy and `random` for one purpose; return the derived seed."""
    derived = derive_seed(seed, *purpose)
    torch.manual_seed(derived)
    np.random.seed(derived % 2**32)
    random.seed(derived)
    return derived


def autocast(world: World) -> AbstractContextManager[object]:
    """Context of the forward pass: matrix products in bf16 if `world.precision` is bf16."""
    return torch.autocast(world.device.type, dtype=torch.bfloat16, enabled=world.precision == "bf16")


_FINAL = "regard/failed by a mistake of the user"
_LAUNCH = (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0))


def _from_torchrun(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    try:
        return int(text)
    except ValueError as error:
        raise UserError(
            f"the environment variable {name} is {text!r}, not a number",
            f"unset {name}",
            code="invalid-environment",
            where=name,
        ) from error


def _choose_device(name: str, size: int, local_rank: int, setting: str = "runtime.device=") -> torch.device:
    """The device of a name; `setting` is how a user writes it."""
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise UserError(
            f"the device is {name!r}, but torch finds no GPU",
            f"set `{setting}cpu`, or auto",
            code="no-device",
            where=setting.strip("-= "),
        )
    if ":" in name and size > 1:
        raise UserError(
            f"`runtime.device` is {name!r}, but {size} processes need a GPU each",
            "set `runtime.device=cuda`; choose among GPUs with `CUDA_VISIBLE_DEVICES`",
            code="invalid-setting",
            where="runtime.device",
        )
    index = int(name.partition(":")[2] or local_rank)
    if index >= torch.cuda.device_count():
        raise UserError(
            f"there is no GPU {index}: torch finds {torch.cuda.device_count()} (counted from 0)",
            "start fewer processes: `torchrun --nproc-per-node`" if size > 1 else f"set `{setting}cuda`",
            code="no-device",
            where=setting.strip("-= "),
        )
    return torch.device("cuda", index)


def _choose_precision(name: Literal["auto", "fp32", "bf16"], device: torch.device) -> Precision:
    if name == "auto":
        return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "fp32"
    if name == "bf16" and device.type == "cpu":
        _probe_bf16()
    return name


def _probe_bf16() -> None:
    """Try bf16 in another process, since a CPU without bf16 kills the process."""
    probe = subprocess.run([sys.executable, "-c", _BF16_PROBE], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        failure = f"signal {-probe.returncode}" if probe.returncode < 0 else probe.stderr.strip().rpartition("\n")[2]
        raise UserError(
            f"the precision is bf16, but this CPU cannot compute in bf16: a test ended with {failure}",
            "set `runtime.precision=fp32` in the recipe, or `--precision fp32`; or set the environment variable "
            "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16",
            code="unsupported",
            where="runtime.precision",
        )


def _join(rank: int, size: int, device: torch.device) -> None:
    """Join the process group; CPU tensors use gloo also with GPUs, so that small collectives do not wait for a GPU."""
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing or not 0 <= rank < size:
        raise UserError(
            f"the environment has WORLD_SIZE={size} and RANK={rank}"
            + (f", but not {' and '.join(missing)}" if missing else ""),
            "unset `WORLD_SIZE` and `RANK` to train in one process, or start several with `torchrun`",
            code="invalid-environment",
            where=", ".join(missing) or "RANK",
        )
    store, _, _ = next(rendezvous("env://", rank, size, timeout=PREPARATION_TIMEOUT))
    dist.init_process_group(
        backend="cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
        store=PrefixStore(f"regard/{agree_on_attempt(store, rank, size)}", store),
        rank=rank,
        world_size=size,
        timeout=PREPARATION_TIMEOUT,
    )


def agree_on_attempt(store: Store, rank: int, size: int) -> str:
    """A name for this start of all processes, so that none reads the addresses of dead processes and waits for ever.

    torchrun's agents keep one store over all restarts, and each of them counts only its own restarts. So rank 0 writes
    a new name, the others answer to it, and rank 0 confirms their answers. A process whose answer is not confirmed has
    read the name of an earlier start, and waits for the next one.
    """
    own = uuid4().hex
    if rank == 0:
        store.set("regard/attempt", own)
        answers = [store.get(f"regard/{own}/{other}").decode() for other in range(1, size)]
        store.set(f"regard/{own}/confirmed", " ".join(answers))
        return own
    while True:
        name = store.get("regard/attempt").decode()
        confirmed = f"regard/{name}/confirmed"
        store.set(f"regard/{name}/{rank}", own)
        while store.get("regard/attempt").decode() == name:
            if store.check([confirmed]) and own in store.get(confirmed).decode().split():
                return name
            time.sleep(POLL_SECONDS)
