"""Experiments as classes: the form before NAME.toml. Removed with the last of them."""

import inspect
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from regard.lab import experiment, texts
from regard.lab.experiment import Effort, Record, Results, above, decide, opposite
from regard.lab.texts import Bilingual as Text
from regard.lab.texts import Kind, Panel, Texts

__all__ = ["Effort", "Experiment", "Kind", "Panel", "Question", "Record", "Results", "Text", "Verdict", "above",
           "decide", "opposite"]  # fmt: skip
POSITION_NAMES = {
    "sinusoidal": Text("sinusoidal", "正弦"),
    "learned": Text("learned", "可学习"),
    "rotary": Text("rotary", "旋转（RoPE）"),
    "relative": Text("relative", "相对"),
    "alibi": Text("ALiBi", "ALiBi"),
    "none": Text("none", "无位置"),
}


class Question(texts.Question):
    def __init__(self, notes: str, text: Text, answer: Text) -> None:
        super().__init__(notes, notes, text, answer)


class Verdict(experiment.Verdict):
    def __init__(
        self,
        kind: Kind,
        template: Text,
        numbers: Mapping[str, float] | None = None,
        answers: Mapping[str, Kind] | None = None,
    ) -> None:
        super().__init__(kind, numbers or {}, answers or {})
        object.__setattr__(self, "template", template)


class Experiment(experiment.Experiment):
    name: ClassVar[str]
    topic: ClassVar[str]
    title: ClassVar[Text]
    questions: ClassVar[tuple[texts.Question, ...]]
    hypothesis: ClassVar[Text]
    varied: ClassVar[Text]
    measured: ClassVar[Text]
    refuted_if: ClassVar[Text]
    panels: ClassVar[tuple[Panel, ...]]
    seconds: ClassVar[int]
    papers: ClassVar[tuple[str, ...]] = ()
    timed: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__(type(self).__module__)

    @cached_property
    def path(self) -> Path:
        return Path(inspect.getfile(type(self)))

    @cached_property
    def texts(self) -> Texts:
        everywhere = {key: name for panel in self.panels for key, name in panel.names.items()}
        panels = tuple(
            Panel(each.key, each.title, each.x, each.y, each.kind, each.log, everywhere | dict(each.names))
            for each in self.panels
        )
        return Texts(
            self.topic, self.seconds, panels, self.questions, self.title, self.hypothesis, self.varied, self.measured,
            self.refuted_if, Text("", ""), papers=self.papers, timed=self.timed,
        )  # fmt: skip

    @abstractmethod
    def measure(self, seed: int, effort: Effort, record: Record) -> None: ...

    @abstractmethod
    def judge(self, results: Results) -> experiment.Verdict: ...

    def sentence(self, results: Results, verdict: experiment.Verdict) -> Text:
        return Text(*(text.format(**verdict.numbers) for text in verdict.template))  # type: ignore[attr-defined]
