"""Warm-up: post-norm layers need small first steps, pre-norm layers do not.

In a warm-up the learning rate rises from zero to its full value. Adam divides every gradient by a running estimate of
its size, so the first steps are as large as later ones while the estimate rests on few batches. In a post-norm stack

    x <- Norm(x + f(x))

every norm rescales the path from the output to the input, and the gradients of the upper layers are large at
initialisation (Xiong et al. 2020). Large first steps then move the weights to a place from which they do not recover.
A pre-norm stack, x <- x + f(Norm(x)), has a path without norms. Six layers learn here to reverse a sequence; a run that
diverges counts with the loss of a uniform guess.
"""

import math
from functools import partial

from regard.errors import UserError
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import build_tagger, fit_toy, reversed_words, seeded, tagging_loss

WORDS, LOG_EVERY = 10, 5
SERIES = ("post", "post, warm-up", "pre", "pre, warm-up")


def losses(seed: int, series: str, rate: float, steps: int) -> list[float]:
    """The training loss of every few steps; after divergence that of a uniform guess."""
    norm, _, warm_up = series.partition(", ")
    seeded(seed, "weights")
    model = build_tagger(WORDS, WORDS, layers=6, norm=norm)
    batch, warmup = partial(reversed_words, words=WORDS, length=8), steps * 2 // 5 if warm_up else 0
    fit = partial(fit_toy, steps=steps, rate=rate, warmup=warmup, seed=seed, log_every=LOG_EVERY)
    try:
        return fit(model, batch, tagging_loss)
    except UserError as error:
        if error.code != "diverged":
            raise
        return [math.log(WORDS)] * (steps // LOG_EVERY)


def measure(seed: int, effort: Effort, record: Record) -> None:
    rates = effort.pick((1e-3, 1e-2), (1e-2,))
    for series in SERIES:
        for rate in rates:
            found = losses(seed, series, rate, effort.pick(120, 40))
            record("rate", series, rate, found[-1])
            if rate == max(rates):
                for number, loss in enumerate(found, start=1):
                    record("curve", series, number * LOG_EVERY, loss)


def judge(results: Results) -> Verdict:
    rate = results.xs("rate", "post")[-1]
    post, post_warm, pre, pre_warm = (results.values("rate", series, rate) for series in SERIES)
    confirmed = above(post, post_warm, by=0.1) and above(post, pre, by=0.1)
    return Verdict(decide(confirmed, above(post_warm, post) or above(pre, pre_warm, by=0.3)))
