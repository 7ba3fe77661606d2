"""Running experiments: in this process, or side by side in processes of their own, one thread each.

A finished experiment is not repeated while its code is the same; one that was stopped continues with its next seed.
Experiments that measure time run after the others, one by one.
"""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from regard.files import locked
from regard.lab import records
from regard.lab.experiment import Effort, Experiment, Results
from regard.lab.records import Finished, read_finished
from regard.processes import explain, run_each

Report = Callable[[str, int, int], None]
"""report(name, number, seeds): an experiment begins with the seed of this number."""


@dataclass(frozen=True)
class Failure:
    """An experiment that ended with an error."""

    experiment: Experiment
    reason: str


Outcome = Finished | Failure


def run_experiment(
    experiment: Experiment, effort: Effort, folder: Path, report: Report = lambda *seed: None
) -> Finished:
    """Run an experiment, or the seeds that are left of it, and write its file after each of them."""
    results, seconds = records.read_begun(folder, experiment, effort)
    seeds = experiment.seeds(effort)
    for number, seed in enumerate(seeds[len(results.seeds) :], start=len(results.seeds) + 1):
        report(experiment.name, number, len(seeds))
        seconds += measure(experiment, effort, seed, results)
        results.seeds = (*results.seeds, seed)
        records.write_results(folder, experiment, effort, results, seconds)
    records.update_verdict(folder, experiment)
    finished = read_finished(folder, experiment)
    assert finished is not None
    return finished


def measure(experiment: Experiment, effort: Effort, seed: int, results: Results) -> float:
    """Record the numbers of one seed with one thread of torch; return the CPU time."""
    began, threads = time.process_time(), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        experiment.measure(seed, effort, partial(results.record, seed))
    finally:
        torch.set_num_threads(threads)
    return time.process_time() - began


def run_all(
    experiments: Sequence[Experiment],
    effort: Effort,
    folder: Path,
    jobs: int = 1,
    again: bool = False,
    report: Report = lambda *seed: None,
) -> Iterator[Outcome]:
    """Run experiments in `jobs` processes (1: in this one), with `again` finished ones too; yield each as it ends."""
    with locked(folder):
        waiting = left_to_run(experiments, effort, folder, again)
        for experiment in experiments:
            if again:
                records.path_of(folder, experiment.name).unlink(missing_ok=True)
            elif experiment not in waiting:
                yield run_experiment(experiment, effort, folder)
        slowest_first = sorted(waiting, key=lambda experiment: (experiment.texts.timed, -experiment.texts.seconds))
        if jobs == 1:
            yield from (_run_here(experiment, effort, folder, report) for experiment in slowest_first)
            return
        for timed, at_once in ((False, jobs), (True, 1)):
            group = [experiment for experiment in slowest_first if experiment.texts.timed == timed]
            yield from _run_in_processes(group, effort, folder, at_once, report)


def left_to_run(experiments: Sequence[Experiment], effort: Effort, folder: Path, again: bool) -> list[Experiment]:
    """The experiments that are not finished with this effort and the code of now; all of them with `again`."""
    found = {experiment.name: records.find_finished(folder, experiment) for experiment in experiments}
    done = {name for name, finished in found.items() if finished and finished.is_current and finished.effort == effort}
    return [experiment for experiment in experiments if again or experiment.name not in done]


def _run_here(experiment: Experiment, effort: Effort, folder: Path, report: Report) -> Outcome:
    try:
        return run_experiment(experiment, effort, folder, report)
    except Exception as error:
        return Failure(experiment, explain(error))


def _run_in_processes(
    experiments: Sequence[Experiment], effort: Effort, folder: Path, jobs: int, report: Report
) -> Iterator[Outcome]:
    """One process for each experiment, `jobs` at a time: one that is killed ends no other."""
    with closing(run_each(partial(_work, effort, folder), experiments, jobs)) as messages:
        for experiment, message in messages:
            if isinstance(message, str):
                report(experiment.name, int(message), len(experiment.seeds(effort)))
            else:
                finished = None if message.failure else read_finished(folder, experiment)
                yield finished or Failure(experiment, message.failure)


def _work(effort: Effort, folder: Path, experiment: Experiment, report: Callable[[str], None]) -> None:
    """What the process of an experiment does; it reports its seeds."""
    try:
        run_experiment(experiment, effort, folder, lambda name, number, seeds: report(str(number)))
    except KeyboardInterrupt:  # SIGTERM during a training
        raise SystemExit(128 + signal.SIGTERM) from None
