"""Data files on other machines, opened by fsspec: s3://bucket/train.en, gs://..., https://..., sftp://...

A `RemotePath` has those methods of `pathlib.Path` that readers of data files call, so every format can be read. regard
contacts another host only for such a name. fsspec is there with torch; most schemes need a package more (s3fs, gcsfs).
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, BinaryIO, cast

from regard.errors import UserError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

URL = re.compile(r"[a-z][a-z0-9+.-]+://")
NO_HOST = "|"
"""Stands for the third slash in hdfs:///data/train.en: paths drop repeated slashes."""
STATUS_DIGITS = 15
"""Hexadecimal digits of the hash in place of a time of change, which many file systems do not have."""


def data_path(name: str, root: Path | None = None) -> Path:
    """The path of a data file, relative to `root`; ~ is the home folder, and SCHEME://... a file that fsspec opens."""
    if URL.match(name):
        return cast(Path, RemotePath(name.replace(":///", f":{NO_HOST}/", 1)))
    # expanduser of pathlib raises an error for an unknown user; here "~name" is then an ordinary name
    path = os.path.expanduser(name)  # noqa: PTH111
    return Path(path) if root is None else root / path


class RemotePath(PurePosixPath):
    """A file or folder that fsspec reads."""

    def __str__(self) -> str:
        scheme, _, rest = super().__str__().partition("/")
        return f"{scheme.removesuffix(NO_HOST)}{'///' if scheme.endswith(NO_HOST) else '//'}{rest}"

    def __fspath__(self) -> str:
        problem, remedy = f"{self} is not on this machine", "copy it to a local folder"
        raise UserError(problem, remedy, code="remote-file", where=str(self))

    def absolute(self) -> "RemotePath":
        return self

    def exists(self) -> bool:
        with self._opened() as (system, name):
            return bool(system.exists(name))

    def is_file(self) -> bool:
        with self._opened() as (system, name):
            return bool(system.isfile(name))

    def is_dir(self) -> bool:
        with self._opened() as (system, name):
            return bool(system.isdir(name))

    def iterdir(self) -> Iterator["RemotePath"]:
        with self._opened() as (system, name):
            return iter([self / entry.rstrip("/").rpartition("/")[2] for entry in system.ls(name, detail=False)])

    def stat(self) -> SimpleNamespace:
        """Size, and a hash of all facts about the file in place of its time of change."""
        with self._opened() as (system, name):
            facts = system.info(name)
        changed = int(hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:STATUS_DIGITS], 16)
        size = int(facts["size"] or 0)
        return SimpleNamespace(st_mode=stat.S_IFREG, st_size=size, st_ino=0, st_mtime_ns=changed, st_ctime_ns=0)

    def open(self, mode: str) -> BinaryIO:
        with self._opened() as (system, name):
            return cast(BinaryIO, system.open(name, mode))

    @contextmanager
    def _opened(self) -> Iterator[tuple["AbstractFileSystem", str]]:
        """fsspec's file system, and the name of this file in it; an error that they raise becomes a UserError."""
        from fsspec.core import url_to_fs

        try:
            yield url_to_fs(str(self))
        except Exception as error:  # each file system has errors of its own
            remedy = "check the name, the network and your access rights"
            if isinstance(error, (ImportError, ValueError)):  # of a package, or for a scheme that fsspec does not know
                remedy = "install the package that it needs, or copy the file"
            problem = f"{self} cannot be read: {str(error) or type(error).__name__}"
            raise UserError(problem, remedy, code="unreadable-file", where=str(self)) from error
