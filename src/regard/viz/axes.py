"""Values of a plot, and axes that turn numbers into places: for plots as SVG and in the terminal."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

LogAxes = Literal["", "x", "y", "xy"]


@dataclass(frozen=True)
class Point:
    """A mean and its spread, at a number or at a named place."""

    x: float | str
    mean: float
    spread: float = 0.0


@dataclass(frozen=True)
class Plot:
    """Series of points as lines, or as bars: one group of bars for each x. `log` names the logarithmic axes."""

    series: Mapping[str, Sequence[Point]]
    title: str = ""
    x: str = ""
    y: str = ""
    kind: Literal["lines", "bars"] = "lines"
    log: LogAxes = ""

    def groups(self) -> dict[str, dict[str, Point]]:
        """The points by the name of their x, then by series; in the order of x if they are numbers."""
        groups: dict[float | str, dict[str, Point]] = {}
        for name, points in self.series.items():
            for point in points:
                groups.setdefault(point.x, {})[name] = point
        where = self.places()
        return {x_name(x): groups[x] for x in sorted(groups, key=lambda x: where[x])}

    def table(self) -> tuple[list[str], list[list[str]]]:
        """The names of the columns, and for every x a row with mean ± spread of every series."""
        rows = [
            [name, *(value_name(group[kind]) if kind in group else "–" for kind in self.series)]
            for name, group in self.groups().items()
        ]
        return [self.x, *self.series], rows

    def places(self) -> dict[float | str, float]:
        """The number of each x on the lower axis: itself, or its order if some of them are names."""
        names = list(dict.fromkeys(point.x for points in self.series.values() for point in points))
        return {x: float(order) if isinstance(x, str) or self.has_names else x for order, x in enumerate(names)}

    @property
    def has_names(self) -> bool:
        """True if some x is a name."""
        return any(isinstance(point.x, str) for points in self.series.values() for point in points)


@dataclass(frozen=True)
class Axis:
    """From numbers to pixels: `low` at 0, `high` at `size`."""

    low: float
    high: float
    size: float
    log: bool

    @classmethod
    def over(cls, values: Sequence[float], size: float, log: bool) -> "Axis":
        """An axis that all values are on; a logarithm has none for what is not above 0."""
        if not values or not all(map(math.isfinite, values)):
            raise ValueError("there is nothing to draw, or not all of it is numbers")
        low, high = min(values), max(values)
        if log and low <= 0:
            raise ValueError(f"{low:g} has no place on a logarithmic axis")
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - 1, high + 1)
        return cls(low, high, size, log)

    @classmethod
    def of_points(cls, points: Sequence[Point], size: float, log: bool, bars: bool = False) -> "Axis":
        """An axis for means and their spreads.

        It begins at 0 if nothing is negative. A logarithmic one begins below the least positive value if some value is
        not positive, and for bars; without any positive value it is linear.
        """
        ends = [point.mean + sign * point.spread for point in points for sign in (-1, 1)]
        means = [point.mean for point in points]
        positive = [value for value in means if value > 0]
        if log and positive:
            low = min(positive)
            room = 10 ** math.floor(math.log10(low) - 1e-9) if bars or min(means) <= 0 else low
            return cls.over([room, *(end for end in ends if end >= low), *positive], size, True)
        return cls.over(ends if min(means) < 0 and not bars else [0.0, *ends], size, False)

    def rounded(self) -> "Axis":
        """An axis that ends at a round number, if it is linear."""
        ticks = self.ticks()
        if self.log or len(ticks) < 2:
            return self
        step = ticks[1] - ticks[0]
        return replace(self, high=round(math.ceil(self.high / step - 1e-6) * step, 10))

    def place(self, value: float) -> float:
        """The place of a value."""
        bend = math.log if self.log else float
        return (bend(value) - bend(self.low)) / (bend(self.high) - bend(self.low)) * self.size

    def bounded(self, value: float) -> float:
        """The place of a value, or the nearest end of the axis."""
        return self.place(min(max(value, self.low), self.high))

    def ticks(self) -> list[float]:
        """Round numbers, about six."""
        if self.log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for steps in ((1,), (1, 3), (1, 2, 5)):
                ticks = [step * 10.0**decade for decade in decades for step in steps]
                ticks = [tick for tick in ticks if self.low <= tick <= self.high]
                if len(ticks) >= 3:
                    return ticks[:: math.ceil(len(ticks) / 7)]
        rough = (self.high - self.low) / 5
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(times * unit for times in (1, 2, 2.5, 5, 10) if times * unit >= rough)
        first = math.ceil(self.low / step - 1e-9)
        return [round(n * step, 10) for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def plain(value: float, digits: int = 3) -> str:
    """A number to three digits; of a thousand or more all its digits but no fraction."""
    if 1000 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{float(f'{value:.{digits}g}'):g}"


def x_name(x: float | str) -> str:
    """A place on the lower axis as text."""
    return x if isinstance(x, str) else plain(x, 6)


def value_name(point: Point) -> str:
    """A mean, ± its spread if there is one."""
    return f"{plain(point.mean)} ± {plain(point.spread, 2)}" if point.spread else plain(point.mean)
