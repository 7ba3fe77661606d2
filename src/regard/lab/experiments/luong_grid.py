"""Scores and kinds of attention: Luong et al. 2015, table 4, in small.

A recurrent decoder attends to the source with a score, and a kind that turns scores into weights:

    dot       q . k                     global    all source words
    general   q . W k                   local-m   a window around p_t = t
    concat    v . tanh(W [q; k])        local-p   a window around a predicted p_t, times a Gaussian

local-m assumes that word t of the target stands for word t of the source. So digits are copied, where that is true, and
reversed, where it is not. The window of two digits on either side is smaller than a sentence. The paper's fourth score,
location, looks at the query alone; it is not a part of regard.
"""

from functools import partial
from statistics import fmean

import torch

from regard.files import JsonObject
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toy_pairs import SHIFT, exact_match, pair_batch, translation_loss
from regard.lab.toys import ToyTensors, fit_toy, generator_of, seeded
from regard.models.recurrent import RecurrentModel, RecurrentSettings

DIGITS, WINDOW = 10, 2
KINDS = ("global", "local-m", "local-p")
SCORES = ("dot", "general", "concat")


def digit_pairs(generator: torch.Generator, task: str, size: int = 32) -> ToyTensors:
    """Six to nine random digits; the target is the same digits, in reverse for that task."""
    lengths = torch.randint(6, 10, (size,), generator=generator).tolist()
    rows = [torch.randint(DIGITS, (length,), generator=generator).tolist() for length in lengths]
    return pair_batch(rows, [row[::-1] for row in rows] if task == "reverse" else rows)


def build(score: str, kind: str) -> RecurrentModel:
    """A small GRU encoder and Luong's decoder with this attention."""
    values: JsonObject = {"attention": kind, "score": score} | ({"window": WINDOW} if kind != "global" else {})
    settings = RecurrentSettings(
        decoder="luong", cell="gru", layers=1, encoder="forward", d_embedding=32, d_model=64, input_feeding=False,
        dropout=0.0, **values,
    )  # fmt: skip
    return RecurrentModel(settings, SHIFT + DIGITS, SHIFT + DIGITS)


def measure(seed: int, effort: Effort, record: Record) -> None:
    for task, scores in (("reverse", effort.pick(SCORES, ("general",))), ("copy", ("general",))):
        for score in scores:
            for kind in KINDS:
                seeded(seed, "weights")
                model = build(score, kind)
                batch = partial(digit_pairs, task=task)
                fit_toy(
                    model, batch, translation_loss, steps=effort.pick(150, 25), rate=1e-2, warmup=20,
                    schedule="linear", seed=seed,
                )  # fmt: skip
                record(task, kind, score, exact_match(model, batch(generator_of(seed, "test"), size=300)))


def judge(results: Results) -> Verdict:
    scores = results.xs("reverse", "global")
    best = {kind: max((results.values("reverse", kind, score) for score in scores), key=fmean) for kind in KINDS}
    wins = all(above(best["global"], best[kind]) for kind in KINDS[1:])
    loses = any(above(best[kind], best["global"]) for kind in KINDS[1:])
    return Verdict(decide(wins, loses), {kind.replace("-", "_"): fmean(values) for kind, values in best.items()})
