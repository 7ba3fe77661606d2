"""Files: reading compressed text, atomic writing, locks, and manifests with checksums.

Every file that regard leaves behind is written under a temporary name, flushed to the disk and renamed (`replacing`).
So a crash, a kill or a full disk never leaves half a file under its final name, and never removes the one before. What
a killed process leaves is removed by the next one. A `Manifest` beside the files says what they were made from and what
they must contain.
"""

import bz2
import errno
import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from pydantic import BaseModel

from regard.errors import UserError
from regard.reading import JsonObject as JsonObject
from regard.reading import check_type, nearest_file, read_json

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
NEWER_VERSION = "newer-version"
COMPRESSED = (".gz", ".xz", ".bz2")
"""Endings of compressed files, in the order in which they are tried."""
PARTIAL, REPLACED = ".partial", ".replaced"
"""The ending of temporary folders, and the name in them of a folder that was there before."""
MACHINE_ERRORS = {
    errno.EIO: "check the disk and its connection, and run the command again",
    errno.ESTALE: "check the connection to the file server, and run the command again",
    errno.EFBIG: "raise the file size limit (`ulimit -f`), or choose a different disk",
    errno.EMFILE: "raise the limit for open files (`ulimit -n`)",
    errno.ENFILE: "end other programs: the system has too many open files",
    errno.ENOMEM: "end other programs, or use a machine with more memory",
}
"""Remedies for errors of the machine."""


def candidate_paths(path: Path) -> list[Path]:
    """The names under which a data file is looked for: as it is given, plain, .gz, .xz, .bz2."""
    plain = path.with_name(path.name.removesuffix(path.suffix)) if path.suffix in COMPRESSED else path
    others = [plain, *(plain.with_name(plain.name + ending) for ending in COMPRESSED)]
    return [path, *(form for form in others if form != path)]


def find_file(path: Path) -> Path:
    """The first form of a data file that exists; `path` itself if there is none."""
    try:
        return path if path.exists() else next((form for form in candidate_paths(path) if form.is_file()), path)
    except OSError:
        return path


def split_archive(path: Path) -> tuple[Path, str]:
    """The .zip file that is a folder of `path`, and the name of the member; the path itself and "" if there is none."""
    archive = next((parent for parent in path.parents if parent.suffix.lower() == ".zip" and parent.is_file()), path)
    return archive, path.relative_to(archive).as_posix() if archive != path else ""


def open_zip(path: Path, stream: BinaryIO | None = None) -> zipfile.ZipFile:
    """Open a zip file, or a stream of it, that may be damaged."""
    try:
        return zipfile.ZipFile(stream or path)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        problem, remedy = f"{path} is not a zip file, or damaged: {error}", "copy or download the file again"
        raise UserError(problem, remedy, code="damaged-file", where=path) from error


def open_member(archive: Path, member: str) -> BinaryIO:
    """Open a file in a .zip file for reading bytes."""
    zipped = open_zip(archive)
    try:
        with zipped:
            return cast(BinaryIO, zipped.open(member))  # which keeps the file open
    except KeyError as error:
        names = ", ".join(name for name in zipped.namelist()[:8] if not name.endswith("/"))
        problem, remedy = f"{archive} has no file {member}", f"the zip file contains {names or 'no files'}"
        raise UserError(problem, remedy, code="missing-file", where=archive / member) from error
    except (RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
        problem, remedy = f"{archive / member} cannot be read: {error}", "extract the file with another program"
        raise UserError(problem, remedy, code="damaged-file", where=archive / member) from error


def open_binary(path: Path) -> BinaryIO:
    """Open a data file for reading bytes; .gz, .xz and .bz2 are decompressed, and FILE.zip/MEMBER is read."""
    wanted, path = path, find_file(path)
    try:
        if (archive := split_archive(path))[1]:
            return decompress(open_member(*archive), path.suffix)
        if path.is_dir():
            raise UserError(f"{path} is a folder, not a file", "choose a file", code="not-a-file", where=path)
        if not path.exists():
            tried = ", ".join(form.name for form in candidate_paths(wanted)[1:])
            raise UserError(f"{path}: no such file, nor {tried}", nearest_file(path), code="missing-file", where=path)
        return decompress(path.open("rb"), path.suffix)
    except OSError as error:
        problem = f"{path} cannot be read: {error.strerror or error}"
        remedy = MACHINE_ERRORS.get(error.errno or 0, "check the file permissions")
        raise UserError(problem, remedy, code="unreadable-file", where=path) from error


def decompress(stream: BinaryIO, ending: str) -> BinaryIO:
    """A stream, decompressed if its file has one of the endings COMPRESSED; closing it closes `stream`."""
    if ending not in COMPRESSED:
        return stream
    reader = _GzipReader(fileobj=stream) if ending == ".gz" else _StreamsReader(stream, ending)
    return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, reader)))


class _GzipReader(gzip.GzipFile):
    """A .gz file that closes the stream below it."""

    def close(self) -> None:
        below = cast(BinaryIO | None, self.fileobj)
        super().close()
        if below is not None:
            below.close()


class _StreamsReader(io.RawIOBase):
    """A .xz or .bz2 file to its last byte: one stream after another. Python's readers ignore a damaged later one."""

    def __init__(self, stream: BinaryIO, ending: str) -> None:
        super().__init__()
        self._stream, self._new = stream, lzma.LZMADecompressor if ending == ".xz" else bz2.BZ2Decompressor
        self._decoder = self._new()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            data = b""
            if self._decoder.eof:
                data = self._decoder.unused_data.lstrip(b"\0")
                while not data:  # padding
                    if not (more := self._stream.read(io.DEFAULT_BUFFER_SIZE)):
                        return 0
                    data = more.lstrip(b"\0")
                self._decoder = self._new()
            elif self._decoder.needs_input and not (data := self._stream.read(io.DEFAULT_BUFFER_SIZE)):
                raise EOFError("compressed file ended before the end-of-stream marker was reached")
            if output := self._decoder.decompress(data, len(buffer)):
                buffer[: len(output)] = output
                return len(output)

    def close(self) -> None:
        self._stream.close()
        super().close()


def compress(stream: BinaryIO, ending: str) -> BinaryIO:
    """A stream that compresses what is written, for a file with one of the endings COMPRESSED; equal texts alike."""
    if ending == ".gz":
        return cast(BinaryIO, gzip.GzipFile("", "wb", fileobj=stream, mtime=0))
    return cast(BinaryIO, lzma.open(stream, "wb") if ending == ".xz" else bz2.open(stream, "wb"))


def digest(path: Path) -> str:
    """Compute the sha256 of a file's content, or of a member of a .zip file."""
    archive = split_archive(path)
    with open_member(*archive) if archive[1] else path.open("rb") as stream:
        return hashlib.file_digest(cast(io.BytesIO, stream), "sha256").hexdigest()


def checksum(value: object) -> str:
    """Compute the sha256 of a JSON value; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def flush(path: Path) -> None:
    """Make the content of a file, or the names in a folder, survive a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def explain_os_error(error: OSError, path: Path | None = None) -> UserError | None:
    """Describe an error of the operating system while `path` was used; None if it is likely a bug in regard."""
    file, number = path or error.filename or "a file", error.errno
    missing = number == errno.ENOENT and path is not None and Path(error.filename or "") in (path, *path.parents)
    if number in (errno.ENOSPC, errno.EDQUOT):
        problem, remedy, code = "the disk is full", "free some disk space and run the command again", "disk-full"
    elif number in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = "choose a folder with write permission" if path else "check the permissions"
        problem, code = str(error.strerror), "unwritable" if path else "unreadable-file"
    elif number == errno.ENAMETOOLONG:
        problem, remedy, code = str(error.strerror), "choose a shorter name", "invalid-name"
    elif missing or number in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ELOOP):
        problem, remedy, code = str(error.strerror), "choose another path", "unwritable"
    elif number in MACHINE_ERRORS:
        problem, remedy, code = str(error.strerror), MACHINE_ERRORS[number], "machine-error"
    else:
        return None
    return UserError(f"{file}: {problem}", remedy, code=code, where=file)


@contextmanager
def io_errors(path: Path) -> Iterator[None]:
    """Turn an OSError while writing `path` into a UserError with a remedy."""
    try:
        yield
    except OSError as error:
        explained = explain_os_error(error, path)
        if explained is None:
            raise
        raise explained from error


def require_writable(path: Path) -> None:
    """Raise a UserError if `path` cannot be written; called before the work whose result goes there."""
    with io_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Hold the lock of `folder`, which is created if needed; raise a UserError if another process holds it.

    Yields False if the file system has no locks. The operating system releases the lock when the process ends, however
    it ends. The lock file itself may stay.
    """
    with io_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        yield lock_file(handle, folder)
    finally:
        os.close(handle)


def lock_file(handle: int, path: Path) -> bool:
    """Lock an open file until it is closed; a UserError if another process works with it. False: there are no locks."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fcntl is not None
    except OSError as error:
        if error.errno != errno.EWOULDBLOCK:
            return False
        problem, remedy = f"another process is working in {path}", "wait for it, or choose a different folder"
        raise UserError(problem, remedy, code="in-use", where=path) from error


@contextmanager
def replacing(path: Path, folder: bool = False) -> Iterator[Path]:
    """Yield a temporary path for a file (or a folder); on success flush it and put it in the place of `path`.

    At every moment `path` is what it was before or what was written, complete; on failure the temporary files are
    removed. Only where the file system cannot exchange two folders in one step, a killed process can leave both of
    them in the temporary folder; `remove_leftovers` then restores `path`.
    """
    with io_errors(path), _temporary_folder(path) as aside:
        temporary = aside / path.name
        if folder:
            temporary.mkdir()
        yield temporary
        for item in (temporary, *temporary.rglob("*")):
            flush(item)
        if folder and os.path.lexists(path):
            _replace_folder(temporary, path, aside / REPLACED)
        else:
            temporary.replace(path)
        flush(path.parent)


@contextmanager
def default_permissions(path: Path) -> Iterator[None]:
    """Give `path`, written inside, the usual permissions: some libraries (safetensors) let only the owner read it."""
    path.touch()
    permissions = path.stat().st_mode
    yield
    path.chmod(permissions)


def remove_folder(path: Path) -> None:
    """Remove a folder; if the process is killed meanwhile, nothing is left under its name."""
    with io_errors(path), _temporary_folder(path) as aside:
        path.rename(aside / path.name)


@contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder beside `path`; it is locked as long as it is used, and then removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent, path.name)
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=PARTIAL, dir=path.parent))
    try:
        with locked(aside):
            yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _replace_folder(new: Path, path: Path, old: Path) -> None:
    """Put the folder `new` in the place of `path`; what was there is then at `new` or at `old`."""
    if _exchange(new, path):
        return
    try:
        path.rename(old)
        new.rename(path)
    except BaseException:
        if not os.path.lexists(path):
            old.rename(path)
        raise


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two names in one step; False if the system or the file system cannot."""
    if sys.platform != "linux":
        return False
    import ctypes

    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    return rename is not None and rename(here, os.fsencode(first), here, os.fsencode(second), exchange) == 0


def remove_leftovers(folder: Path, name: str = "") -> None:
    """Remove what killed processes left in `folder`: all temporary folders there, or only those for the file `name`.

    A temporary folder that is locked, or that cannot be locked, may belong to a process at work and stays. No link is
    followed. If a process was killed while it replaced a folder, the new folder gets its name.
    """
    if folder.is_symlink() or not folder.is_dir():
        return
    prefix = f".{name}." if name else "."
    leftovers = [path for path in folder.iterdir() if path.name.startswith(prefix) and path.name.endswith(PARTIAL)]
    for leftover in (path for path in leftovers if path.is_dir() and not path.is_symlink()):
        with suppress(UserError, OSError), locked(leftover) as known:
            if known and (leftover / REPLACED).exists():
                _restore(leftover)
            if known:
                shutil.rmtree(leftover, ignore_errors=True)


def _restore(leftover: Path) -> None:
    """Give the new folder in a temporary one its name, if there is no other of that name."""
    for path in leftover.iterdir():
        target = leftover.parent / path.name
        if path.name not in (LOCK, REPLACED) and not os.path.lexists(target):
            path.rename(target)
            flush(leftover.parent)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Write a value as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


class _Entry(BaseModel):
    """What a manifest says about one file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """A JSON file that says what the files beside it were made from and what they must contain.

    format   version of the files' layout; another version is not current
    inputs   JSON that identifies everything the files depend on
    files    size and sha256 of every file, by its path relative to the folder
    facts    further JSON values about the files, for example counts

    On disk `facts` stand beside the other keys, and "sha256" is the checksum of all of them.
    """

    format: int
    inputs: object = None
    files: dict[str, JsonObject] = field(default_factory=dict)
    facts: JsonObject = field(default_factory=dict)

    @classmethod
    def describe(
        cls,
        folder: Path,
        names: Iterable[str],
        *,
        format: int,
        inputs: object = None,
        facts: JsonObject | None = None,
    ) -> "Manifest":
        """Make the manifest of the files `names` in `folder` as they are now."""
        files = {name: {"bytes": (folder / name).stat().st_size, "sha256": digest(folder / name)} for name in names}
        return cls(format, json.loads(json.dumps(inputs)), files, facts or {})

    def write(self, path: Path) -> None:
        """Write the manifest atomically; write it last, so that a folder with a manifest is complete."""
        content = {"format": self.format, "inputs": self.inputs, "files": self.files, **self.facts}
        write_json(path, {**content, "sha256": checksum(content)})

    @classmethod
    def read(cls, path: Path) -> "Manifest":
        """Read a manifest; raise a UserError if it is missing, its checksum is wrong, or a key has another type."""
        content = read_json(path, JsonObject)
        if content.pop("sha256", None) != checksum(content):
            problem = f"{path} is damaged: the content does not match its sha256"
            raise UserError(problem, code="damaged-file", where=path)
        format = check_type(content.pop("format", None), int, f"{path}:format")
        files = check_type(content.pop("files", None), dict[str, _Entry], f"{path}:files")
        for name in files:
            if Path(name).is_absolute() or ".." in Path(name).parts:
                problem = f"{path} is damaged: {name!r} is not in its folder"
                raise UserError(problem, code="damaged-file", where=f"{path}:files")
        entries = {name: entry.model_dump() for name, entry in files.items()}
        return cls(format, content.pop("inputs", None), entries, content)

    @classmethod
    def read_or_none(cls, path: Path) -> "Manifest | None":
        """Read a manifest; None if it is missing or damaged."""
        try:
            return cls.read(path)
        except UserError:
            return None

    def check_version(self, format: int, path: Path) -> None:
        """Raise a UserError if the files of `path` have a newer format than the one that is known."""
        if self.format > format:
            problem = f"{path} was written by a newer version of regard (format {self.format})"
            raise UserError(problem, "update regard: `pip install -U regard`", code=NEWER_VERSION, where=path)

    def is_current(self, inputs: object, format: int) -> bool:
        """True if the files were made from `inputs` in this `format`."""
        return self.format == format and self.inputs == json.loads(json.dumps(inputs))

    def damaged(
        self, folder: Path, names: Iterable[str] | None = None, digest: Callable[[Path], str] | None = digest
    ) -> dict[str, str]:
        """Check the files `names`, or all, against the manifest: the problem of each that differs, by its name. Without
        `digest`, no file is read: only its size is checked."""
        problems = {name: self._problem(folder, name, digest) for name in (self.files if names is None else names)}
        return {name: problem for name, problem in problems.items() if problem}

    def _problem(self, folder: Path, name: str, digest: Callable[[Path], str] | None) -> str:
        path, expected = folder / name, self.files.get(name)
        if expected is None:
            return "the manifest does not name it"
        if not path.is_file():
            return "it is missing"
        size = path.stat().st_size
        if size != expected["bytes"]:
            return f"it has {size} of {expected['bytes']} bytes"
        return "" if digest is None or digest(path) == expected["sha256"] else "its content changed (sha256 differs)"
