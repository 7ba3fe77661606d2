"""Faults at every file operation of an action: killed there, or an error of the disk.

for folder in killed_everywhere(tmp_path, prepare, action):    the state after a kill at the 1st, 2nd, ... operation
    ...

`prepare(folder)` makes the state before, `action(folder)` is what is killed. After a kill no file operation works any
more, so that `finally` does nothing, as in a process that is gone; its locks are released.
"""

import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import regard.files
from regard.errors import UserError

OPERATIONS = ("open", "mkdir", "rename", "replace", "unlink", "rmdir", "fsync", "truncate")
Action = Callable[[Path], object]
FEWEST = 5
"""An action with fewer operations is not what a test means to kill."""


class KilledError(BaseException):
    """The process is gone."""


class Faults:
    """Operations of `os`, and opening a file to write, that fail from the n-th on (a kill) or only the n-th (EIO)."""

    def __init__(self, number: int, kill: bool) -> None:
        self.number, self.kill, self.calls = number, kill, 0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            mode = arguments[1] if function is io_open and len(arguments) > 1 else options.get("mode", "w")
            if function is not io_open or set("wax+") & set(mode):
                self.calls += 1
                if self.kill and self.calls >= self.number:
                    raise KilledError
                if self.calls == self.number:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
            return function(*arguments, **options)

        return call

    @property
    def happened(self) -> bool:
        return self.calls >= self.number

    def run(self, action: Action, folder: Path) -> None:
        """Run an action under these faults; an error must be a UserError."""
        targets = [(os, name) for name in OPERATIONS] + [(io, "open"), (regard.files, "_exchange")]
        patches = [patch.object(module, name, self.wrap(getattr(module, name))) for module, name in targets]
        try:
            for each in patches:
                each.start()
            action(folder)
        except (KilledError, UserError):
            assert self.happened
        finally:
            for each in patches:
                each.stop()


io_open = io.open


def faults_everywhere(root: Path, prepare: Action, action: Action, kill: bool) -> Iterator[Path]:
    """The folder after a fault at each operation of the action; every fault starts from the same state."""
    before = root / "before"
    before.mkdir()
    prepare(before)
    for number in count(1):
        folder, faults = root / f"{number}", Faults(number, kill)
        shutil.copytree(before, folder)
        faults.run(action, folder)
        if not faults.happened:
            assert number > FEWEST
            return
        yield folder


def killed_everywhere(root: Path, prepare: Action, action: Action) -> Iterator[Path]:
    """The folder after a kill at each operation of the action."""
    return faults_everywhere(root, prepare, action, kill=True)


def failed_everywhere(root: Path, prepare: Action, action: Action) -> Iterator[Path]:
    """The folder after an input/output error at each operation of the action."""
    return faults_everywhere(root, prepare, action, kill=False)


def leftovers(folder: Path) -> list[Path]:
    """Temporary folders of `regard.files` beside the files of a folder."""
    return list(folder.glob(".*.partial"))
