"""What `regard lab` prints: the list of experiments, one result with its plot, a summary of many."""

import shutil
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from regard.cli.screen import in_colour, print_drawing, print_json, print_result, print_table, report
from regard.cli.shell import as_called, language
from regard.files import JsonObject
from regard.lab.experiment import Experiment
from regard.lab.gallery import PAGE
from regard.lab.pages import write_pages
from regard.lab.presenting import picture_paths, plots_of, tables_of
from regard.lab.records import Finished, find_finished, verdict_json
from regard.lab.registry import by_topic
from regard.lab.running import Failure, Outcome
from regard.lab.texts import KINDS, Language, say, words
from regard.messages import format_duration
from regard.viz.cells import cut, pad_left, pad_right, width
from regard.viz.panel import Screen
from regard.viz.plots_text import plot_text

MAX_COLUMNS = 120
MAX_ROWS = 20
"""Rows of a table that is printed; a longer one is on the page and in the JSON file."""


def print_list(experiments: Sequence[Experiment], folder: Path, as_json: bool) -> None:
    """The experiments by topic: name, question, seconds of CPU time, last verdict."""
    found = {experiment.name: find_finished(folder, experiment) for experiment in experiments}
    if as_json:
        print_json([list_values(experiment, found[experiment.name]) for experiment in experiments])
        return
    screen, spoken = Screen(in_colour()), language()
    columns = min(screen.columns, MAX_COLUMNS)
    side = max(width(experiment.name) for experiment in experiments)
    states = {name: state_of(finished, spoken) for name, finished in found.items()}
    end = max(map(width, states.values()))
    room = columns - side - end - 14
    for topic, of_topic in groupby(experiments, lambda experiment: experiment.texts.topic):
        print_drawing(screen.bold(words(spoken)["topics"][topic]))
        for experiment in of_topic:
            name, texts = experiment.name, experiment.texts
            middle = pad_right(cut(texts.title.to(spoken), room), room)
            seconds = pad_left(say(spoken, "seconds", seconds=texts.seconds), 6)
            print_result(f"  {pad_right(name, side)}  {middle} {seconds}  {states[name]}".rstrip())
    report(as_called(say(spoken, "start")))


def state_of(finished: Finished | None, spoken: Language) -> str:
    """The verdict, and whether it is of a quick run or of older code."""
    if finished is None:
        return ""
    notes = [key for key, holds in (("quick", finished.effort.quick), ("outdated", not finished.is_current)) if holds]
    parts = [words(spoken)["kinds"][finished.verdict.kind], *(say(spoken, key) for key in notes)]
    return say(spoken, "comma").join(parts)


def list_values(experiment: Experiment, finished: Finished | None) -> JsonObject:
    texts = experiment.texts
    return {
        "name": experiment.name,
        "topic": texts.topic,
        "title": texts.title._asdict(),
        "seconds": texts.seconds,
        "verdict": verdict_json(finished.verdict, finished.sentence) if finished else None,
    }


def print_outcomes(outcomes: Sequence[Outcome], folder: Path, in_short: bool, as_json: bool) -> None:
    """The experiments that were run: as JSON, in a line each, or in full."""
    if as_json:
        print_json([outcome_values(outcome, folder) for outcome in outcomes])
    elif in_short:
        print_summary(outcomes, folder)
    else:
        for outcome in outcomes:
            print_outcome(outcome, folder)


def print_outcome(outcome: Outcome, folder: Path) -> None:
    """One experiment: its question, tables, plots, verdict and files; or its error."""
    name, spoken, screen = outcome.experiment.name, language(), Screen(in_colour())
    if isinstance(outcome, Failure):
        report(name + say(spoken, "colon") + say(spoken, "failed_because", reason=outcome.reason))
        return
    texts = outcome.experiment.texts
    print_drawing(screen.bold(texts.title.to(spoken)))
    print_result(f"{texts.hypothesis.to(spoken)}\n")
    for table, plot in zip(tables_of(outcome, spoken), plots_of(outcome, spoken), strict=True):
        rows = [[x, *(cell.mean if cell else "–" for cell in cells)] for x, cells in table.rows]
        print_drawing(plot_text(plot, min(screen.columns, MAX_COLUMNS), screen.colour))
        print_result("")
        if len(rows) <= MAX_ROWS:
            print_table(table.columns, rows, right=table.columns[1:])
            print_result("")
    print_drawing(screen.bold(state_of(outcome, spoken)) + say(spoken, "colon") + outcome.sentence.to(spoken))
    for finding, kind in outcome.findings:
        spoken_kind, claim, numbers = words(spoken)["kinds"][kind], finding.claim.to(spoken), finding.numbers.to(spoken)
        print_drawing("- " + say(spoken, "finding_line", kind=spoken_kind, claim=claim, numbers=numbers))
    seeds, files = len(outcome.results.seeds), ", ".join(map(str, files_of(outcome, folder)))
    key = "one_seed" if seeds == 1 else "several_seeds"
    report(say(spoken, key, seeds=seeds, seconds=round(outcome.seconds), files=files))


def files_of(finished: Finished, folder: Path) -> list[Path]:
    """The files of an experiment that exist, and the gallery."""
    paths = [finished.path, *picture_paths(folder, finished.experiment.name).values(), folder / PAGE]
    return [path for path in paths if path.exists()]


def print_summary(outcomes: Sequence[Outcome], folder: Path) -> None:
    """Many experiments: the verdict and sentence of each, and the errors."""
    spoken = language()
    kinds = words(spoken)["kinds"]
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    side = max(width(outcome.experiment.name) for outcome in outcomes)
    states = max(width(kinds[kind]) for kind in KINDS)
    by_name = {outcome.experiment.name: outcome for outcome in outcomes}
    for experiment in by_topic(outcome.experiment for outcome in outcomes):
        outcome = by_name[experiment.name]
        if isinstance(outcome, Failure):
            state, sentence = say(spoken, "failed"), outcome.reason
        else:
            state, sentence = kinds[outcome.verdict.kind], outcome.sentence.to(spoken)
        start = f"{pad_right(outcome.experiment.name, side)}  {pad_right(state, states)}  "
        print_result(start + (cut(sentence, max(20, columns - width(start))) if columns else sentence))
    finished = [outcome for outcome in outcomes if isinstance(outcome, Finished)]
    counts = {kind: sum(each.verdict.kind == kind for each in finished) for kind in KINDS}
    verdicts = [say(spoken, "count", count=count, kind=kinds[kind]) for kind, count in counts.items()]
    time, failed = format_duration(sum(each.seconds for each in finished)), len(outcomes) - len(finished)
    shown = say(spoken, "comma").join(verdicts)
    report(say(spoken, "summary", verdicts=shown, failed=failed, time=time, page=folder / PAGE))


def outcome_values(outcome: Outcome, folder: Path) -> JsonObject:
    """An experiment that was run, as JSON values."""
    if isinstance(outcome, Failure):
        return {"name": outcome.experiment.name, "error": outcome.reason}
    return {
        "name": outcome.experiment.name,
        "verdict": verdict_json(outcome.verdict, outcome.sentence),
        "seeds": list(outcome.results.seeds),
        "seconds": outcome.seconds,
        "values": outcome.results.to_json(),
        "files": [str(path) for path in files_of(outcome, folder)],
    }


def write_all_pages(folder: Path, docs: Path) -> None:
    report(say(language(), "written", docs=docs, count=len(write_pages(folder, docs))))
