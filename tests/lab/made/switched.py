"""It does what the file of the switch says: fail, kill its process at the second seed, be interrupted, train long."""

import os
import signal
from pathlib import Path

import torch
from tests.lab.made import SWITCH, doubles

from regard.lab.experiment import Effort, Record
from regard.lab.toys import build_tagger, fit_toy, previous_words, tagging_loss

TEXTS = doubles.TEXTS.replace("seconds = 1", "seconds = 5")
judge = doubles.judge


def measure(seed: int, effort: Effort, record: Record) -> None:
    """Record what `doubles` does, if the switch is off."""
    path = Path(os.environ[SWITCH])
    wish = path.read_text() if path.exists() else ""
    if wish == "fail":
        raise RuntimeError("it was to fail")
    if wish == "kill" and seed == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if wish == "interrupt" and seed == 2:
        raise KeyboardInterrupt
    if wish == "train" and seed == 2:

        def batch(generator: torch.Generator) -> dict[str, torch.Tensor]:
            path.with_suffix(".begun").touch()
            return dict(previous_words(generator, words=8, length=8))

        fit_toy(build_tagger(8, 8), batch, tagging_loss, steps=1_000_000)
    doubles.measure(seed, effort, record)
