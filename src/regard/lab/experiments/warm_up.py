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

import torch

from regard.errors import UserError
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import ToyTensors, build_tagger, fit_toy, seeded, tagging_loss

WORDS, LENGTH, LAYERS, LOG_EVERY = 10, 8, 6, 5
NAMES = {
    "post": Text("post-norm, no warm-up", "后归一化，无预热"),
    "post, warm-up": Text("post-norm, warm-up", "后归一化，预热"),
    "pre": Text("pre-norm, no warm-up", "前归一化，无预热"),
    "pre, warm-up": Text("pre-norm, warm-up", "前归一化，预热"),
}


def reversal(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """Random words; the labels are the same words in reverse."""
    ids = torch.randint(WORDS, (size, LENGTH), generator=generator)
    return {"ids": ids, "labels": ids.flip(1)}


def losses(seed: int, series: str, rate: float, steps: int) -> list[float]:
    """The training loss of every few steps; after divergence that of a uniform guess."""
    norm, _, warm_up = series.partition(", ")
    seeded(seed, "weights")
    model = build_tagger(WORDS, WORDS, layers=LAYERS, norm=norm)
    warmup = steps * 2 // 5 if warm_up else 0
    try:
        return fit_toy(
            model, reversal, tagging_loss, steps=steps, rate=rate, warmup=warmup, seed=seed, log_every=LOG_EVERY
        )
    except UserError as error:
        if error.code != "diverged":
            raise
        return [math.log(WORDS)] * (steps // LOG_EVERY)


class WarmUp(Experiment):
    """Training loss of post-norm and pre-norm layers with and without a warm-up."""

    name = "warm-up"
    topic = "training"
    title = Text("Who needs a warm-up?", "谁需要学习率预热？")
    questions = (
        Question(
            "001:194",
            Text("How is the learning rate of a Transformer set?", "Transformer 训练时学习率是如何设定的？"),
            Text("–", "–"),
        ),
    )
    hypothesis = Text(
        "At a high learning rate post-norm layers need a warm-up; pre-norm layers learn without one.",
        "学习率高时，后归一化的层需要预热；前归一化的层不需要。",
    )
    varied = Text("the place of the norm, the warm-up, the learning rate", "归一化的位置、是否预热、学习率")
    measured = Text("training loss of six layers that reverse a sequence", "六层模型学习反转序列时的训练损失")
    refuted_if = Text(
        "post-norm layers learn as well without a warm-up, or pre-norm layers much worse",
        "后归一化的层没有预热也学得一样好，或前归一化的层没有预热时差很多",
    )
    panels = (
        Panel(
            "curve",
            Text("at the highest rate", "最高学习率下"),
            Text("step", "步数"),
            Text("training loss (nll)", "训练损失（负对数似然）"),
            names=NAMES,
        ),
        Panel(
            "rate",
            Text("after the last step", "训练结束时"),
            Text("learning rate", "学习率"),
            Text("training loss (nll)", "训练损失（负对数似然）"),
            log="x",
            names=NAMES,
        ),
    )
    papers = ("Vaswani et al. 2017, section 5.3", "Xiong et al. 2020", "Liu et al. 2020")
    seconds = 52

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        steps, rates = effort.pick(120, 40), effort.pick((1e-3, 1e-2), (1e-2,))
        for series in NAMES:
            for rate in rates:
                found = losses(seed, series, rate, steps)
                record("rate", series, rate, found[-1])
                if rate == max(rates):
                    for number, loss in enumerate(found, start=1):
                        record("curve", series, number * LOG_EVERY, loss)

    def judge(self, results: Results) -> Verdict:
        rate = results.xs("rate", "post")[-1]
        at, mean = partial(results.values, "rate"), partial(results.mean, "rate")
        post, post_warm, pre, pre_warm = (at(series, rate) for series in NAMES)
        return Verdict(
            decide(
                above(post, post_warm, by=0.1) and above(post, pre, by=0.1),
                above(post_warm, post) or above(pre, pre_warm, by=0.3),
            ),
            Text(
                "At a learning rate of {rate:g}, post-norm layers reach a loss of {post:.2f} without warm-up and "
                "{post_warm:.2f} with it; pre-norm layers {pre:.2f} and {pre_warm:.2f}. Guessing has {guess:.2f}.",
                "学习率为 {rate:g} 时，后归一化的损失在无预热时为 {post:.2f}，有预热时为 {post_warm:.2f}；"
                "前归一化分别为 {pre:.2f} 和 {pre_warm:.2f}。随机猜测为 {guess:.2f}。",
            ),
            {
                "rate": float(rate),
                "post": mean("post", rate),
                "post_warm": mean("post, warm-up", rate),
                "pre": mean("pre", rate),
                "pre_warm": mean("pre, warm-up", rate),
                "guess": math.log(WORDS),
            },
        )
