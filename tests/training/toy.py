"""A task small enough to train in a moment and real enough to break: an embedding learns to copy tokens, with dropout.

Run as a program it is a whole training run in a folder, to be killed, resumed and spread over processes:
`python -m tests.training.toy FOLDER name=value ...`. With TOY_DIES=r:n in the environment, rank r kills itself in the
middle of its n-th file of weights, at the first attempt; TOY_PARALLEL is `runtime.parallel`.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import apply_overrides, build
from regard.runtime import RuntimeSettings, World, close_world, open_world
from regard.training import checkpoint
from regard.training.checkpoint import Checkpoints
from regard.training.distributed import place
from regard.training.log import build_log
from regard.training.loop import Outcome, fit
from regard.training.optimizer import build_schedule
from regard.training.settings import TrainingSettings
from regard.training.task import Validation

V, D = 16, 8
STEPS_PER_EPOCH = 10


@dataclass(frozen=True)
class ToyBatch:
    tokens: Tensor

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {"tokens": self.tokens}

    def to(self, device: torch.device) -> "ToyBatch":
        return ToyBatch(self.tokens.to(device))


@dataclass(frozen=True)
class ToyStep:
    micro_batches: list[ToyBatch]
    count: int
    tokens: int
    epoch: float


@dataclass(frozen=True)
class ToyLoss:
    sum: Tensor
    nll: Tensor


class ToyModel(nn.Module):
    """Embedding, dropout, norm, tied output: a bias and a tied matrix, as real models have."""

    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, D)
        self.norm = nn.LayerNorm(D)
        self.output = nn.Linear(D, V)
        self.output.weight = self.embedding.weight
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.output(self.dropout(self.norm(self.embedding(tokens))))
        return logits


class ToyTask:
    """Copy: the output at each place is the token there."""

    def loss(self, model: nn.Module, batch: ToyBatch) -> ToyLoss:
        logits = model(batch.tokens)
        nll = F.cross_entropy(logits.float(), batch.tokens, reduction="sum")
        return ToyLoss(nll, nll.detach())

    def validate(self, model: nn.Module) -> Validation:
        tokens = torch.arange(V, device=next(model.parameters()).device)
        logits = model(tokens).float()
        accuracy = (logits.argmax(-1) == tokens).double().mean().item()
        sample = (str(tokens.tolist()), str(tokens.tolist()), str(logits.argmax(-1).tolist()))
        return Validation({"loss": F.cross_entropy(logits, tokens).item(), "accuracy": accuracy}, [sample] * 5)


@dataclass(frozen=True)
class ToySteps:
    """Steps of `size` tokens drawn from (seed, step) alone, cut into ranks and micro-batches of unequal size."""

    world: World
    accumulation: int = 1
    size: int = 24
    before: Callable[[int], None] = lambda number: None
    """Called with the number of each step, from 0, before it is trained."""

    def __call__(self, first: int) -> Iterator[ToyStep]:
        number = first
        while True:
            self.before(number)
            drawn = np.random.default_rng([self.world.seed, number]).integers(0, V, self.size)
            parts = self.world.size * self.accumulation
            # Unequal parts: a mean of means would be wrong.
            edges = [self.size * part * (part + 1) // (parts * (parts + 1)) for part in range(parts + 1)]
            begin = self.world.rank * self.accumulation
            own = [drawn[edges[p] : edges[p + 1]] for p in range(begin, begin + self.accumulation)]
            micro = [ToyBatch(torch.from_numpy(part)) for part in own]
            yield ToyStep(micro, self.size, 2 * self.size, number // STEPS_PER_EPOCH)
            number += 1


def toy_settings(**values: object) -> TrainingSettings:
    defaults: dict[str, object] = {
        "max_steps": 60,
        "schedule": "constant",
        "learning_rate": 0.02,
        "warmup": 5,
        "log_every": 7,
        "validate_every": 20,
    }
    return build(TrainingSettings, defaults | values, "toy")


def cpu_world(seed: int = 3) -> World:
    return World(rank=0, size=1, local_rank=0, device=torch.device("cpu"), precision="fp32", seed=seed)


def toy_run(
    folder: Path,
    settings: TrainingSettings,
    world: World | None = None,
    task: ToyTask | None = None,
    before: Callable[[int], None] = lambda number: None,
    model: nn.Module | None = None,
) -> Outcome:
    """One run in `folder`, from its settings to its outcome; again in the same folder it goes on."""
    world = world or cpu_world()
    torch.manual_seed(world.seed)
    model = place(model or ToyModel(), world)
    checkpoints = Checkpoints(folder / "checkpoints", settings.keep)
    log = build_log(settings, folder, world)
    steps = ToySteps(world, settings.accumulation, before=before)
    return fit(task or ToyTask(), model, steps, settings, world, checkpoints, log, build_schedule(settings, D))


def written_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl, less what a clock wrote."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    clocks = {"seconds", "seconds_left", "tokens_per_second"}
    return [{name: value for name, value in line.items() if name not in clocks} for line in lines]


def _die_writing(last: int) -> None:
    """Make this process kill itself when it has written half of the file of tensors with this number."""
    write, numbers = checkpoint._save_tensors, count(1)

    def write_or_die(path: Path, tensors: dict[str, Tensor]) -> None:
        write(path, tensors)
        if next(numbers) == last:
            os.truncate(path, path.stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    checkpoint._save_tensors = write_or_die


def main(folder: str, *overrides: str) -> None:
    settings = toy_settings(**apply_overrides({}, overrides))
    runtime = {"device": "cpu", "seed": 3, "threads": 1, "parallel": os.environ.get("TOY_PARALLEL", "auto")}
    world = open_world(RuntimeSettings.model_validate(runtime))
    rank, _, last = os.environ.get("TOY_DIES", "").partition(":")
    if rank == str(world.rank) and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        _die_writing(int(last))
    outcome = toy_run(Path(folder), settings, world)
    close_world()
    if world.is_main:
        print(outcome.reason, outcome.step)


if __name__ == "__main__":
    main(*sys.argv[1:])
