"""Experiments for tests, which take no time. They are found by processes too, which import this file."""

import os
import signal
from pathlib import Path
from typing import ClassVar

from regard.lab.experiment import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide

SWITCH = "REGARD_TEST_SWITCH"
"""The environment variable with a file whose text says how `Switched` behaves."""


class Doubles(Experiment):
    """Lines and bars, confirmed."""

    name = "doubles"
    topic = "foundations"
    title = Text("Is two x more than x?", "二倍大于一倍吗？")
    questions: ClassVar[tuple[Question, ...]] = (
        Question("000:7, 001:3-5", Text("Is it more?", "更大吗？"), Text("Yes.", "是。")),
    )
    hypothesis = Text("Two x is more than x.", "二倍大于一倍。")
    varied = Text("x", "x")
    measured = Text("x and two x", "一倍与二倍")
    refuted_if = Text("two x is less", "二倍更小")
    panels = (
        Panel("curve", Text("growth", "增长"), Text("x", "横轴"), Text("y", "纵轴"), log="xy"),
        Panel(
            "bars",
            Text("at the end", "最后"),
            Text("kind", "种类"),
            Text("y", "纵轴"),
            kind="bars",
            names={"once": Text("once", "一倍"), "twice": Text("twice", "二倍")},
        ),
    )
    papers = ("Nobody 1900, section 1",)
    seconds = 1

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        for x in effort.pick((1, 2, 4, 8), (1, 2)):
            record("curve", "once", x, x + 0.01 * seed)
            record("curve", "twice", x, 2 * x + 0.02 * seed)
        record("bars", "value", "once", 1 + 0.1 * seed)
        record("bars", "value", "twice", 2 + 0.1 * seed)

    def judge(self, results: Results) -> Verdict:
        once, twice = (results.values("bars", "value", name) for name in ("once", "twice"))
        numbers = {name: results.mean("bars", "value", name) for name in ("once", "twice")}
        template = Text("Once is {once:.2f}, twice is {twice:.2f}.", "一倍为 {once:.2f}，二倍为 {twice:.2f}。")
        return Verdict(decide(above(twice, once), above(once, twice)), template, numbers)


class Switched(Doubles):
    """It does what the file of the switch says: "fail" raises, "kill" kills its process at the second seed."""

    name = "switched"
    questions = (Question("001:2", Text("Is it less?", "更小吗？"), Text("–", "–")),)
    seconds = 5

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        path = Path(os.environ[SWITCH])
        wish = path.read_text() if path.exists() else ""
        if wish == "fail":
            raise RuntimeError("it was to fail")
        if wish == "kill" and seed == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if wish == "interrupt" and seed == 2:
            raise KeyboardInterrupt
        super().measure(seed, effort, record)


class Timed(Doubles):
    """As if it measured time."""

    name = "timed"
    timed = True
    topic = "attention"
    questions = ()

    def judge(self, results: Results) -> Verdict:
        return Verdict("not decided", Text("Nothing is known.", "尚不清楚。"))


MADE: dict[str, Experiment] = {made.name: made for made in (Timed(), Doubles(), Switched())}
