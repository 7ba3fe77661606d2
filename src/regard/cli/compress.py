"""regard compress: a small copy of a run, to publish."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import AsJson, Checkpoint, RunFolder
from regard.cli.screen import print_json, print_result
from regard.messages import Message


def compress(
    run: RunFolder,
    folder: Annotated[Path, typer.Option("--folder", metavar="FOLDER", help="New folder for the copy.")],
    checkpoint: Checkpoint = "best",
    as_json: AsJson = False,
) -> None:
    """Write a small copy of a run: 8-bit weights, without training state and data."""
    from dataclasses import asdict

    from regard.run.compressing import compress as write_copy
    from regard.run.run import Run

    result = write_copy(Run.open(run), folder, checkpoint)
    if as_json:
        print_json(asdict(result) | {"folder": str(folder)})
        return
    sizes = {"before": result.bytes_before / 1e6, "after": result.bytes / 1e6, "folder": shlex.quote(str(folder))}
    print_result(Message("weights of {after:.1f} MB instead of {before:.1f} MB in {folder}", **sizes))
    print_result(Message("a weight differs by at most {share:.2%} of the largest in its row", share=result.error))
