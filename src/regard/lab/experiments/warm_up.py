"""Warm-up: post-norm layers need small first steps, pre-norm layers do not.

In a warm-up the learning rate rises from zero to its full value. Adam divides every gradient by a running estimate of
its size, so the first steps are as large as later ones while the estimate rests on few batches. In a post-norm stack

    x <- Norm(x + f(x))

every norm rescales the path from the output to the input, and the gradients of the upper layers are large at
initialisation (Xiong et al. 2020). Large first steps then move the weights to a place from which they do not recover.
A pre-norm stack, x <- x + f(Norm(x)), has a path without norms. The paper's schedule ("Noam") rises and then falls:

    rate = factor d^(-1/2) min(step^(-1/2), step warmup^(-3/2))        largest at step = warmup

Six layers learn here to reverse a sequence, at each of three largest rates; a run that diverges counts with the loss of
a uniform guess.
"""

import math
from functools import partial
from statistics import fmean

from regard.errors import UserError
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide, equivalent, paired
from regard.lab.toys import build_tagger, fit_toy, reversed_words, seeded, tagging_loss

WORDS, LOG_EVERY = 10, 5
SERIES = ("post", "post, warm-up", "post, Noam", "pre", "pre, warm-up")


def losses(seed: int, series: str, rate: float, steps: int) -> list[float]:
    """The training loss of every few steps; after divergence that of a uniform guess."""
    norm, _, schedule = series.partition(", ")
    seeded(seed, "weights")
    model = build_tagger(WORDS, WORDS, layers=6, norm=norm)
    batch, warmup = partial(reversed_words, words=WORDS, length=8), steps * 2 // 5 if schedule else 0
    if schedule == "Noam":  # `fit_toy` has d = 1; this factor makes `rate` the largest one
        fit = partial(fit_toy, schedule="paper", rate=rate * warmup**0.5)
    else:
        fit = partial(fit_toy, rate=rate)
    fit = partial(fit, steps=steps, warmup=warmup, seed=seed, log_every=LOG_EVERY)
    try:
        return fit(model, batch, tagging_loss)
    except UserError as error:
        if error.code != "diverged":
            raise
        return [math.log(WORDS)] * (steps // LOG_EVERY)


def measure(seed: int, effort: Effort, record: Record) -> None:
    rates = effort.pick((1e-3, 3e-3, 1e-2), (1e-2,))
    for series in SERIES:
        for rate in rates:
            found = losses(seed, series, rate, effort.pick(120, 40))
            record("rate", series, rate, found[-1])
            if rate == max(rates):
                for number, loss in enumerate(found, start=1):
                    record("curve", series, number * LOG_EVERY, loss)


def judge(results: Results) -> Verdict:
    rates, guess = results.xs("rate", "post"), math.log(WORDS)
    low, high = rates[0], rates[-1]
    post, post_warm, noam, pre, _ = (results.values("rate", series, high) for series in SERIES)
    slow, slow_warm = (results.values("rate", series, low) for series in SERIES[:2])
    best, best_warm = (
        [min(values) for values in zip(*(results.values("rate", series, rate) for rate in rates), strict=True)]
        for series in SERIES[:2]
    )
    return Verdict(
        decide(above(post, post_warm, by=0.1), above(post_warm, post)),
        {"best": fmean(best), "best_warm": fmean(best_warm), "guess": guess},
        {
            "pre": decide(above(pre, [0.9 * guess]), above([0.9 * guess], pre)),
            "noam": decide(above(post, noam, by=0.1), above(noam, post)),
            "low": decide(paired(slow, slow_warm), paired(slow_warm, slow) or equivalent(slow, slow_warm, within=0.1)),
            "best": decide(paired(best, best_warm), paired(best_warm, best) or equivalent(best, best_warm)),
        },
    )
