"""The query of a recurrent decoder: its state before the last word, or after it?

    Bahdanau    c_t = attend(h_{t-1})    the state that has not read the last written word y_{t-1} yet
    Luong       c_t = attend(h_t)        h_t = f(h_{t-1}, y_{t-1})

The two decoders differ in more than that. Here Luong's decoder gets either query, and all else stays the same. Digits,
all different, are copied, where the next one stands to the right of the last one; and sorted, where the next one is the
smallest that is larger. In both the last written word tells where to look, but a state can also count its steps. So
both queries solve the tasks in the end, and what is compared is how fast: the mean loss over the training.
"""

from functools import partial
from statistics import fmean
from typing import Literal

import torch

from regard.lab.experiment import Effort, Record, Results, Verdict, decide, paired
from regard.lab.toy_pairs import SHIFT, pair_batch, translation_loss
from regard.lab.toys import ToyTensors, fit_toy, generator_of, seeded
from regard.models.recurrent import RecurrentModel, RecurrentSettings

DIGITS, LENGTH = 10, 6
QUERIES: tuple[Literal["previous", "current"], ...] = ("previous", "current")
TASKS = ("copy", "sort")
EVERY = 10
"""Steps between two points of a curve."""


def digit_pairs(generator: torch.Generator, task: str, size: int = 32) -> ToyTensors:
    """Different digits in random order; the target is the same digits, sorted for that task."""
    digits = torch.rand(size, DIGITS, generator=generator).argsort(dim=1)[:, :LENGTH]
    return pair_batch(digits.tolist(), (digits.sort(dim=1).values if task == "sort" else digits).tolist())


def measure(seed: int, effort: Effort, record: Record) -> None:
    curves = {}
    for task in TASKS:
        batch = partial(digit_pairs, task=task)
        for query in QUERIES:
            seeded(seed, "weights")
            settings = RecurrentSettings(
                decoder="luong", cell="gru", layers=1, encoder="both", d_embedding=32, d_model=64,
                attention="global", score="general", query=query, input_feeding=False, dropout=0.0,
            )  # fmt: skip
            model = RecurrentModel(settings, SHIFT + DIGITS, SHIFT + DIGITS)
            curves[task, query] = fit_toy(
                model, batch, translation_loss, steps=effort.pick(120, 30), rate=8e-3, warmup=20, log_every=EVERY,
                seed=seed,
            )  # fmt: skip
            with torch.no_grad():
                loss = translation_loss(model, batch(generator_of(seed, "test"), size=500))
            record("mean", query, task, fmean(curves[task, query]))
            record("nll", query, task, float(loss.nll / loss.count))
    for (task, query), losses in curves.items():
        for number, value in enumerate(losses, start=1):
            record(task, query, EVERY * number, value)


def judge(results: Results) -> Verdict:
    pairs = [[results.values("mean", query, task) for query in QUERIES] for task in TASKS]
    faster = all(paired(previous, current) for previous, current in pairs)
    return Verdict(decide(faster, any(paired(current, previous) for previous, current in pairs)))
