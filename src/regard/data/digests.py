"""What files hold, as sha256, read once and remembered for as long as they look untouched.

Training knows its text, and the store made of it, by content. To read gigabytes again at every start would cost
seconds for nothing, so a digest is kept with what the file system says of the file: its size, its inode, and when
its content and the inode itself last changed. Whatever writes to a file or puts another in its place changes one of
them, and the file is read again; the last cannot be set back, not even by `touch`. A file changed a moment ago is not
remembered, for within one tick of the clock it could change once more and look the same.

What none of this shows is a disk that forgets bits by itself. That takes reading everything, as a `Digests` without
a memory does: after a store is built, and in `regard doctor`.
"""

import hashlib
import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.files import digest, read_json, write_json

TICK = 2 * 10**9  # nanoseconds; no file system's clock is coarser


class Digests:
    """The sha256 of files, some of them remembered."""

    def __init__(self, memory: Path | None = None) -> None:
        """Remember what the file `memory` says; without one every file is read."""
        self._memory = memory
        self._known = _recall(memory) if memory is not None else {}
        self._learnt = False

    def of(self, path: Path) -> str:
        """The sha256 of what `path` holds."""
        name, look = str(path.absolute()), _look(path)
        known = self._known.get(name)
        if known is not None and known[:-1] == look:
            return str(known[-1])
        settled = time.time_ns() - max(look[-2:]) > TICK
        found = digest(path)
        if settled and _look(path) == look:
            self._known[name] = [*look, found]
            self._learnt = True
        return found

    def save(self) -> None:
        """Keep what was learnt; where nothing can be written the files are read again next time, and that is all."""
        if self._memory is not None and self._learnt:
            with suppress(UserError, OSError):
                write_json(self._memory, {"files": self._known, "checksum": checksum(self._known)})


def checksum(content: Any) -> str:
    """The sha256 of plain values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _look(path: Path) -> list[int]:
    """What changes when anything about a file does."""
    seen = path.stat()
    return [seen.st_size, seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns]


def _recall(memory: Path) -> dict[str, list[Any]]:
    """What was saved, or nothing if it is missing or damaged."""
    try:
        content = read_json(memory)
        known: dict[str, list[Any]] = content["files"]
        return known if content["checksum"] == checksum(known) else {}
    except (UserError, KeyError, TypeError):
        return {}
