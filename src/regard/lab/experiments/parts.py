"""The parts of an encoder: what each contributes, seen by leaving it out.

An encoder layer has two sublayers, self-attention and a feed-forward network, each inside of a residual connection with
a norm; positions are added to the embeddings. Every word is a digit, and its label is its sum, modulo five, with

    left      the digit to its left       attention brings it, positions tell which one is left
    marked    the one digit with a mark   attention brings it, no position is needed

The sum modulo five is no linear function. Two pre-norm layers are trained as a whole, and with one part left out. A
part is necessary for a task if no seed reaches 50 % without it, and not necessary if every seed reaches 90 %.
"""

from functools import partial

import torch

from regard.files import JsonObject
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide, equivalent, paired
from regard.lab.toys import ToyTensors, accuracy, build_tagger, fit_toy, generator_of, seeded, tagging_loss

DIGITS = 5
CHANGES: dict[str, JsonObject] = {
    "whole": {},
    "attention": {"self_attention": False},
    "feed-forward": {"d_ff": 0},
    "norm": {"norm_kind": "none"},
    "residual": {"residual": False},
    "positions": {"positions": "none"},
}
TASKS = LEFT, MARKED = "left", "marked"


def sums(generator: torch.Generator, task: str, size: int = 32) -> ToyTensors:
    """Random digits on a circle; the label is the sum with the left digit, or with the one that has a mark."""
    digits, rows = torch.randint(DIGITS, (size, 8), generator=generator), torch.arange(size)
    if task == LEFT:
        return {"ids": digits, "labels": (digits + digits.roll(1, dims=1)) % DIGITS}
    ids, marked = digits.clone(), torch.randint(8, (size,), generator=generator)
    ids[rows, marked] += DIGITS
    return {"ids": ids, "labels": (digits + digits[rows, marked][:, None]) % DIGITS}


def measure(seed: int, effort: Effort, record: Record) -> None:
    for task in TASKS:
        for name, changes in CHANGES.items():
            seeded(seed, "weights")
            model, batch = build_tagger(2 * DIGITS, DIGITS, layers=2, **changes), partial(sums, task=task)
            steps = effort.pick(500 if task == LEFT else 150, 60)
            fit_toy(model, batch, tagging_loss, steps=steps, rate=5e-3, warmup=20, schedule="linear", seed=seed)
            record("accuracy", task, name, accuracy(model, batch(generator_of(seed, "test"), size=500)))


def judge(results: Results) -> Verdict:
    found = {(task, name): results.values("accuracy", task, name) for task in TASKS for name in CHANGES}
    needed = {key: above([0.5], values) for key, values in found.items()}
    spared = {key: above(values, [0.9]) for key, values in found.items()}
    learned = all(spared[task, "whole"] for task in TASKS)  # a part costs nothing in a model that has not learned
    expected = [(needed, LEFT, "attention"), (needed, MARKED, "attention"), (needed, LEFT, "positions")]
    expected.append((spared, MARKED, "positions"))
    whole, thin = found[LEFT, "whole"], found[LEFT, "feed-forward"]
    norms = [(task, "norm") for task in TASKS]
    return Verdict(
        decide(
            learned and all(kind[task, name] for kind, task, name in expected),
            learned and any((spared if kind is needed else needed)[task, name] for kind, task, name in expected),
        ),
        findings={
            "residual": decide(learned and needed[LEFT, "residual"], spared[LEFT, "residual"]),
            "feed-forward": decide(learned and paired(whole, thin, by=0.02), equivalent(whole, thin)),
            "norm": decide(learned and any(needed[key] for key in norms), all(spared[key] for key in norms)),
        },
    )
