"""Run the programs of docs/groundwork, each once."""

import contextlib
import io
import runpy
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.groundwork import FOLDER


@dataclass(frozen=True)
class Page:
    """A program that ran: its names, what it printed, and the files that it wrote, by name."""

    names: dict[str, Any]
    printed: str
    files: dict[str, str]


@cache
def run_page(name: str) -> Page:
    """Run the program of a page as its command does; it changes neither numpy's printing nor torch's generator."""
    printed, state = io.StringIO(), torch.get_rng_state()
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stdout(printed), contextlib.chdir(folder), np.printoptions():
            names = runpy.run_path(str(FOLDER / "code" / f"{name}.py"), run_name="__main__")
        torch.set_rng_state(state)
        files = {path.name: path.read_text(encoding="utf-8") for path in Path(folder).iterdir()}
    return Page(names, printed.getvalue(), files)
