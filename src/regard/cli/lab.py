"""regard lab: experiments that answer questions about attention models."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import AsJson, OptionGroup, Split
from regard.cli.screen import report
from regard.cli.shell import FAILED, INTERRUPTED, language
from regard.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.lab.experiment import Effort, Experiment
    from regard.lab.running import Outcome

FULL, QUICK = Path("runs/lab"), Path("runs/lab-quick")


Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Experiments to run; without NAME, list all.")]
Everything = Annotated[bool, typer.Option("--all", help="Run all experiments that are not finished.")]
Quick = Annotated[bool, typer.Option("--quick", help="Run with one seed and few steps, in seconds.")]
Again = Annotated[bool, typer.Option("--again", help="Run finished experiments again.")]
Show = Annotated[bool, typer.Option("--show", help="Show the last result without running anything.")]
Jobs = Annotated[
    int | None, typer.Option("--jobs", metavar="N", min=1, show_default="one per core", help="Parallel experiments.")
]
Folder = Annotated[
    Path | None,
    typer.Option("--folder", metavar="FOLDER", show_default=f"{FULL}; with `--quick`: {QUICK}", help="Result folder."),
]
Write = Annotated[
    Path | None, typer.Option("--write", metavar="DOCS", help="Folder for Markdown pages; quick runs are left out.")
]


@dataclass(frozen=True)
class OwnRunOptions(OptionGroup):
    """A run whose model is cut as the experiment does."""

    title = "Your own run"

    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="Run to cut: how much does the score fall?")
    ] = None
    split: Split = "valid"


def lab(
    own: OwnRunOptions,
    names: Names = None,
    everything: Everything = False,
    quick: Quick = False,
    again: Again = False,
    show: Show = False,
    jobs: Jobs = None,
    folder: Folder = None,
    write: Write = None,
    as_json: AsJson = False,
) -> None:
    """List, run or show experiments: a question, a hypothesis, numbers, a verdict."""
    from regard.cli.lab_output import print_list, print_outcomes, write_all_pages
    from regard.lab.experiment import Effort
    from regard.lab.registry import all_experiments, by_topic, find_experiment
    from regard.lab.running import Failure

    check_options(names or [], everything, show)
    if own.run is not None:
        cut_own_run(names or [], own.run, own.split, as_json)
        return
    folder = folder or (QUICK if quick else FULL)
    chosen = [find_experiment(name) for name in names or []]
    if everything:
        chosen = by_topic(all_experiments().values())
    outcomes: list[Outcome] = []
    if show:
        outcomes = [last_result(experiment, folder) for experiment in chosen]
    elif chosen:
        outcomes = run(chosen, Effort(quick), folder, jobs, again)
    elif write is None:
        print_list(by_topic(all_experiments().values()), folder, as_json)
    if chosen:
        print_outcomes(outcomes, folder, in_short=everything, as_json=as_json)
    if write is not None:
        write_all_pages(folder, write)
    if any(isinstance(outcome, Failure) for outcome in outcomes):
        raise typer.Exit(FAILED)


def cut_own_run(names: "Sequence[str]", run: str, split: str, as_json: bool) -> None:
    """Print what the parts that experiments cut are worth to a run's model."""
    from dataclasses import asdict

    from regard.cli.screen import print_comparison, print_json, print_result
    from regard.lab.cutting import cut_run
    from regard.lab.registry import find_experiment
    from regard.messages import Message
    from regard.run.model import Model

    if not names:
        raise UserError("`--run` needs a NAME", "see `regard lab`", code="missing-input", where="--run")
    model = Model.load(run)
    cuts = [cut for name in names for cut in cut_run(find_experiment(name).name, model, split)]
    if as_json:
        print_json({"run": run, "split": split, "cuts": [asdict(cut) for cut in cuts]})
    for cut in cuts if not as_json else ():
        print_result(
            Message(
                "without {part}, on {count:,} examples of {split}:", part=cut.title, count=cut.examples, split=split
            )
        )
        print_comparison(cut.comparisons, Message("whole"), Message("cut"))


def check_options(names: "Sequence[str]", everything: bool, show: bool) -> None:
    """Raise UserError if options contradict each other."""
    if names and everything:
        raise UserError("NAME and `--all` are both given", "leave one out", code="conflicting-options", where="--all")
    if show and not names:
        raise UserError("`--show` needs a NAME", "see `regard lab` for all names", code="missing-input", where="--show")


def last_result(experiment: "Experiment", folder: Path) -> "Outcome":
    """The finished result of an experiment; a UserError if there is none."""
    from regard.lab.records import read_finished

    finished = read_finished(folder, experiment)
    if finished is None:
        problem = f"{experiment.name} is not finished in {folder}"
        raise UserError(problem, f"run it: `regard lab {experiment.name}`", code="not-finished", where=folder)
    return finished


def run(
    chosen: "Sequence[Experiment]", effort: "Effort", folder: Path, jobs: int | None, again: bool
) -> "list[Outcome]":
    """Run experiments with progress on stderr; write the pictures of each, and the gallery at the end."""
    from regard.lab.gallery import write_gallery
    from regard.lab.presenting import write_pictures
    from regard.lab.records import Finished
    from regard.lab.registry import all_experiments
    from regard.lab.running import left_to_run, run_all
    from regard.lab.texts import say
    from regard.processes import count_workers

    spoken = language()
    left = left_to_run(chosen, effort, folder, again)
    jobs = min(jobs or count_workers(0), max(1, len(left)))
    progress = ExperimentProgress(left, effort.quick)
    report(say(spoken, "to_run", left=len(left), all=len(chosen), folder=folder))
    outcomes: list[Outcome] = []
    try:
        for outcome in run_all(chosen, effort, folder, jobs, again, report_seed):
            outcomes.append(outcome)
            if isinstance(outcome, Finished):
                write_pictures(outcome, folder)
            progress(outcome)
    except KeyboardInterrupt as stop:
        report(say(spoken, "stopped", folder=folder))
        raise typer.Exit(INTERRUPTED) from stop
    finally:
        if outcomes:
            write_gallery(folder, list(all_experiments().values()))
    order = [experiment.name for experiment in chosen]
    return sorted(outcomes, key=lambda outcome: order.index(outcome.experiment.name))


def report_seed(name: str, seed: int, seeds: int) -> None:
    from regard.lab.texts import say

    report(say(language(), "seed", name=name, seed=seed, seeds=seeds))


class ExperimentProgress:
    """Reports each experiment as it ends, with the time that is left."""

    def __init__(self, left: "Sequence[Experiment]", quick: bool) -> None:
        self.seconds = {experiment.name: 3.0 if quick else float(experiment.texts.seconds) for experiment in left}
        self.total, self.all = sum(self.seconds.values()), len(left)
        self.began = time.monotonic()

    def __call__(self, outcome: "Outcome") -> None:
        """One line for an experiment that was run."""
        from regard.lab.running import Failure
        from regard.lab.texts import say, words
        from regard.messages import format_duration

        name, spoken = outcome.experiment.name, language()
        if self.seconds.pop(name, None) is None:
            return
        to_do = sum(self.seconds.values())
        elapsed, done = time.monotonic() - self.began, self.total - to_do
        if isinstance(outcome, Failure):
            state = say(spoken, "failed_because", reason=outcome.reason)
        else:
            state = words(spoken)["kinds"][outcome.verdict.kind]
        line = say(spoken, "ended", done=self.all - len(self.seconds), all=self.all, name=name, state=state)
        left = say(spoken, "time_left", time=format_duration(to_do * elapsed / done)) if self.seconds else ""
        report(line + left)
