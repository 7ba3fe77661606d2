"""regard runs: the runs in a folder."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from regard.cli.options import AsJson
from regard.cli.screen import print_json, print_table, report
from regard.cli.shell import as_called
from regard.errors import UserError
from regard.messages import Message

if TYPE_CHECKING:
    from regard.run.facts import Facts


def runs(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="Folder that contains the runs.")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """List the runs in a folder: task, model, step, best score, state."""
    from regard.run.facts import find_runs, read_facts

    if not folder.is_dir():
        remedy = "train a model first: `regard train RECIPE` creates runs/NAME"
        raise UserError(f"{folder}: no such folder", remedy, code="not-a-run", where=folder)
    listed: list[Facts] = []
    for path in find_runs(folder):
        try:
            listed.append(read_facts(path))
        except UserError as error:
            report(Message("warning: {problem}", problem=error.problem))
    if as_json:
        print_json([asdict(facts) for facts in listed])
    elif listed:
        columns = ("run", Message("task"), Message("model"), Message("step"), Message("best"), Message("state"))
        print_table(columns, [row_of(facts) for facts in listed], right=("step",))
    else:
        report(as_called(Message("no runs in {folder}; make one with `regard train RECIPE`", folder=folder)))


def row_of(facts: "Facts") -> list[str]:
    best = "" if facts.best is None else f"{facts.monitor} {facts.best:.4g}"
    return [facts.run, facts.task, facts.model, f"{facts.step:,}", best, facts.state]
