"""Running experiments: one JSON file each, written after every seed, so that a stopped run continues.

    FOLDER/NAME.json    seeds, numbers, verdict, time, versions, and a digest of the code that made them

A finished experiment is not repeated while its code is the same. Several experiments run side by side, one thread each;
those that measure time run afterwards, one by one.
"""

import inspect
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import torch

import regard
from regard.errors import UserError
from regard.files import JsonObject, checksum, write_json
from regard.lab import toys
from regard.lab.experiment import SEEDS, Effort, Experiment, Results, Verdict
from regard.lab.registry import find_experiment
from regard.reading import read_json

FORMAT = 1
QUICK_SEEDS = (1,)


@dataclass(frozen=True)
class Finished:
    """A finished experiment: its results, its verdict and its file."""

    experiment: Experiment
    effort: Effort
    results: Results
    verdict: Verdict
    seconds: float
    path: Path


def seeds_of(effort: Effort) -> tuple[int, ...]:
    """The seeds of an effort: three, or one if it is quick."""
    return QUICK_SEEDS if effort.quick else SEEDS


def path_of(folder: Path, name: str) -> Path:
    """The file of an experiment."""
    return folder / f"{name}.json"


def code_of(experiment: Experiment) -> str:
    """A digest of the code that an experiment consists of: its file and the toys."""
    file = inspect.getmodule(type(experiment))
    assert file is not None
    return checksum([inspect.getsource(file), inspect.getsource(toys)])[:16]


def run_experiment(
    experiment: Experiment, effort: Effort, folder: Path, report: Callable[[str], None] = lambda line: None
) -> Finished:
    """Run an experiment, or what is left of it, and write its file."""
    path, seeds = path_of(folder, experiment.name), seeds_of(effort)
    done, results, seconds = _begun(experiment, effort, path)
    for seed in seeds[len(done) :]:
        report(f"{experiment.name}: seed {seed} of {len(seeds)}")
        began = time.monotonic()
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            experiment.measure(seed, effort, lambda panel, series, x, y, s=seed: results.record(s, panel, series, x, y))  # type: ignore[misc]
        finally:
            torch.set_num_threads(threads)
        done, seconds = (*done, seed), seconds + time.monotonic() - began
        write_json(path, _to_json(experiment, effort, done, results, seconds))
    return Finished(experiment, effort, results, experiment.judge(results), seconds, path)


def read_finished(folder: Path, name: str) -> Finished | None:
    """The finished experiment in a folder, whatever its code was; None if it is not finished."""
    path, experiment = path_of(folder, name), find_experiment(name)
    if not path.is_file():
        return None
    values = read_json(path, JsonObject)
    effort = Effort(quick=values["effort"] == "quick")
    seeds = tuple(values["seeds"])
    if values["format"] != FORMAT or seeds != seeds_of(effort):
        return None
    results = Results.from_json(seeds, values["values"])
    verdict = Verdict(values["verdict"]["kind"], experiment.judge(results).template, values["verdict"]["numbers"])
    return Finished(experiment, effort, results, verdict, values["seconds"], path)


def is_current(finished: Finished, effort: Effort) -> bool:
    """True if the experiment was finished with this effort and with the code of now."""
    return finished.effort == effort and read_json(finished.path, JsonObject)["code"] == code_of(finished.experiment)


def run_all(
    names: Sequence[str], effort: Effort, folder: Path, jobs: int
) -> Iterator[tuple[str, Finished | UserError | Exception]]:
    """Run experiments in `jobs` processes; yield each with its result or its error as it ends."""
    together = [name for name in names if not find_experiment(name).timed]
    alone = [name for name in names if find_experiment(name).timed]
    context = multiprocessing.get_context("spawn")
    for group, workers in ((together, jobs), (alone, 1)):
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            slowest_first = sorted(group, key=lambda name: -find_experiment(name).seconds)
            futures: dict[Future[None], str] = {
                pool.submit(_run_in_process, name, effort, folder): name for name in slowest_first
            }
            for future in as_completed(futures):
                name, error = futures[future], future.exception()
                finished = None if error else read_finished(folder, name)
                if error is not None and not isinstance(error, Exception):
                    raise error
                yield name, finished or error or RuntimeError("the file of the experiment is missing")


def _run_in_process(name: str, effort: Effort, folder: Path) -> None:
    run_experiment(find_experiment(name), effort, folder)


def _begun(experiment: Experiment, effort: Effort, path: Path) -> tuple[tuple[int, ...], Results, float]:
    """The seeds that are done, their numbers and their time; nothing if the code or the effort has changed."""
    seeds = seeds_of(effort)
    if path.is_file():
        values = read_json(path, JsonObject)
        same = values["format"] == FORMAT and values["code"] == code_of(experiment)
        if same and values["effort"] == _name_of(effort):
            done = tuple(values["seeds"])
            numbers = Results.from_json(done, values["values"])
            numbers.seeds = seeds
            return done, numbers, values["seconds"]
    return (), Results(seeds), 0.0


def _to_json(
    experiment: Experiment, effort: Effort, done: Sequence[int], results: Results, seconds: float
) -> JsonObject:
    values: JsonObject = {
        "format": FORMAT,
        "experiment": experiment.name,
        "effort": _name_of(effort),
        "seeds": list(done),
        "seconds": round(seconds, 1),
        "code": code_of(experiment),
        "versions": {"regard": regard.__version__, "torch": torch.__version__},
        "values": results.to_json(),
    }
    if tuple(done) == seeds_of(effort):
        verdict = experiment.judge(results)
        sentence = verdict.sentence
        values["verdict"] = {
            "kind": verdict.kind, "numbers": dict(verdict.numbers), "en": sentence.en, "zh": sentence.zh
        }  # fmt: skip
    return values


def _name_of(effort: Effort) -> str:
    return "quick" if effort.quick else "full"
