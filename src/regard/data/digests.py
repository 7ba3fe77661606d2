"""sha256 of files, computed once and cached for as long as the file looks unchanged.

A run identifies its data, and the store made from it, by content. To read gigabytes again at every start would take
seconds, so a digest is cached with the size, the inode and the times of change of the file. Every write to a file, and
every file that replaces it, changes one of them, and the file is read again; the time of change of the inode cannot be
set back, not even by `touch`. A file that changed a moment ago is not cached, because within one tick of the clock it
could change again and look the same.

This does not detect a disk that loses bits. For that everything must be read, as `Digests` without a cache does:
after a store is built, and in `regard doctor`.
"""

import hashlib
import io
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from regard.errors import UserError
from regard.files import checksum, decompress, digest, open_binary, split_archive, write_json
from regard.reading import JsonObject, check_type, read_json, refuse_devices

TICK = 2 * 10**9
"""Nanoseconds; no clock of a file system is coarser."""


class Digests:
    """sha256 of files, with an optional cache."""

    def __init__(self, cache: Path | None = None) -> None:
        """Use the cache file `cache`; without one every file is read."""
        self._cache = cache
        self._entries = _load(cache) if cache is not None else {}
        self._read: dict[str, list[int | str]] = {}
        self._changed = False

    def open(self, path: Path) -> BinaryIO:
        """Open a file as `open_binary` does; its digest is computed while it is read, and need not be read for `of`."""
        try:
            name, status, raw = str(path.absolute()), _status(path), path.open("rb")
        except OSError:
            return open_binary(path)  # which raises the error that the user sees

        def learn(sha256: str) -> None:
            if _status(path) == status:
                self._read[name] = [*status, sha256]
                if time.time_ns() - max(status[-2:]) > TICK:
                    self._entries[name], self._changed = self._read[name], True

        return decompress(io.BufferedReader(_HashedFile(raw, learn)), path.suffix)

    def of(self, path: Path) -> str:
        """sha256 of the content of `path`."""
        name, status = str(path.absolute()), _status(path)
        for entry in (self._entries.get(name), self._read.get(name)):
            if entry is not None and entry[:-1] == status:
                return str(entry[-1])
        is_old = time.time_ns() - max(status[-2:]) > TICK
        sha256 = digest(path)
        if is_old and _status(path) == status:
            self._entries[name], self._changed = [*status, sha256], True
        return sha256

    def save(self) -> None:
        """Write the cache; if it cannot be written, the files are read again next time."""
        if self._cache is not None and self._changed:
            with suppress(UserError, OSError):
                write_json(self._cache, {"files": self._entries, "checksum": checksum(self._entries)})


class _HashedFile(io.RawIOBase):
    """A file that computes its sha256 while it is read, and hands it to `learn` when it is closed at its end."""

    def __init__(self, raw: BinaryIO, learn: Callable[[str], None]) -> None:
        super().__init__()
        self._raw, self._learn, self._sha256 = raw, learn, hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._raw.readinto(buffer)  # type: ignore[attr-defined]
        self._sha256.update(memoryview(buffer)[:count])
        return count

    def close(self) -> None:
        if not self.closed:
            tail = self._raw.read(1 << 20)  # a compressed file may have bytes after the end of its text
            self._sha256.update(tail)
            if len(tail) < 1 << 20:
                self._learn(self._sha256.hexdigest())
            self._raw.close()
        super().close()


def _status(path: Path) -> list[int]:
    """Size, inode and times of change of a file; a UserError for a device or a pipe, which may have no end."""
    refuse_devices(path)
    status = split_archive(path)[0].stat()
    return [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def _load(cache: Path) -> dict[str, list[int | str]]:
    """Entries of a cache file; none if it is missing or damaged."""
    try:
        content = read_json(cache, JsonObject)
        files = check_type(content.get("files"), dict[str, list[int | str]], cache)
    except UserError:
        return {}
    return files if content.get("checksum") == checksum(files) else {}
