"""The file of an experiment: FOLDER/NAME.json, written after every seed, so that a stopped run continues.

    format, experiment, effort, seeds (those that are done), seconds (of CPU time), code (a digest), versions, values
    verdict: kind, numbers, en, zh (once all seeds are done)

The verdict of a file that is read is computed again from its numbers. The digest is of the code that measures, so that
an experiment is repeated only if its numbers could change. Results of older code count as current if `code` in the
TOML of the experiment names that code and the code of now: a rerun has shown that both give the same numbers.
"""

import ast
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeGuard

import torch

import regard
from regard.errors import UserError
from regard.files import JsonObject, checksum, write_json
from regard.lab.experiment import Effort, Experiment, Results, Verdict
from regard.lab.texts import Bilingual, Finding, Kind
from regard.reading import check_dataclass, read_json, read_text

FORMAT = 1
INTERFACE = ("regard.lab.experiment", "regard.lab.texts")
"""Files of the lab that change no number."""


@dataclass(frozen=True)
class Stored:
    format: int
    experiment: str
    effort: Literal["full", "quick"]
    seeds: list[int]
    seconds: float
    code: str
    versions: dict[str, str]
    values: JsonObject
    checksum: str = ""
    """Of `values`; empty in files of earlier versions."""
    verdict: JsonObject | None = None


@dataclass(frozen=True)
class Finished:
    """An experiment with the results of all seeds, and its verdict."""

    experiment: Experiment
    effort: Effort
    results: Results
    verdict: Verdict
    sentence: Bilingual
    findings: list[tuple[Finding, Kind]]
    seconds: float
    """CPU time of all seeds."""
    path: Path
    is_current: bool
    """True if its code measures what the code of now would."""


def path_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def code_of(experiment: Experiment) -> str:
    """The digest of the code that measures: the experiment's file, and the files of the lab that it imports."""
    return _digest(experiment.path)


@cache
def _digest(path: Path) -> str:
    """Comments, docstrings, imports, texts and `judge` do not count."""
    source = read_text(path)
    nodes = list(ast.walk(ast.parse(source)))
    unread = {n for node in nodes if _changes_nothing(node) for n in range(node.lineno, (node.end_lineno or 0) + 1)}
    lines = [line.rstrip() for n, line in enumerate(source.splitlines(), 1) if n not in unread]
    imported = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    for module in sorted(name for name in imported if name.startswith("regard.lab.") and name not in INTERFACE):
        spec = find_spec(module)
        assert spec is not None and spec.origin is not None
        lines.append(_digest(Path(spec.origin)))
    return checksum([line for line in lines if line and not line.lstrip().startswith("#")])[:16]


def _changes_nothing(node: ast.AST) -> TypeGuard[ast.stmt]:
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == "TEXTS" for target in node.targets)
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or isinstance(node, ast.Import | ast.ImportFrom) or getattr(node, "name", "") == "judge"


def is_current(stored: str, experiment: Experiment) -> bool:
    """True if results of the code with this digest are those of the code of now."""
    now, code = code_of(experiment), experiment.texts.code
    return stored == now or (stored == code.get("stored") and now == code.get("verified"))


def read_finished(folder: Path, experiment: Experiment) -> Finished | None:
    """The finished experiment in a folder; None if there is none; a UserError if its file is damaged."""
    path = path_of(folder, experiment.name)
    if not path.is_file():
        return None
    stored, results = _read(path, experiment)
    effort = Effort(stored.effort == "quick")
    if results.seeds != experiment.seeds(effort):
        return None
    verdict, sentence, findings = _judge(experiment, results, path)
    current = is_current(stored.code, experiment)
    return Finished(experiment, effort, results, verdict, sentence, findings, stored.seconds, path, current)


def find_finished(folder: Path, experiment: Experiment) -> Finished | None:
    """As `read_finished`, but None if the file is damaged."""
    try:
        return read_finished(folder, experiment)
    except UserError:
        return None


def read_begun(folder: Path, experiment: Experiment, effort: Effort) -> tuple[Results, float]:
    """The results of the seeds that are done, and their CPU time; none if code, effort or seeds differ."""
    path = path_of(folder, experiment.name)
    try:
        if path.is_file():
            stored, results = _read(path, experiment)
            same = stored.effort == _name_of(effort) and is_current(stored.code, experiment)
            if same and results.seeds == experiment.seeds(effort)[: len(results.seeds)]:
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
        "values": (values := results.to_json()),
        "checksum": checksum(values),
    }
    if results.seeds == experiment.seeds(effort):
        verdict = experiment.judge(results)
        stored["verdict"] = verdict_json(verdict, experiment.sentence(results, verdict))
    write_json(path_of(folder, experiment.name), stored)


def update_verdict(folder: Path, experiment: Experiment) -> None:
    """Write the verdict of a finished experiment again if `judge` says something else now, or in other words."""
    path = path_of(folder, experiment.name)
    stored, results = _read(path, experiment)
    verdict = verdict_json(*_judge(experiment, results, path)[:2])
    if stored.verdict != verdict:
        write_json(path, {**read_json(path, JsonObject), "verdict": verdict})


def verdict_json(verdict: Verdict, sentence: Bilingual) -> JsonObject:
    findings = {"findings": dict(verdict.findings)} if verdict.findings else {}
    return {"kind": verdict.kind, **findings, "numbers": dict(verdict.numbers), **sentence._asdict()}


def _read(path: Path, experiment: Experiment) -> tuple[Stored, Results]:
    stored = check_dataclass(read_json(path, JsonObject), Stored, path)
    try:
        if stored.format != FORMAT or stored.experiment != experiment.name:
            raise ValueError(f"it is about {stored.experiment} in format {stored.format}")
        if stored.checksum and stored.checksum != checksum(stored.values):
            raise ValueError("its numbers do not have the checksum that was stored with them")
        return stored, Results.from_json(stored.seeds, stored.values)
    except (TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, experiment, error) from error


def _judge(
    experiment: Experiment, results: Results, path: Path
) -> tuple[Verdict, Bilingual, list[tuple[Finding, Kind]]]:
    try:
        verdict = experiment.judge(results)
        return verdict, experiment.sentence(results, verdict), experiment.findings(results, verdict)
    except (KeyError, IndexError, ValueError) as error:  # numbers that the experiment of now does not know
        raise _damaged(path, experiment, error) from error


def _damaged(path: Path, experiment: Experiment, error: Exception) -> UserError:
    problem = f"{path} is damaged or from a different version: {error}"
    return UserError(problem, f"run `regard lab {experiment.name} --again`", code="damaged-file", where=path)


def _name_of(effort: Effort) -> str:
    return "quick" if effort.quick else "full"
