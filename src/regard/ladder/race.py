"""A race: how good models are after so many seconds of training, and after so many operations.

    seconds   time in training steps on one device, without validations
    FLOP      6 N D for the tokens D read so far (`measuring.model_flops`)

A ladder compares models at the end of training. A race compares all the way there: a model may be ahead by time and
behind by operations, if its operations run in parallel. The curves come from the validations that each run has logged.
A level is reached at the first validation that is at least as good.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.files import JsonObject
from regard.ladder.ladder import Ladder, read_results
from regard.messages import Message, localize
from regard.run.report import read_metrics
from regard.training.settings import LOWER_IS_BETTER
from regard.viz.axes import Plot, Point
from regard.viz.plots import plots_svg
from regard.viz.report import column_title

VALIDATIONS = 12
"""Points of a curve."""
SHARES = (0.5, 0.9, 1.0)
"""The levels of the table: these shares of the best score of the model whose best score is worst."""
TERA = 1e12


@dataclass(frozen=True)
class RacePoint:
    """One validation: how much training came before it, and its score, with the spread over seeds."""

    step: int
    seconds: float
    flops: float
    score: float
    spread: float = 0.0


@dataclass(frozen=True)
class Race:
    """The curve of each variant, by title, and the metric of the scores."""

    monitor: str
    curves: dict[str, list[RacePoint]]

    @property
    def name(self) -> str:
        """The metric for people, e.g. BLEU or exact match."""
        return column_title(self.monitor).replace("_", " ")

    @property
    def levels(self) -> list[float]:
        """Scores that every variant reaches, the easiest first."""
        lower = self.monitor in LOWER_IS_BETTER
        best = [(min if lower else max)(point.score for point in curve) for curve in self.curves.values()]
        worst = (max if lower else min)(best, default=0.0)
        return [worst / share if lower else worst * share for share in SHARES]

    def reached(self, title: str, level: float) -> RacePoint | None:
        """The first validation of a variant that is at least as good as a score; None if there is none."""
        sign = -1 if self.monitor in LOWER_IS_BETTER else 1
        return next((point for point in self.curves[title] if sign * point.score >= sign * level), None)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Column titles, and for each variant the seconds and TFLOP to every level."""
        sign = "≤" if self.monitor in LOWER_IS_BETTER else "≥"
        titles = [f"{self.name} {sign} {level:.3g}" for level in self.levels]
        rows = []
        for title in self.curves:
            points = [self.reached(title, level) for level in self.levels]
            cells = [f"{point.seconds:.1f} s, {point.flops / TERA:.3g} TFLOP" if point else "–" for point in points]
            rows.append([title, *cells])
        return [Message("variant"), *titles], rows

    def svg(self, chinese: bool) -> str:
        """Both plots in one picture: the score over seconds, and over TFLOP."""

        def plot(name: str, unit: float, x: Message) -> Plot:
            series = {
                localize(title, chinese): [Point(getattr(p, name) / unit, p.score, p.spread) for p in curve]
                for title, curve in self.curves.items()
            }
            title = localize(Message("{score} over {x}", score=self.name, x=x), chinese)
            return Plot(series, title, localize(x, chinese))

        seconds, flops = Message("training time in seconds"), Message("training operations in TFLOP")
        return plots_svg([plot("seconds", 1.0, seconds), plot("flops", TERA, flops)])

    def to_json(self) -> JsonObject:
        curves = {str(title): [vars(point) for point in points] for title, points in self.curves.items()}
        return {"monitor": self.monitor, "levels": self.levels, "curves": curves}


def race_settings(steps: int) -> list[str]:
    """Settings that validate a training of so many steps often enough for a curve, with a log line before each."""
    every = max(1, steps // VALIDATIONS)
    return [f"training.validate_every={every}", f"training.log_every={every}"]


def read_race(ladder: Ladder) -> Race:
    """The race of all finished runs in the folder of a ladder; models without gradient steps take no part."""
    monitor, results = ladder.base.training.monitor, read_results(ladder)
    curves: dict[str, list[RacePoint]] = {}
    for variant in ladder.variants.variants:
        runs = [result for result in results if result["variant"] == variant.name and result["flops"]]
        folders = [ladder.run_folder(variant.name, result["seed"]) for result in runs]
        if seeds := [run_curve(*run, monitor) for run in zip(folders, runs, strict=True)]:
            curves[variant.title] = mean_curve(seeds)
    return Race(monitor, curves)


def run_curve(folder: Path, result: JsonObject, monitor: str) -> list[RacePoint]:
    """The validations of one run; the log counts tokens and speed since its last line."""
    points, seconds, tokens = [], 0.0, 0
    for record in read_metrics(folder):
        if record["kind"] == "train":
            seconds += (record["tokens"] - tokens) / record["tokens_per_second"]
            tokens = record["tokens"]
        elif monitor in record["metrics"]:
            flops = result["flops"] * tokens / result["tokens"]
            points.append(RacePoint(record["step"], seconds, flops, record["metrics"][monitor]))
    return points


def mean_curve(seeds: Sequence[Sequence[RacePoint]]) -> list[RacePoint]:
    """The means over seeds, for every validation that all of them have."""
    means = []
    for points in zip(*seeds, strict=False):
        scores = [point.score for point in points]
        seconds, flops = (statistics.fmean(getattr(point, name) for point in points) for name in ("seconds", "flops"))
        spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
        means.append(RacePoint(points[0].step, seconds, flops, statistics.fmean(scores), spread))
    return means
