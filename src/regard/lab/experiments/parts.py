"""The parts of an encoder: what each contributes, seen by leaving it out.

An encoder layer has two sublayers, self-attention and a feed-forward network, each inside of a residual connection with
a norm; positions are added to the embeddings. The task needs most of them: every word is a digit, and its label is its
sum with the digit to its left, modulo five. Attention brings the left digit, positions tell which one is left, and the
sum modulo five is no linear function. Two pre-norm layers are trained as a whole, and with one part left out.
"""

import torch

from regard.files import JsonObject
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
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


def sums(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """Random digits on a circle; the label is the sum with the left neighbour, modulo DIGITS."""
    ids = torch.randint(DIGITS, (size, 8), generator=generator)
    return {"ids": ids, "labels": (ids + ids.roll(1, dims=1)) % DIGITS}


def measure(seed: int, effort: Effort, record: Record) -> None:
    for name, changes in CHANGES.items():
        seeded(seed, "weights")
        model = build_tagger(DIGITS, DIGITS, layers=2, **changes)
        steps = effort.pick(400, 60)
        fit_toy(model, sums, tagging_loss, steps=steps, rate=5e-3, warmup=20, schedule="linear", seed=seed)
        record("accuracy", "accuracy", name, accuracy(model, sums(generator_of(seed, "test"), 500)))


def judge(results: Results) -> Verdict:
    values = {name: results.values("accuracy", "accuracy", name) for name in CHANGES}
    pairs = [
        (values[needed], values[other])
        for needed in ("attention", "residual")
        for other in ("feed-forward", "norm", "positions")
    ]
    least = all(above(other, needed, by=0.05) for needed, other in pairs)
    better = any(above(needed, other) for needed, other in pairs)
    learned = above(values["whole"], [0.9])  # a part costs nothing in a model that has not learned the task
    return Verdict(decide(least and learned, better and learned))
