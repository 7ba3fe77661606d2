"""Does a higher temperature spread attention? An experiment in one file; `REGARD_PLUGINS` adds it to `regard lab`.

p = softmax(e / t),    exp(H(p)) is the number of keys that attention effectively has
"""

import torch

from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.registry import register_experiment

TEXTS = """
topic = "attention"
seconds = 1
[panels]
keys = { log = "x" }
[en]
title = "Does a higher temperature spread attention?"
hypothesis = "With a higher temperature, attention has more effective keys."
varied = "the temperature"
measured = "effective keys for random scores"
refuted_if = "there are fewer effective keys"
panels.keys = ["effective keys", "temperature", "exp(entropy)"]
answer.confirmed = "Yes: a higher temperature spreads attention over more keys."
verdict = "At the lowest temperature attention has {keys[scores][first]:.1f} effective keys, at the highest {keys[scores][last]:.1f}."
[zh]
title = "温度越高，注意力越分散吗？"
hypothesis = "温度越高，注意力的有效键数越多。"
varied = "温度"
measured = "随机分数下的有效键数"
refuted_if = "有效键数变少"
panels.keys = ["有效键数", "温度", "exp(熵)"]
answer.confirmed = "是的：温度越高，注意力分散到越多的键上。"
verdict = "温度最低时，注意力有 {keys[scores][first]:.1f} 个有效键；温度最高时，有 {keys[scores][last]:.1f} 个。"
"""  # noqa: E501


def measure(seed: int, effort: Effort, record: Record) -> None:
    """The effective keys of random scores at several temperatures."""
    scores = torch.randn(effort.pick(1000, 100), 16, generator=torch.Generator().manual_seed(seed))
    for temperature in (0.25, 1.0, 4.0):
        p = (scores / temperature).softmax(dim=-1)
        record("keys", "scores", temperature, float(torch.special.entr(p).sum(dim=-1).exp().mean()))


def judge(results: Results) -> Verdict:
    low, high = (results.values("keys", "scores", temperature) for temperature in (0.25, 4.0))
    return Verdict(decide(above(high, low), above(low, high)))


register_experiment(__name__)
