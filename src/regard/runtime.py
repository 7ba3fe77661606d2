"""Where a run happens: seed, device, precision, threads and the group of processes, settled once before anything else.

`open_world` is the first call of every command that computes. It seeds before a single weight is drawn, chooses the
device, and joins the other processes when `torchrun` started several. What it returns, a `World`, is handed to
whoever needs to know; nothing here is kept in a global of ours.
"""

import os
import random
import subprocess
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from regard.config import Field, Settings
from regard.errors import UserError
from regard.kernels import kernels_available
from regard.random import derive_seed

Precision = Literal["fp32", "bf16"]

# Ranks wait for rank 0 while it validates, so a collective may lawfully take long; a worker that died is noticed by
# its closed connection or by torchrun, not by this limit.
COLLECTIVE_TIMEOUT = timedelta(hours=2)

# Virtual machines may announce bf16 instructions that they do not have: the first bf16 product then kills the process.
_BF16_PROBE = """
import torch
with torch.autocast("cpu", dtype=torch.bfloat16):
    layer = torch.nn.Linear(64, 64)
    layer(torch.ones(32, 64)).float().sum().backward()
"""


class RuntimeSettings(Settings):
    """On what to compute, how precisely, and from which seed."""

    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|cuda(:\d+)?)$",
        description="auto (the GPU if there is one), cpu, cuda, or one GPU by number: cuda:1",
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="arithmetic of matrix products: fp32, bf16, or auto (bf16 on a GPU, fp32 on the CPU)"
    )
    threads: int = Field(0, ge=0, le=1024, description="CPU threads of one process; 0 leaves the choice to torch")
    seed: int = Field(1, ge=0, description="from which everything random is derived: weights, order, dropout")
    compile: Literal["auto", "on", "off"] = Field(
        "auto", description="let torch.compile fuse the layers for training, half a minute at the start; auto: on a GPU"
    )
    capture: Literal["auto", "off"] = Field(
        "auto", description="record the training step as a CUDA graph and replay it; auto: on a single GPU"
    )


@dataclass(frozen=True)
class World:
    """The place of this process among `size` equal ones, and what it computes on."""

    rank: int
    size: int
    local_rank: int
    device: torch.device
    precision: Precision
    seed: int = 1
    compile: bool = False
    capture: bool = False

    @property
    def is_main(self) -> bool:
        """True for the one process that writes files and speaks to the user."""
        return self.rank == 0


def open_world(settings: RuntimeSettings) -> World:
    """Seed, then choose device and precision, then join the other processes if `torchrun` started this one."""
    seed_everything(settings.seed)
    if settings.threads:
        torch.set_num_threads(settings.threads)
    rank, size, local_rank = (_from_torchrun(name, default) for name, default in _LAUNCH)
    device = _choose_device(settings.device, size, local_rank)
    precision = _choose_precision(settings.precision, device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if size > 1 and not dist.is_initialized():
        _join(rank, size, device)
    on_gpu = device.type == "cuda"
    compiled = {"auto": on_gpu and kernels_available(), "on": True, "off": False}[settings.compile]
    captured = on_gpu and settings.capture != "off"
    return World(rank, size, local_rank, device, precision, settings.seed, compiled, captured)


def close_world() -> None:
    """Leave the group of processes, if this one had joined one."""
    if dist.is_initialized():
        dist.destroy_process_group()


def seed_everything(seed: int, *purpose: int | str) -> int:
    """Seed torch (every device), numpy and `random` for one purpose; return the derived seed."""
    derived = derive_seed(seed, *purpose)
    torch.manual_seed(derived)
    np.random.seed(derived % 2**32)
    random.seed(derived)
    return derived


def autocast(world: World) -> AbstractContextManager[object]:
    """The context in which the forward pass runs: matrix products in bf16 where the world says so."""
    return torch.autocast(world.device.type, dtype=torch.bfloat16, enabled=world.precision == "bf16")


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


def _choose_device(name: str, size: int, local_rank: int) -> torch.device:
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise UserError(
            f"runtime.device is {name!r}, but torch finds no GPU",
            "write runtime.device=cpu, or auto",
            code="no-device",
            where="runtime.device",
        )
    if ":" in name and size > 1:
        raise UserError(
            f"runtime.device is {name!r}, but {size} processes need a GPU each",
            "write runtime.device=cuda; choose among GPUs with CUDA_VISIBLE_DEVICES",
            code="invalid-setting",
            where="runtime.device",
        )
    index = int(name.partition(":")[2] or local_rank)
    if index >= torch.cuda.device_count():
        raise UserError(
            f"there is no GPU {index}: torch finds {torch.cuda.device_count()} (counted from 0)",
            "start fewer processes: torchrun --nproc-per-node" if size > 1 else "write runtime.device=cuda",
            code="no-device",
            where="runtime.device",
        )
    return torch.device("cuda", index)


def _choose_precision(name: Literal["auto", "fp32", "bf16"], device: torch.device) -> Precision:
    if name == "auto":
        return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "fp32"
    if name == "bf16" and device.type == "cpu":
        _probe_bf16()
    return name


def _probe_bf16() -> None:
    """Try bf16 in a process of its own, so that a CPU which cannot do it costs an error message and not the run."""
    probe = subprocess.run([sys.executable, "-c", _BF16_PROBE], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        died = f"signal {-probe.returncode}" if probe.returncode < 0 else probe.stderr.strip().rpartition("\n")[2]
        raise UserError(
            f"runtime.precision is bf16, but this CPU cannot compute in bf16: a trial ended with {died}",
            "write runtime.precision=fp32, or set the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16",
            code="unsupported",
            where="runtime.precision",
        )


def _join(rank: int, size: int, device: torch.device) -> None:
    """Join the process group; CPU tensors travel by gloo even beside GPUs, so that small agreements never wait for one.

    torchrun's agent keeps one key-value store over all restarts. Workers restarted after a crash would find in it the
    addresses of their dead predecessors and wait for them for ever, so every attempt writes under a name of its own.
    """
    attempt = f"{os.environ.get('TORCHELASTIC_RUN_ID', 'run')}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    store, _, _ = next(rendezvous("env://", rank, size, timeout=COLLECTIVE_TIMEOUT))
    dist.init_process_group(
        backend="cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
        store=PrefixStore(f"regard/{attempt}", store),
        rank=rank,
        world_size=size,
        timeout=COLLECTIVE_TIMEOUT,
    )
