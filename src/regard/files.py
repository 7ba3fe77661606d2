"""Files: reading compressed text, atomic writing, locks, and manifests with checksums.

Every file that regard leaves behind is written under a temporary name, flushed to the disk and renamed (`replacing`).
So a crash, a kill or a full disk never leaves half a file under its final name. A `Manifest` beside the files says what
they were made from and what they must contain.
"""

import errno
import gzip
import hashlib
import json
import lzma
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from regard.errors import UserError

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
COMPRESSED = (".gz", ".xz")
"""Endings of compressed files, in the order in which they are tried."""
JsonObject = dict[str, Any]  # what a JSON object is read into


def forms_of(path: Path) -> list[Path]:
    """The names under which a data file is looked for: as it is given, plain, .gz, .xz."""
    plain = path.with_name(path.name.removesuffix(path.suffix)) if path.suffix in COMPRESSED else path
    others = [plain, *(plain.with_name(plain.name + ending) for ending in COMPRESSED)]
    return [path, *(form for form in others if form != path)]


def find_file(path: Path) -> Path:
    """The first form of a data file that exists; `path` itself if there is none."""
    try:
        return path if path.exists() else next((form for form in forms_of(path) if form.is_file()), path)
    except OSError:
        return path


def open_binary(path: Path) -> BinaryIO:
    """Open a data file, plain or compressed, for reading bytes; .gz and .xz files are decompressed."""
    wanted, path = path, find_file(path)
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder, not a file", "give a text file", code="not-a-file", where=path)
        if not path.exists():
            tried = ", ".join(form.name for form in forms_of(wanted)[1:])
            raise UserError(f"{path}: no such file, nor {tried}", nearest_file(path), code="missing-file", where=path)
        if path.suffix == ".gz":
            return cast(BinaryIO, gzip.open(path, "rb"))
        if path.suffix == ".xz":
            return cast(BinaryIO, lzma.open(path, "rb"))
        return path.open("rb")
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror or error}",
            "check its permissions",
            code="unreadable-file",
            where=path,
        ) from error


def nearest_file(path: Path) -> str:
    """Describe the folder of a missing file, as the remedy of an error."""
    folder = path.parent
    if not folder.is_dir():
        return f"the folder {folder.absolute()} does not exist; relative paths start at the current folder"
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())[:8]
    return f"the folder {folder} contains {', '.join(names) if names else 'no files'}"


def digest(path: Path) -> str:
    """Compute the sha256 of a file's content."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def checksum(value: object) -> str:
    """Compute the sha256 of a JSON value; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def flush_folder(folder: Path) -> None:
    """Make renames inside `folder` survive a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _flush_tree(path: Path) -> None:
    for file in [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()):
        with file.open("rb") as stream:
            os.fsync(stream.fileno())


@contextmanager
def io_errors(path: Path) -> Iterator[None]:
    """Turn an OSError while writing `path` into a UserError with a remedy."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(
                f"the disk is full: {path} was not written",
                "free some disk space and run the command again",
                code="disk-full",
                where=path,
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise UserError(
                f"{path} cannot be written: {error.strerror}",
                "choose a folder with write permission",
                code="unwritable",
                where=path,
            ) from error
        impossible = error.errno in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG)
        if impossible or (error.errno == errno.ENOENT and Path(error.filename or "") in (path, *path.parents)):
            raise UserError(
                f"{path} cannot be written: {error.strerror}", "choose another path", code="unwritable", where=path
            ) from error
        raise


def require_writable(path: Path) -> None:
    """Raise a UserError if `path` cannot be written; called before the work whose result goes there."""
    with io_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder`, which is created if needed; raise a UserError if another process holds it.

    The operating system releases the lock when the process ends, however it ends. The lock file itself may stay.
    """
    with io_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno == errno.EWOULDBLOCK:
            os.close(handle)
            raise UserError(
                f"another process is working in {folder}",
                "wait until it ends, or choose another folder",
                code="in-use",
                where=folder,
            ) from error
        # Any other error means that the file system has no locks: go on without one.
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def replacing(path: Path, folder: bool = False) -> Iterator[Path]:
    """Yield a temporary path for a file (or a folder); on success flush it and rename it to `path`.

    On failure `path` is unchanged and the temporary files are removed.
    """
    with io_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent))
        temporary = aside / path.name
        try:
            if folder:
                temporary.mkdir()
            yield temporary
            _flush_tree(temporary)
            if folder and path.exists():
                path.rename(aside / "replaced")
            temporary.replace(path)
            flush_folder(path.parent)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def default_permissions(path: Path) -> Iterator[None]:
    """Give `path`, which is written inside, the permissions of other new files.

    Some libraries (safetensors) create files that only their owner can read.
    """
    path.touch()
    permissions = path.stat().st_mode
    yield
    path.chmod(permissions)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary folders of killed processes in `folder` and below; the caller holds the lock."""
    for leftover in [path for path in folder.rglob(".*.partial") if path.is_dir()]:
        shutil.rmtree(leftover, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Write a value as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file", code="missing-file", where=path) from error
    except (ValueError, OSError) as error:
        raise UserError(f"{path} is damaged or is not JSON: {error}", code="damaged-file", where=path) from error


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
        digest: Callable[[Path], str] = digest,
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
        """Read a manifest; raise a UserError if it is missing or its checksum is wrong."""
        content = read_json(path)
        try:
            if content.pop("sha256") != checksum(content):
                raise ValueError("its sha256 differs from the one written in it")
            return cls(content.pop("format"), content.pop("inputs", None), content.pop("files"), content)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path} is damaged: {error}", code="damaged-file", where=path) from error

    @classmethod
    def read_or_none(cls, path: Path) -> "Manifest | None":
        """Read a manifest; None if it is missing or damaged."""
        try:
            return cls.read(path)
        except UserError:
            return None

    def is_current(self, inputs: object, format: int) -> bool:
        """True if the files were made from `inputs` in this `format`."""
        return self.format == format and self.inputs == json.loads(json.dumps(inputs))

    def damaged(
        self, folder: Path, names: Iterable[str] | None = None, digest: Callable[[Path], str] = digest
    ) -> dict[str, str]:
        """Check the files `names`, or all, against the manifest: the problem of each that differs, by its name."""
        problems = {name: self._problem(folder, name, digest) for name in (self.files if names is None else names)}
        return {name: problem for name, problem in problems.items() if problem}

    def _problem(self, folder: Path, name: str, digest: Callable[[Path], str]) -> str:
        path, expected = folder / name, self.files[name]
        if not path.is_file():
            return "it is missing"
        size = path.stat().st_size
        if size != expected["bytes"]:
            return f"it has {size} of {expected['bytes']} bytes"
        return "" if digest(path) == expected["sha256"] else "its content changed (sha256 differs)"
