"""An experiment: a question, a hypothesis, measurements with several seeds, and a verdict computed from the numbers.

    measure(seed, effort, record)    train or compute; record(panel, series, x, y) for every number
    judge(results) -> Verdict        confirmed, refuted or not decided, and numbers that the sentence names

These two functions are in NAME.py, the texts in NAME.toml (texts.py). The hypothesis is the claim that students learn,
if there is one, so that "refuted" means: the measurement contradicts it.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from regard.lab.texts import Bilingual, Finding, Kind, Texts, parse_texts
from regard.reading import read_text

X = float | str
"""A position on the horizontal axis: a number or the name of a category."""
Record = Callable[[str, str, X, float], None]
"""record(panel, series, x, y): keep one number of one seed."""
T = TypeVar("T")
DIGITS = 6
"""Significant digits that are kept of a number."""


@dataclass(frozen=True)
class Effort:
    """How much an experiment computes: the full setting, or a quick one that only shows that all works."""

    quick: bool = False

    def pick(self, full: T, quick: T) -> T:
        return quick if self.quick else full


@dataclass(frozen=True)
class Verdict:
    """The result in one word, and the numbers of its sentence that are no mean over seeds."""

    kind: Kind
    numbers: Mapping[str, float] = field(default_factory=dict)
    findings: Mapping[str, Kind] = field(default_factory=dict)
    """The verdicts on the further claims of the experiment, by their key in the texts."""


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
        return statistics.fmean(self.values(panel, series, x))

    def spread(self, panel: str, series: str, x: X) -> float:
        """The standard deviation over seeds; 0 for one seed."""
        values = self.values(panel, series, x)
        return statistics.stdev(values) if len(values) > 1 else 0.0

    def means(self) -> "dict[str, _Means]":
        """The means by panel, series and x, as a sentence names them: {accuracy[both][2]:.0%}."""
        means = {}
        for panel, points in self._values.items():
            by_series = {name: _Means({x: self.mean(panel, name, x) for x in xs}) for name, xs in points.items()}
            means[panel] = _Means(by_series)
        return means

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


class _Means(dict[X, object]):
    """Numbers by key as `str.format` asks for them: 2 is 2.0 or "2", 0.5 is a number, first and last are positions."""

    def __missing__(self, key: X) -> object:
        if key in ("first", "last"):
            return [*self.values()][0 if key == "first" else -1]
        other: X = str(key) if isinstance(key, int) else float(key)
        if other not in self:
            raise KeyError(key)
        return self[other]


def above(first: Sequence[float], second: Sequence[float], by: float = 0.0) -> bool:
    """True if every seed of `first` exceeds every seed of `second` by more than `by`.

    With three seeds each, this happens by chance once in C(6, 3) = 20 times if there is no difference.
    """
    return min(first) > max(second) + by


def paired(first: Sequence[float], second: Sequence[float], by: float = 0.0) -> bool:
    """True if `first` exceeds `second` by more than `by` in each seed: both have the seed's data and first weights.

    With n seeds this happens by chance once in 2^n times if there is no difference (sign test): 1 in 32 with five.
    """
    return all(one > other + by for one, other in zip(first, second, strict=True))


STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201)
"""Quantiles 0.975 of Student's t with 1, 2, ... degrees of freedom."""


def interval(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """The 95 % confidence interval of the mean difference by seed, d ± t s / sqrt(n); infinite for one seed."""
    differences = [one - other for one, other in zip(first, second, strict=True)]
    if len(differences) < 2:
        return -math.inf, math.inf
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    mean, t = statistics.fmean(differences), STUDENT[min(len(differences) - 1, len(STUDENT)) - 1]
    return mean - t * error, mean + t * error


def equivalent(first: Sequence[float], second: Sequence[float], within: float = 0.02) -> bool:
    """True if the confidence interval of the difference lies inside of -within .. within: no difference that large."""
    low, high = interval(first, second)
    return -within < low and high < within


def decide(confirmed: bool, refuted: bool) -> Kind:
    """The verdict if the numbers confirm or refute the hypothesis; not decided if they do neither, or both."""
    return "not decided" if confirmed == refuted else "confirmed" if confirmed else "refuted"


@dataclass(frozen=True)
class Experiment:
    """One experiment: a module with `measure` and `judge`, which is imported when they are called, and its texts."""

    module: str

    @cached_property
    def path(self) -> Path:
        spec = find_spec(self.module)
        assert spec is not None and spec.origin is not None
        return Path(spec.origin)

    @cached_property
    def name(self) -> str:
        """The name in commands and files: that of the file, with hyphens."""
        return self.path.stem.replace("_", "-")

    @cached_property
    def texts(self) -> Texts:
        """What people read: NAME.toml beside the file, or `TEXTS` in it."""
        beside = self.path.with_suffix(".toml")
        source = read_text(beside) if beside.is_file() else getattr(import_module(self.module), "TEXTS", "")
        return parse_texts(source, beside if beside.is_file() else self.path)

    def seeds(self, effort: Effort) -> tuple[int, ...]:
        """The seeds of a full run, or one if it is quick."""
        return (1,) if effort.quick else tuple(range(self.texts.first_seed, self.texts.first_seed + self.texts.seeds))

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        """Compute the numbers of one seed and record them."""
        import_module(self.module).measure(seed, effort, record)

    def judge(self, results: Results) -> Verdict:
        """Compare the numbers with the hypothesis."""
        verdict: Verdict = import_module(self.module).judge(results)
        return verdict

    def sentence(self, results: Results, verdict: Verdict) -> Bilingual:
        """The result in words, if there are words for this verdict, and in numbers."""
        numbers = {**results.means(), **verdict.numbers}
        answer = self.texts.answer.get(verdict.kind, Bilingual("", ""))
        english, chinese = (text.format(**numbers) for text in self.texts.verdict)
        return Bilingual(f"{answer.en} {english}".lstrip(), answer.zh + chinese)

    def findings(self, results: Results, verdict: Verdict) -> list[tuple[Finding, Kind]]:
        """The further claims with their numbers and verdicts."""
        numbers, texts = {**results.means(), **verdict.numbers}, self.texts.findings
        return [
            (Finding(texts[key].claim, Bilingual(*(text.format(**numbers) for text in texts[key].numbers))), kind)
            for key, kind in verdict.findings.items()
        ]
