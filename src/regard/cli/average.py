"""regard average: the mean of the last checkpoints of a run."""

import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from regard.cli.documents import target_option
from regard.cli.options import AsJson, RunFolder
from regard.cli.screen import print_json, print_result, report
from regard.cli.shell import as_called
from regard.errors import UserError
from regard.messages import Message, join_messages

if TYPE_CHECKING:
    from regard.run.run import Run


def average(
    run: RunFolder,
    last: Annotated[int, Option(metavar="CHECKPOINTS", min=2, help="Number of checkpoints, the last ones.")] = 5,
    checkpoints: Annotated[
        str, Option(metavar="NAME,NAME", help="Checkpoints to average, e.g. step-00001000,step-00002000.")
    ] = "",
    validate: Annotated[bool, Option(help="Compare the average with the best checkpoint on validation data.")] = True,
    as_json: AsJson = False,
) -> None:
    """Average the weights of a run's last checkpoints."""
    from regard.run.run import Run
    from regard.training.averaging import average_checkpoints

    opened = Run.open(run)
    paths = named_checkpoints(opened, checkpoints) if checkpoints else last_checkpoints(opened, last)
    saved = opened.checkpoints.save_average(average_checkpoints(paths), paths)
    names = [path.name for path in paths]
    comparison = compare_with_best(opened, saved.name) if validate else None
    if as_json:
        print_json(
            {"run": run, "checkpoint": saved.name, "averaged": names} | (asdict(comparison) if comparison else {})
        )
        return
    averaged = {"count": len(paths), "names": ", ".join(names), "path": saved}
    print_result(Message("averaged {count} checkpoints ({names}) into {path}", **averaged))
    if comparison is not None:
        print_result(describe(comparison))
    if comparison is None or comparison.better:
        command = f"regard {opened.task.command} {shlex.quote(run)}{target_option(opened.task)}"
        print_result(as_called(Message("use it: {command}", command=f"{command} --checkpoint {saved.name}")))


@dataclass(frozen=True)
class ComparisonWithBest:
    """The monitored validation metric of an average and of the best checkpoint."""

    monitor: str
    score: float
    best: str
    best_score: float
    better: bool
    """True if the average is at least as good."""


def compare_with_best(run: "Run", name: str) -> ComparisonWithBest | None:
    """Validate a checkpoint and compare it with the best one; None, and a note, if there is no validation data."""
    from regard.run.train import validate_checkpoint
    from regard.training.checkpoint import read_progress
    from regard.training.progress import TrainingProgress
    from regard.training.settings import improves

    best = run.checkpoints.resolve("best")
    progress = TrainingProgress.from_json(read_progress(best), str(best))
    if progress.score is None or progress.validated_step != progress.step:
        return None
    try:
        metrics = validate_checkpoint(run, name)
    except UserError as error:
        report(Message("note: the average was not validated: {problem}", problem=error.problem))
        return None
    score, worse = metrics[progress.monitor], improves(progress.monitor, progress.score, metrics[progress.monitor])
    return ComparisonWithBest(progress.monitor, score, best.name, progress.score, not worse)


def describe(comparison: ComparisonWithBest) -> str:
    """The comparison in words, with a remedy if the average is worse."""
    numbers = Message("validation {monitor}: {score:.4g}, {best} has {best_score:.4g}", **asdict(comparison))
    worse = Message("the average is worse: use {best}, or average fewer checkpoints (`--last`)", best=comparison.best)
    return numbers if comparison.better else join_messages("\n", [numbers, worse])


def named_checkpoints(run: "Run", names: str) -> list[Path]:
    """The checkpoints of a comma-separated list, without repetitions."""
    resolved = (run.checkpoints.resolve(name.strip()) for name in names.split(",") if name.strip())
    paths = list(dict.fromkeys(resolved))
    if len(paths) < 2:
        problem = f"`--checkpoints {names}` names fewer than two checkpoints"
        raise UserError(problem, f"choose from {saved_names(run)}", code="too-few-checkpoints", where="checkpoints")
    return paths


def last_checkpoints(run: "Run", count: int) -> list[Path]:
    """The last checkpoints, at least two; a note if there are fewer than `count`."""
    paths = run.checkpoints.all()[-count:]
    remedy = Message("train with `training.keep={count}` to keep {count} checkpoints", count=count)
    if len(paths) < 2:
        problem = f"{run.folder} has only {saved_names(run) or 'no checkpoints'}; averaging needs at least two"
        raise UserError(problem, remedy, code="too-few-checkpoints", where=run.folder)
    if len(paths) < count:
        note = Message("note: the run has only {found} checkpoints, not {count}", found=len(paths), count=count)
        report(join_messages("; ", [note, remedy]))
    return [run.checkpoints.resolve(path.name) for path in paths]


def saved_names(run: "Run") -> str:
    return ", ".join(path.name for path in run.checkpoints.all())
