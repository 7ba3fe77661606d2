"""Lines and bars, confirmed."""

from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide

TEXTS = """
topic = "foundations"
seconds = 1
papers = ["Nobody 1900, section 1"]

[panels]
curve = { log = "xy" }
bars = { kind = "bars" }

[en]
title = "Is two x more than x?"
hypothesis = "Two x is more than x."
varied = "x"
measured = "x and two x"
refuted_if = "two x is less"
panels.curve = ["growth", "x", "y"]
panels.bars = ["at the end", "kind", "y"]
answer.confirmed = "It is more."
verdict = "Once is {bars[value][once]:.2f}, twice is {bars[value][twice]:.2f}, {times:.1f} times as much."

[zh]
title = "二倍大于一倍吗？"
hypothesis = "二倍大于一倍。"
varied = "x"
measured = "一倍与二倍"
refuted_if = "二倍更小"
panels.curve = ["增长", "横轴", "纵轴"]
panels.bars = ["最后", "种类", "纵轴"]
answer.confirmed = "确实更大。"
verdict = "一倍为 {bars[value][once]:.2f}，二倍为 {bars[value][twice]:.2f}，是 {times:.1f} 倍。"

[zh.names]
once = "一倍"
twice = "二倍"
"""


def measure(seed: int, effort: Effort, record: Record) -> None:
    """Record lines and bars."""
    for x in effort.pick((1, 2, 4, 8), (1, 2)):
        record("curve", "once", x, x + 0.01 * seed)
        record("curve", "twice", x, 2 * x + 0.02 * seed)
    record("bars", "value", "once", 1 + 0.1 * seed)
    record("bars", "value", "twice", 2 + 0.1 * seed)


def judge(results: Results) -> Verdict:
    once, twice = (results.values("bars", "value", name) for name in ("once", "twice"))
    return Verdict(decide(above(twice, once), above(once, twice)), {"times": sum(twice) / sum(once)})
