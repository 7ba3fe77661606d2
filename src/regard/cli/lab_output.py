"""What `regard lab` prints: the list of experiments, one result with its plot, a summary of many."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from regard.cli.screen import in_colour, print_drawing, print_json, print_result, print_table, report
from regard.cli.shell import as_called
from regard.files import JsonObject
from regard.lab.experiment import TOPICS, Experiment, Text
from regard.lab.gallery import PAGE
from regard.lab.pages import write_pages
from regard.lab.presenting import KINDS, Language, in_language, picture_paths, plots_of, tables_of
from regard.lab.records import Finished, find_finished, verdict_json
from regard.lab.running import Failure, Outcome
from regard.messages import is_chinese
from regard.training.console import format_duration
from regard.viz.cells import cut, pad_left, pad_right, width
from regard.viz.panel import Screen
from regard.viz.plots_text import plot_text

MAX_COLUMNS = 120
MAX_ROWS = 20
"""Rows of a table that is printed; a longer one is on the page and in the JSON file."""
BEGINNING = Text(
    "regard lab NAME runs one, regard lab --all all of them.", "regard lab NAME 运行一个，regard lab --all 运行全部。"
)
OUTDATED = Text("with older code", "由旧代码得出")
ONE_SEED = Text("quick", "快速")


def language() -> Language:
    """The language of the terminal."""
    return "zh" if is_chinese() else "en"


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
    for topic, title in TOPICS.items():
        of_topic = [experiment for experiment in experiments if experiment.topic == topic]
        if of_topic:
            print_drawing(screen.bold(in_language(title, spoken)))
        for experiment in of_topic:
            room = columns - side - end - 14
            middle = pad_right(cut(in_language(experiment.title, spoken), room), room)
            seconds = pad_left(f"{experiment.seconds} s", 6)
            print_result(
                f"  {pad_right(experiment.name, side)}  {middle} {seconds}  {states[experiment.name]}".rstrip()
            )
    report(as_called(in_language(BEGINNING, spoken)))


def state_of(finished: Finished | None, spoken: Language) -> str:
    """The verdict, and whether it is of a quick run or of older code."""
    if finished is None:
        return ""
    notes = [note for note, holds in ((ONE_SEED, finished.effort.quick), (OUTDATED, not finished.is_current)) if holds]
    shown = "".join(f", {in_language(note, spoken)}" for note in notes)
    return in_language(KINDS[finished.verdict.kind], spoken) + shown


def list_values(experiment: Experiment, finished: Finished | None) -> JsonObject:
    """An experiment in the list, as JSON values."""
    return {
        "name": experiment.name,
        "topic": experiment.topic,
        "title": experiment.title._asdict(),
        "questions": [{"notes": each.notes, **each.text._asdict()} for each in experiment.questions],
        "seconds": experiment.seconds,
        "verdict": verdict_json(finished.verdict) if finished else None,
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
        report(f"{name} failed: {outcome.reason}")
        return
    experiment = outcome.experiment
    print_drawing(screen.bold(in_language(experiment.title, spoken)))
    print_result(f"{in_language(experiment.hypothesis, spoken)}\n")
    for table, plot in zip(tables_of(outcome, spoken), plots_of(outcome, spoken), strict=True):
        rows = [[x, *(cell.mean if cell else "–" for cell in cells)] for x, cells in table.rows]
        print_drawing(plot_text(plot, min(screen.columns, MAX_COLUMNS), screen.colour))
        print_result("")
        if len(rows) <= MAX_ROWS:
            print_table(table.columns, rows, right=table.columns[1:])
            print_result("")
    print_drawing(f"{screen.bold(state_of(outcome, spoken))}: {in_language(outcome.verdict.sentence, spoken)}")
    seeds = f"{len(outcome.results.seeds)} seed{'s' * (len(outcome.results.seeds) > 1)}"
    report(f"{seeds}, {outcome.seconds:.0f} s; {', '.join(map(str, files_of(outcome, folder)))}")


def files_of(finished: Finished, folder: Path) -> list[Path]:
    """The files of an experiment that exist, and the gallery."""
    paths = [finished.path, *picture_paths(folder, finished.experiment.name).values(), folder / PAGE]
    return [path for path in paths if path.exists()]


def print_summary(outcomes: Sequence[Outcome], folder: Path) -> None:
    """Many experiments: the verdict and sentence of each, and the errors."""
    spoken = language()
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    side = max(width(outcome.experiment.name) for outcome in outcomes)
    states = max(width(text.zh if spoken == "zh" else text.en) for text in KINDS.values())
    for outcome in sorted(outcomes, key=lambda outcome: [*TOPICS].index(outcome.experiment.topic)):
        if isinstance(outcome, Failure):
            state, sentence = "failed", outcome.reason
        else:
            state = in_language(KINDS[outcome.verdict.kind], spoken)
            sentence = in_language(outcome.verdict.sentence, spoken)
        start = f"{pad_right(outcome.experiment.name, side)}  {pad_right(state, states)}  "
        print_result(start + (cut(sentence, max(20, columns - width(start))) if columns else sentence))
    finished = [outcome for outcome in outcomes if isinstance(outcome, Finished)]
    counts = {
        in_language(name, spoken): sum(each.verdict.kind == kind for each in finished) for kind, name in KINDS.items()
    }
    seconds = format_duration(sum(each.seconds for each in finished))
    verdicts = ", ".join(f"{count} {name}" for name, count in counts.items())
    failed = len(outcomes) - len(finished)
    report(f"{verdicts}, {failed} failed; {seconds} of CPU time; page: {folder / PAGE}")


def outcome_values(outcome: Outcome, folder: Path) -> JsonObject:
    """An experiment that was run, as JSON values."""
    if isinstance(outcome, Failure):
        return {"name": outcome.experiment.name, "error": outcome.reason}
    return {
        "name": outcome.experiment.name,
        "verdict": verdict_json(outcome.verdict),
        "seeds": list(outcome.results.seeds),
        "seconds": outcome.seconds,
        "values": outcome.results.to_json(),
        "files": [str(path) for path in files_of(outcome, folder)],
    }


def write_all_pages(folder: Path, docs: Path) -> None:
    """Write the pages, and say how many."""
    written = write_pages(folder, docs)
    report(f"{docs}: {len(written)} files written or changed")
