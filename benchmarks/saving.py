"""How long training stands still for a checkpoint, and what checkpoints cost in all.

    python -m benchmarks.saving --steps 40 --every 10

A Transformer encoder with 60 million parameters learns random words, with moving averages of its weights: a checkpoint
has 958 MB. A pause is the time from the end of a step to the request for the next batch. The first checkpoint is left
out. `--every 0` writes only the last checkpoint, for comparison.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from regard.lab.toys import ToyStep, ToySteps, ToyTask, build_tagger, tagging_loss
from regard.runtime import RuntimeSettings, open_world
from regard.training.checkpoint import Checkpoints
from regard.training.events import Event, StepCompleted
from regard.training.loop import fit
from regard.training.settings import TrainingSettings
from regard.training.weights import count_parameters

WORDS, LENGTH = 40_000, 16


@dataclass
class Clock:
    """A log that notes when each step ends."""

    ends: dict[int, float] = field(default_factory=dict)

    def log(self, event: Event) -> None:
        if isinstance(event, StepCompleted):
            self.ends[event.step] = time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40, help="optimizer steps [40]")
    parser.add_argument("--every", type=int, default=10, help="steps between two checkpoints [10]")
    parser.add_argument("--batch", type=int, default=16, help=f"sentences of {LENGTH} words per step [16]")
    parser.add_argument("--device", default="cpu", help="cpu or cuda [cpu]")
    options = parser.parse_args()
    world = replace(open_world(RuntimeSettings(device=options.device), alone=True), compile=False, capture=False)
    model = build_tagger(WORDS, WORDS, layers=6, d_model=512, num_heads=8, d_ff=2048).to(world.device)
    every = options.every or options.steps
    settings = TrainingSettings(
        max_steps=options.steps, checkpoint_every=every, validate_every=options.steps, log_every=options.steps, ema=0.99
    )
    clock, begins = Clock(), {}

    def batch(generator: torch.Generator) -> dict[str, Tensor]:
        ids = torch.randint(WORDS, (options.batch, LENGTH), generator=generator)
        return {"ids": ids, "labels": ids}

    def steps(first: int) -> Iterator[ToyStep]:
        stream = ToySteps(batch, 1)(first)
        while True:
            begins[first] = time.perf_counter()
            yield next(stream)
            first += 1

    with tempfile.TemporaryDirectory() as folder:
        arguments = (settings, world, Checkpoints(Path(folder)), clock, lambda step: 1e-4)
        fit(ToyTask(tagging_loss), model, steps, *arguments)
        end = time.perf_counter()
        written = sum(path.stat().st_size for path in max(Path(folder).glob("step-*")).iterdir())
    saves = list(range(2 * every, options.steps, every))
    pauses = [begins[step] - clock.ends[step] for step in saves]
    plain = [clock.ends[step] - begins[step - 1] for step in range(2, options.steps)]
    print(f"{count_parameters(model):,} parameters, checkpoints of {written / 1e6:.0f} MB, {world.device}")
    print("pauses for a checkpoint:", " ".join(f"{pause:.2f}" for pause in pauses), "s")
    if pauses:
        print(f"median {statistics.median(pauses):.2f} s; a step {statistics.median(plain):.2f} s")
    print(f"from the first step to the end of the last write: {end - clock.ends[1]:.1f} s")


if __name__ == "__main__":
    main()
