"""Reading text of any compression and writing files that are either whole or not there.

Every file the toolkit leaves behind is written aside, flushed to the disk and renamed (`replacing`), so that a crash,
a kill or a full disk never leaves half a file under a name that somebody trusts.
"""

import errno
import gzip
import hashlib
import json
import lzma
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from regard.errors import UserError

try:
    import fcntl
except ImportError:  # a system without it has no such locks
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"


def open_binary(path: Path) -> BinaryIO:
    """Open `path` for reading bytes; .gz and .xz are decompressed on the way."""
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder, not a file", "name a text file")
        if not path.exists():
            raise UserError(f"{path}: no such file", nearest_file(path))
        if path.suffix == ".gz":
            return cast(BinaryIO, gzip.open(path, "rb"))
        if path.suffix == ".xz":
            return cast(BinaryIO, lzma.open(path, "rb"))
        return path.open("rb")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}", "check its permissions") from error


def nearest_file(path: Path) -> str:
    """A remedy for a missing file: where we looked, and what stands there instead."""
    folder = path.parent
    if not folder.is_dir():
        return f"the folder {folder.absolute()} does not exist either; relative paths start where the command is typed"
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())[:8]
    return f"the folder {folder} holds {', '.join(names) if names else 'no files'}"


def digest(path: Path) -> str:
    """sha256 of a file's content, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def flush_folder(folder: Path) -> None:
    """Make renames inside `folder` survive a power cut."""
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
def writing(path: Path) -> Iterator[None]:
    """Turn what the operating system says about writing `path` into an error that names it and a remedy."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(f"the disk is full: {path} was not written", "free some space and go on") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise UserError(
                f"{path} cannot be written: {error.strerror}", "choose a folder you may write to"
            ) from error
        impossible = error.errno in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG)
        if impossible or (error.errno == errno.ENOENT and Path(error.filename or "") in (path, *path.parents)):
            raise UserError(f"{path} cannot be written: {error.strerror}", "choose another path") from error
        raise


def refuse_unwritable(path: Path) -> None:
    """Find out before the work whether its result can be written to `path`."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Be the only process that has `folder`, which is made if it is not there; another one is refused at once.

    The lock is the operating system's and ends with the process, however it ends: the file that stays means nothing.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno == errno.EWOULDBLOCK:
            os.close(handle)
            raise UserError(
                f"another process is training in {folder}", "wait until it ends, or choose another folder"
            ) from error
        # Any other answer is that of a file system without locks: then there is nobody to ask.
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def replacing(path: Path, folder: bool = False) -> Iterator[Path]:
    """Yield a place aside to write a file (or a whole folder) to; on success it is flushed and takes `path`'s name.

    On any failure what stood at `path` before still stands there, and the place aside is removed.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent))
        place = aside / path.name
        try:
            if folder:
                place.mkdir()
            yield place
            _flush_tree(place)
            if folder and path.exists():
                path.rename(aside / "replaced")
            place.replace(path)
            flush_folder(path.parent)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove what killed processes left aside in `folder` and below; only for whoever holds the folder."""
    for leftover in [path for path in folder.rglob(".*.partial") if path.is_dir()]:
        shutil.rmtree(leftover, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a whole text file, or nothing."""
    with replacing(path) as place:
        place.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, or nothing."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON that this toolkit wrote; a damaged file is named."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except (ValueError, OSError) as error:
        raise UserError(f"{path} is damaged or is not JSON: {error}") from error
