"""Results as plots and tables in one language, and the pictures beside the file of an experiment."""

from dataclasses import dataclass
from pathlib import Path

from regard.files import write_text
from regard.lab.experiment import X
from regard.lab.records import Finished
from regard.lab.texts import Language, Panel
from regard.viz.axes import Plot, Point, plain, value_name, x_name
from regard.viz.plots import plots_svg

DIGITS = 4
"""Digits of the number of one seed in tables."""


@dataclass(frozen=True)
class Cell:
    """The numbers of one series at one x: mean ± spread, and the value of every seed."""

    mean: str
    seeds: str


@dataclass(frozen=True)
class PanelTable:
    """The numbers of one panel: a row for every x, a column for every series; None where nothing was measured."""

    title: str
    columns: list[str]
    rows: list[tuple[str, list[Cell | None]]]


def plots_of(finished: Finished, language: Language) -> list[Plot]:
    """The panels of an experiment with mean and standard deviation over seeds."""
    results, plots = finished.results, []
    for panel in finished.experiment.texts.panels:
        series = {
            _series(finished, panel, key, language): [
                Point(_x(panel, x, language), results.mean(panel.key, key, x), results.spread(panel.key, key, x))
                for x in results.xs(panel.key, key)
            ]
            for key in results.series(panel.key)
        }
        title, x, y = (text.to(language) for text in (panel.title, panel.x, panel.y))
        plots.append(Plot(series, title, x, y, panel.kind, panel.log))
    return plots


def tables_of(finished: Finished, language: Language) -> list[PanelTable]:
    results, tables = finished.results, []
    for panel, plot in zip(finished.experiment.texts.panels, plots_of(finished, language), strict=True):
        keys = dict(zip(plot.series, results.series(panel.key), strict=True))
        xs = {x_name(_x(panel, x, language)): x for key in keys.values() for x in results.xs(panel.key, key)}
        rows: list[tuple[str, list[Cell | None]]] = []
        for name, group in plot.groups().items():
            seeds = {kind: results.values(panel.key, keys[kind], xs[name]) for kind in group}
            shown = {
                kind: Cell(value_name(point), ", ".join(plain(value, DIGITS) for value in seeds[kind]))
                for kind, point in group.items()
            }
            rows.append((name, [shown.get(kind) for kind in plot.series]))
        unit = f" ({plot.y})" if len(plot.series) > 1 else ""
        tables.append(PanelTable(plot.title + unit, [plot.x, *plot.series], rows))
    return tables


def picture_paths(folder: Path, name: str) -> dict[Language, Path]:
    return {"en": folder / f"{name}.svg", "zh": folder / f"{name}.zh.svg"}


def picture_of(finished: Finished, language: Language) -> str:
    return plots_svg(plots_of(finished, language))


def write_pictures(finished: Finished, folder: Path) -> None:
    for language, path in picture_paths(folder, finished.experiment.name).items():
        write_text(path, picture_of(finished, language))


def _series(finished: Finished, panel: Panel, key: str, language: Language) -> str:
    """The name of a series; the only one of a panel is called as the axis if it has no name."""
    if key in panel.names:
        return panel.names[key].to(language)
    return panel.y.to(language) if len(finished.results.series(panel.key)) == 1 else key


def _x(panel: Panel, x: X, language: Language) -> X:
    return panel.names[x].to(language) if isinstance(x, str) and x in panel.names else x
