"""Why weights are not initialised with zeros: units that start equal stay equal.

A network with one hidden layer, h = tanh(W_1 x + b_1), o = W_2 h + b_2. If all rows of W_1 are equal and all columns of
W_2 too, all hidden units compute the same, and all get the same gradient:

    dL/dW_1[i] = W_2[:, i] (1 - h_i^2) x

so they stay equal for ever: the layer is one unit wide, and W_1 has rank 1. With zeros it is worse: h = 0, so the
gradient of W_2 is zero, and W_2 = 0, so that of W_1 is zero. Only b_2 learns. Random weights break the symmetry. The
task is exclusive or: have the first two of five inputs the same sign? One hidden unit cannot tell.
"""

import torch
from torch import nn

from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, seeded
from regard.losses.crossentropy import Loss, cross_entropy

INPUTS, UNITS, LOG_EVERY = 5, 16, 20
ZERO, EQUAL, RANDOM = "zero", "equal", "random"


def signs(generator: torch.Generator, size: int = 64) -> ToyTensors:
    """Points of a cube, and whether their first two coordinates have the same sign."""
    x = 2 * torch.rand(size, INPUTS, generator=generator) - 1
    return {"x": x, "labels": (x[:, :2].prod(dim=1) > 0).long()}


def sign_loss(model: nn.Module, batch: ToyTensors) -> Loss:
    return cross_entropy(model(batch["x"]), batch["labels"], ignore=IGNORE)


def measure(seed: int, effort: Effort, record: Record) -> None:
    test = signs(generator_of(seed, "test"), size=1000)
    for kind in (ZERO, EQUAL, RANDOM):
        seeded(seed, "weights")
        hidden, output = nn.Linear(INPUTS, UNITS), nn.Linear(UNITS, 2)
        model = nn.Sequential(hidden, nn.Tanh(), output)
        for parameter in model.parameters() if kind != RANDOM else ():
            nn.init.constant_(parameter, 0.0 if kind == ZERO else 0.1)
        if kind == EQUAL:  # the two classes must differ, else every gradient is zero here too
            nn.init.constant_(output.weight.data[1], -0.1)
        steps = effort.pick(400, 160)
        losses = fit_toy(model, signs, sign_loss, steps=steps, rate=2e-2, seed=seed, log_every=LOG_EVERY)
        for number, value in enumerate(losses, start=1):
            record("loss", kind, number * LOG_EVERY, value)
        with torch.no_grad():
            right = (model(test["x"]).argmax(dim=-1) == test["labels"]).float().mean()
        # rounding makes equal units differ a little
        record("after", "rank", kind, float(torch.linalg.matrix_rank(hidden.weight, rtol=0.01)))
        record("after", "accuracy", kind, float(right))


def judge(results: Results) -> Verdict:
    zero, equal, random = (results.values("after", "accuracy", kind) for kind in (ZERO, EQUAL, RANDOM))
    ranks = [results.mean("after", "rank", kind) for kind in (ZERO, EQUAL)]
    worse = above(random, zero + equal, by=0.1)
    return Verdict(decide(worse and ranks == [0, 1], not above(random, zero + equal)))
