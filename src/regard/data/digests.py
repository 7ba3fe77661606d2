"""sha256 of files, computed once and cached for as long as the file looks unchanged.

A run identifies its data, and the store made from it, by content. To read gigabytes again at every start would take
seconds, so a digest is cached with the size, the inode and the times of change of the file. Every write to a file, and
every file that replaces it, changes one of them, and the file is read again; the time of change of the inode cannot be
set back, not even by `touch`. A file that changed a moment ago is not cached, because within one tick of the clock it
could change again and look the same.

This does not detect a disk that loses bits. For that everything must be read, as `Digests` without a cache does:
after a store is built, and in `regard doctor`.
"""

import time
from contextlib import suppress
from pathlib import Path
from typing import cast

from regard.errors import UserError
from regard.files import checksum, digest, read_json, write_json

TICK = 2 * 10**9
"""Nanoseconds; no clock of a file system is coarser."""


class Digests:
    """sha256 of files, with an optional cache."""

    def __init__(self, cache: Path | None = None) -> None:
        """Use the cache file `cache`; without one every file is read."""
        self._cache = cache
        self._entries = _load(cache) if cache is not None else {}
        self._changed = False

    def of(self, path: Path) -> str:
        """sha256 of the content of `path`."""
        name, status = str(path.absolute()), _status(path)
        entry = self._entries.get(name)
        if entry is not None and entry[:-1] == status:
            return str(entry[-1])
        is_old = time.time_ns() - max(status[-2:]) > TICK
        sha256 = digest(path)
        if is_old and _status(path) == status:
            self._entries[name] = [*status, sha256]
            self._changed = True
        return sha256

    def save(self) -> None:
        """Write the cache; if it cannot be written, the files are read again next time."""
        if self._cache is not None and self._changed:
            with suppress(UserError, OSError):
                write_json(self._cache, {"files": self._entries, "checksum": checksum(self._entries)})


def _status(path: Path) -> list[int]:
    """Size, inode and times of change of a file."""
    status = path.stat()
    return [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def _load(cache: Path) -> dict[str, list[int | str]]:
    """Entries of a cache file; none if it is missing or damaged."""
    try:
        content = cast(dict[str, object], read_json(cache))
        entries = cast(dict[str, list[int | str]], content["files"])
        return entries if content["checksum"] == checksum(entries) else {}
    except (UserError, KeyError, TypeError):
        return {}
