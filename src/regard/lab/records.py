"""The file of an experiment: FOLDER/NAME.json, written after every seed, so that a stopped run continues.

    format, experiment, effort, seeds (those that are done), seconds (of CPU time), code (a digest), versions, values
    verdict: kind, numbers, en, zh (once all seeds are done)

The verdict of a file that is read is computed again from its numbers.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

import regard
from regard.errors import UserError
from regard.files import JsonObject, write_json
from regard.lab.digests import code_of
from regard.lab.experiment import SEEDS, Effort, Experiment, Results, Verdict
from regard.reading import check_dataclass, read_json

FORMAT = 1
QUICK_SEEDS = (1,)


@dataclass(frozen=True)
class Stored:
    """The content of a file."""

    format: int
    experiment: str
    effort: Literal["full", "quick"]
    seeds: list[int]
    seconds: float
    code: str
    versions: dict[str, str]
    values: JsonObject
    verdict: JsonObject | None = None


@dataclass(frozen=True)
class Finished:
    """An experiment with the results of all seeds, and its verdict."""

    experiment: Experiment
    effort: Effort
    results: Results
    verdict: Verdict
    seconds: float
    """CPU time of all seeds."""
    path: Path
    is_current: bool
    """True if its code measures what the code of now would."""


def seeds_of(effort: Effort) -> tuple[int, ...]:
    """The seeds of an effort: three, or one if it is quick."""
    return QUICK_SEEDS if effort.quick else SEEDS


def path_of(folder: Path, name: str) -> Path:
    """The file of an experiment."""
    return folder / f"{name}.json"


def read_finished(folder: Path, experiment: Experiment) -> Finished | None:
    """The finished experiment in a folder; None if there is none; a UserError if its file is damaged."""
    path = path_of(folder, experiment.name)
    if not path.is_file():
        return None
    stored, results = _read(path, experiment)
    effort = Effort(stored.effort == "quick")
    if results.seeds != seeds_of(effort):
        return None
    verdict = _judge(experiment, results, path)
    return Finished(experiment, effort, results, verdict, stored.seconds, path, stored.code == code_of(experiment))


def find_finished(folder: Path, experiment: Experiment) -> Finished | None:
    """As `read_finished`, but None if the file is damaged."""
    try:
        return read_finished(folder, experiment)
    except UserError:
        return None


def read_begun(folder: Path, experiment: Experiment, effort: Effort) -> tuple[Results, float]:
    """The results of the seeds that are done, and their CPU time; none if the code or the effort is another one."""
    path = path_of(folder, experiment.name)
    try:
        if path.is_file():
            stored, results = _read(path, experiment)
            if stored.code == code_of(experiment) and stored.effort == _name_of(effort):
                return results, stored.seconds
    except UserError:  # a damaged file is written again
        pass
    return Results(()), 0.0


def write_results(folder: Path, experiment: Experiment, effort: Effort, results: Results, seconds: float) -> None:
    """Write the file of an experiment; the verdict too, if all seeds are done."""
    stored: JsonObject = {
        "format": FORMAT,
        "experiment": experiment.name,
        "effort": _name_of(effort),
        "seeds": list(results.seeds),
        "seconds": round(seconds, 1),
        "code": code_of(experiment),
        "versions": {"regard": regard.__version__, "torch": torch.__version__},
        "values": results.to_json(),
    }
    if results.seeds == seeds_of(effort):
        stored["verdict"] = verdict_json(experiment.judge(results))
    write_json(path_of(folder, experiment.name), stored)


def update_verdict(folder: Path, experiment: Experiment) -> None:
    """Write the verdict of a finished experiment again if `judge` says something else now, or in other words."""
    path = path_of(folder, experiment.name)
    stored, results = _read(path, experiment)
    verdict = verdict_json(_judge(experiment, results, path))
    if stored.verdict != verdict:
        write_json(path, {**read_json(path, JsonObject), "verdict": verdict})


def verdict_json(verdict: Verdict) -> JsonObject:
    """A verdict as JSON values."""
    sentence = verdict.sentence
    answers = {"answers": dict(verdict.answers)} if verdict.answers else {}
    return {"kind": verdict.kind, **answers, "numbers": dict(verdict.numbers), "en": sentence.en, "zh": sentence.zh}


def _read(path: Path, experiment: Experiment) -> tuple[Stored, Results]:
    stored = check_dataclass(read_json(path, JsonObject), Stored, path)
    try:
        if stored.format != FORMAT or stored.experiment != experiment.name:
            raise ValueError(f"it is about {stored.experiment} in format {stored.format}")
        return stored, Results.from_json(stored.seeds, stored.values)
    except (TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, experiment, error) from error


def _judge(experiment: Experiment, results: Results, path: Path) -> Verdict:
    try:
        return experiment.judge(results)
    except (KeyError, IndexError, ValueError) as error:  # numbers that the experiment of now does not know
        raise _damaged(path, experiment, error) from error


def _damaged(path: Path, experiment: Experiment, error: Exception) -> UserError:
    problem = f"{path} is damaged or of another version: {error}"
    return UserError(problem, f"regard lab {experiment.name} --again", code="damaged-file", where=path)


def _name_of(effort: Effort) -> str:
    return "quick" if effort.quick else "full"
