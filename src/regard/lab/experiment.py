"""An experiment: a question, a hypothesis, measurements with several seeds, and a verdict computed from the numbers.

    measure(seed, effort, record)    train or compute; record(panel, series, x, y) for every number
    Results                          the recorded numbers of all seeds: values, mean, spread
    judge(results) -> Verdict        confirmed, refuted or not decided, and one sentence in English and Chinese

The hypothesis is the claim of the notes if they make one, so that "refuted" means: the measurement contradicts it.
A sentence is a template and named numbers. It holds no digit of its own, so it cannot say more than was measured.
"""

import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple, TypeVar

X = float | str
"""A position on the horizontal axis: a number or the name of a category."""
Record = Callable[[str, str, X, float], None]
"""record(panel, series, x, y): keep one number of one seed."""
Kind = Literal["confirmed", "refuted", "not decided"]
T = TypeVar("T")

SEEDS = (1, 2, 3)
DIGITS = 6
"""Significant digits that are kept of a number."""


class Text(NamedTuple):
    """The same text in English and Chinese."""

    en: str
    zh: str


@dataclass(frozen=True)
class Question:
    """A question of the study notes, and the answer that the notes give."""

    notes: str
    """Where it is asked: "001:176" is line 176 of note 001; several places are separated by commas."""
    text: Text
    answer: Text
    """The answer of the notes; a dash if they give none."""


@dataclass(frozen=True)
class Panel:
    """How the numbers of one panel are drawn: lines over numbers, or bars for categories."""

    key: str
    title: Text
    x: Text
    y: Text
    kind: Literal["lines", "bars"] = "lines"
    log: Literal["", "x", "y", "xy"] = ""
    names: Mapping[str, Text] = field(default_factory=dict)
    """Names of series and categories in both languages; a missing one is shown as it is."""


@dataclass(frozen=True)
class Effort:
    """How much an experiment computes: the full setting, or a quick one that only shows that all works."""

    quick: bool = False

    def pick(self, full: T, quick: T) -> T:
        """The value for this effort."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Verdict:
    """The result in one word, and in one sentence: a template without digits, and the numbers that it names."""

    kind: Kind
    template: Text
    numbers: Mapping[str, float] = field(default_factory=dict)
    answers: Mapping[str, Kind] = field(default_factory=dict)
    """The verdict on single questions, by their place in the notes, if it is not `kind`."""

    @property
    def sentence(self) -> Text:
        """The sentence in both languages."""
        return Text(*(text.format(**self.numbers) for text in self.template))

    def on(self, question: Question) -> Kind:
        """The verdict on the answer of the notes to one question."""
        return self.answers.get(question.notes, self.kind)


Values = dict[str, dict[str, list[tuple[X, list[float | None]]]]]
"""panel -> series -> points (x, the value of each seed; None for a seed that did not record this x)."""


class Results:
    """The numbers of an experiment: for each panel, series and x, one value per seed."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = tuple(seeds)
        self._values: dict[str, dict[str, dict[X, dict[int, float]]]] = {}

    def record(self, seed: int, panel: str, series: str, x: X, y: float) -> None:
        """Keep one number of one seed; a number that is not finite is an error of the experiment."""
        if not math.isfinite(y):
            raise ValueError(f"{panel}, {series}, {x}: {y} is not a finite number")
        points = self._values.setdefault(panel, {}).setdefault(series, {})
        points.setdefault(x, {})[seed] = float(f"{y:.{DIGITS}g}")

    def panels(self) -> list[str]:
        """The panels that have numbers."""
        return list(self._values)

    def series(self, panel: str) -> list[str]:
        """The series of a panel, in the order in which they were recorded."""
        return list(self._values[panel])

    def xs(self, panel: str, series: str) -> list[X]:
        """The positions of a series, in the order in which they were recorded."""
        return list(self._values[panel][series])

    def values(self, panel: str, series: str, x: X) -> list[float]:
        """The value of each seed."""
        by_seed = self._values[panel][series][x]
        return [by_seed[seed] for seed in self.seeds if seed in by_seed]

    def mean(self, panel: str, series: str, x: X) -> float:
        """The mean over seeds."""
        return statistics.fmean(self.values(panel, series, x))

    def spread(self, panel: str, series: str, x: X) -> float:
        """The standard deviation over seeds; 0 for one seed."""
        values = self.values(panel, series, x)
        return statistics.stdev(values) if len(values) > 1 else 0.0

    def to_json(self) -> Values:
        """The numbers as plain JSON values."""
        return {
            panel: {
                series: [(x, [by_seed.get(seed) for seed in self.seeds]) for x, by_seed in points.items()]
                for series, points in by_series.items()
            }
            for panel, by_series in self._values.items()
        }

    @classmethod
    def from_json(cls, seeds: Sequence[int], values: Values) -> "Results":
        """The results that `to_json` wrote."""
        results = cls(seeds)
        for panel, by_series in values.items():
            for series, points in by_series.items():
                for x, numbers in points:
                    for seed, y in zip(seeds, numbers, strict=True):
                        if y is not None:
                            results.record(seed, panel, series, x, y)
        return results


def above(first: Sequence[float], second: Sequence[float], by: float = 0.0) -> bool:
    """True if every seed of `first` exceeds every seed of `second` by more than `by`.

    With three seeds each, this happens by chance once in C(6, 3) = 20 times if there is no difference.
    """
    return min(first) > max(second) + by


def decide(confirmed: bool, refuted: bool) -> Kind:
    """The verdict if the numbers confirm or refute the hypothesis; not decided if they do neither, or both."""
    return "not decided" if confirmed == refuted else "confirmed" if confirmed else "refuted"


def opposite(kind: Kind) -> Kind:
    """The verdict on a claim that denies the hypothesis."""
    return decide(confirmed=kind == "refuted", refuted=kind == "confirmed")


class Experiment(ABC):
    """One experiment. A subclass in a file of `experiments/` defines everything that follows."""

    name: ClassVar[str]
    """The name in commands and files: lower case with hyphens."""
    topic: ClassVar[str]
    """A key of TOPICS."""
    title: ClassVar[Text]
    """A few words."""
    questions: ClassVar[tuple[Question, ...]]
    hypothesis: ClassVar[Text]
    varied: ClassVar[Text]
    measured: ClassVar[Text]
    refuted_if: ClassVar[Text]
    """The result that would refute the hypothesis."""
    panels: ClassVar[tuple[Panel, ...]]
    seconds: ClassVar[int]
    """Time of the full setting on one idle core, about."""
    papers: ClassVar[tuple[str, ...]] = ()
    """References: "Vaswani et al. 2017, section 3.2.1"."""
    timed: ClassVar[bool] = False
    """True if it measures time: then it runs alone, and its numbers differ from run to run."""

    @abstractmethod
    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        """Compute the numbers of one seed and record them."""

    @abstractmethod
    def judge(self, results: Results) -> Verdict:
        """Compare the numbers with the hypothesis."""


TOPICS: dict[str, Text] = {
    "attention": Text("Attention", "注意力"),
    "positions": Text("Positions and order", "位置与顺序"),
    "layers": Text("Layers: residual, norm, feed-forward", "层：残差、归一化、前馈"),
    "encoder-decoder": Text("Encoder, decoder and masks", "编码器、解码器与掩码"),
    "recurrent": Text("Recurrent networks and gates", "循环网络与门控"),
    "training": Text("Training and regularisation", "训练与正则化"),
    "bert": Text("Pretraining and BERT", "预训练与 BERT"),
    "text": Text("Language models and text", "语言模型与文本"),
    "foundations": Text("Foundations: gradients and regression", "基础：梯度与回归"),
}
"""Topics in the order in which they are listed."""
