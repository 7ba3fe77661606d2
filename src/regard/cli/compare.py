"""regard compare: settings, training curves and scores of several runs, side by side."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from regard.cli import screen
from regard.cli.options import AsJson, DataOptions, FigureFile, ModelOptions, Runs
from regard.cli.screen import print_json, print_table, report, to_json
from regard.cli.streams import work_on
from regard.errors import UserError
from regard.messages import Message, localize

if TYPE_CHECKING:
    from regard.metrics.significance import Comparison
    from regard.run.model import Evaluation
    from regard.viz.axes import Plot

NOT_COMPARED = ("no-data", "different-data", "unsupported-option", "wrong-task")
"""Codes of the errors that leave out scores or tests; settings and curves are shown all the same."""


def compare(
    runs: Runs,
    data: DataOptions,
    model: ModelOptions,
    figure: FigureFile = None,
    everything: Annotated[bool, Option("--all", help="List equal settings too.")] = False,
    no_scores: Annotated[bool, Option("--no-scores", help="Compare settings and curves only.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare runs: settings that differ, training curves, scores."""
    from regard.run.facts import compare_settings, require_run
    from regard.run_files import find_run
    from regard.viz.figures import check_figure, write_figure
    from regard.viz.plots import plots_svg
    from regard.viz.plots_text import plot_text

    folders = {run: find_run(run) for run in runs}
    for folder in folders.values():
        require_run(folder)
    if len({folder.resolve() for folder in folders.values()}) < max(2, len(runs)):
        raise UserError("compare needs different runs, at least two", "name them", code="missing-input", where="RUN")
    settings, plots = compare_settings([*folders.values()], everything), curve_plots(folders)
    if figure is not None:
        check_figure(figure)
        if not plots:
            raise UserError("no run logged a training", "leave `--figure` out", code="no-data", where="figure")
    scored, tests, problem = ({}, {}, "") if no_scores else score_runs(runs, data, model)
    if figure is not None:
        write_figure(figure, plots_svg([*plots.values()]))
        report(Message("picture: {path}", path=figure))
    if as_json:
        values = {
            "curves": {name: points_by_run(plot) for name, plot in plots.items()},
            "scores": {run: item.to_json(texts=False) for run, item in scored.items()},
            "comparison": {run: [asdict(item) for item in items] for run, items in tests.items()},
        }
        print_json({"runs": runs, "settings": settings, **values, "problem": problem, "figure": figure and str(figure)})
        return
    rows = [[name, *("" if value is None else to_json(value) for value in row)] for name, row in settings.items()]
    print_table((Message("setting"), *runs), rows)
    for plot in plots.values() if sys.stdout.isatty() and figure is None else ():
        screen.print_drawing(f"\n{plot_text(plot, screen.panel().columns, screen.in_colour())}")
    print_scores(scored, tests)
    if problem:
        report(Message("not compared: {problem}", problem=problem))


def points_by_run(plot: "Plot") -> dict[str, list[tuple[float | str, float]]]:
    return {run: [(point.x, point.mean) for point in line] for run, line in plot.series.items()}


def curve_plots(folders: Mapping[str, Path]) -> "dict[str, Plot]":
    """The losses and the monitored metrics by step, each with a line for every run that logged some."""
    from regard.run.facts import read_facts
    from regard.run.report import loss_curves, monitor_curve, read_metrics
    from regard.viz.axes import Plot, Point
    from regard.viz.report import column_title

    lines: dict[str, dict[str, list[Point]]] = {}
    for run, folder in folders.items():
        records = read_metrics(folder)
        monitor = monitor_curve(records, read_facts(folder).monitor)
        for name, points in {**loss_curves(records), **({monitor.name: monitor.points} if monitor else {})}.items():
            empty: dict[str, list[Point]] = {other: [] for other in folders}  # a run has its colour in every plot
            lines.setdefault(name, empty)[run] = [Point(*point) for point in points if math.isfinite(point[1])]
    plots = {name: Plot(series, column_title(name), localize(Message("step"))) for name, series in lines.items()}
    return {name: plot for name, plot in plots.items() if any(plot.series.values())}


def score_runs(
    runs: Sequence[str], data: DataOptions, options: ModelOptions
) -> "tuple[dict[str, Evaluation], dict[str, list[Comparison]], str]":
    """The evaluation of each run, its tests against the first one, and why some are missing ("" if none is)."""
    from regard.data.accounts import collect_accounts

    scored: dict[str, Evaluation] = {}
    try:
        first = options.load(runs[0])
        models = [first, *(options.load(run, task=first.task.name) for run in runs[1:])]
        for run in runs:
            model = models.pop(0)  # one model after the other is in memory
            name, sources = data.select(model.task)
            title, path = Message("{run}, predicted:", run=run), str(model.evaluation_path(name, {}, sources))
            with collect_accounts(report), work_on(title, path, None, model, model.identity(name, sources, {})):
                scored[run] = model.stored_evaluation(name, sources)
        return scored, {run: first.compare(scored[runs[0]], scored[run]) for run in runs[1:]}, ""
    except UserError as error:
        if error.code not in NOT_COMPARED:
            raise
        return scored, {}, error.problem


def print_scores(scored: "Mapping[str, Evaluation]", tests: "Mapping[str, Sequence[Comparison]]") -> None:
    """A table of all scores, with a column for each run, and the tests of all runs against the first one."""
    from regard.viz.report import column_title

    values = [{score.name: f"{score.value:.2f}" for score in item.scores} for item in scored.values()]
    names = dict.fromkeys(name for scores in values for name in scores)
    rows = [[column_title(name), *(scores.get(name, "") for scores in values)] for name in names]
    if rows:
        print_table((Message("metric"), *scored), rows, right=[*scored])
    for run, items in tests.items():
        screen.print_comparison(items, next(iter(scored)), run)
