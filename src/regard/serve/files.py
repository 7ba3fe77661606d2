"""Translated files for download: in memory, under random names, for a short time."""

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

MAX_AGE = 1800.0
"""Seconds that a file can be downloaded."""
MAX_BYTES, MAX_FILES = 64_000_000, 1000
"""Limits of all files together; beyond them the oldest are removed."""
MAX_NAME = 100
UNSAFE = frozenset('\\/:*?"<>|')


@dataclass(frozen=True)
class StoredFile:
    """A translated file."""

    name: str
    """The name for the client to store it under: a_de.txt."""
    content: bytes
    expires: float


@dataclass
class FileStore:
    """Files by random names of 128 bits; a dictionary, so the oldest comes first."""

    max_age: float = MAX_AGE
    max_bytes: int = MAX_BYTES
    clock: Callable[[], float] = time.monotonic
    files: dict[str, StoredFile] = field(default_factory=dict)
    size: int = 0
    timer: asyncio.TimerHandle | None = None
    """Removes the oldest file when it is too old. There is one timer for all files, not one for each."""

    def put(self, name: str, content: bytes) -> str:
        """Keep a file; return the name under which `get` finds it: 32 hexadecimal digits, a point and its own name."""
        key = f"{secrets.token_hex(16)}.{name}"
        self.files[key] = StoredFile(name, content, self.clock() + self.max_age)
        self.size += len(content)
        self.purge()
        return key

    def get(self, key: str) -> StoredFile | None:
        """The file of a name; None if there is none, or not any more."""
        self.purge()
        return self.files.get(key)

    def purge(self) -> None:
        """Remove files that are too old, and the oldest ones while there are too many."""
        now = self.clock()
        for key, file in list(self.files.items()):
            if file.expires > now and self.size <= self.max_bytes and len(self.files) <= MAX_FILES:
                break
            del self.files[key]
            self.size -= len(file.content)

    def purge_later(self, loop: asyncio.AbstractEventLoop) -> None:
        """Remove files that are too old also if no further request comes."""
        if self.files and (self.timer is None or self.timer.when() <= loop.time()):
            oldest = next(iter(self.files.values()))
            self.timer = loop.call_later(max(0.0, oldest.expires - self.clock()) + 1, self._purge_and_reschedule, loop)

    def _purge_and_reschedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self.timer = None
        self.purge()
        self.purge_later(loop)


def safe_name(name: str) -> str:
    """The last part of a path of any system, without control characters and characters that systems forbid."""
    last = name.replace("\\", "/").rpartition("/")[2]
    clean = "".join(character for character in last if character.isprintable() and character not in UNSAFE)
    clean = clean.strip().lstrip(".")
    path = PurePosixPath(clean[-MAX_NAME:])
    return path.name or "file"


def translated_name(name: str, target: str) -> str:
    """The name of a translated file: a.txt -> a_de.txt."""
    path = PurePosixPath(safe_name(name))
    return f"{path.stem}_{target}{path.suffix}"
