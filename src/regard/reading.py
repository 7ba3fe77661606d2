"""Reading of files that may be damaged or hostile: regular files of bounded size, JSON and TOML of a known form.

A run or a model may come from anybody. So a file is read only if it is a regular file (a device or a pipe may have no
end), and nothing is used before its type is checked. Every problem is a `UserError` with the file and the key.
"""

import dataclasses
import json
import re
import stat
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from regard.errors import UserError

T = TypeVar("T")
JsonObject = dict[str, Any]  # what a JSON object is read into

MAX_BYTES = 64 << 20
"""Largest file that is read into memory as a whole; the tokenizer of a million tokens fits."""
MAX_ITEMS = 4_000_000
"""Most values in one JSON file: they need less than half a gigabyte."""
MAX_DEPTH = 64
"""Deepest nesting of JSON."""
MAX_TOML_BYTES = 4 << 20
MAX_KEY_PARTS = 64
"""Most parts of a dotted key, `a.b.c`."""
MAX_LINE = 4 << 20
"""Longest line of a file that is read line by line."""
MAX_INTEGER = 1 << 64

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_KEY_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*"""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_KEY_PART}){{{MAX_KEY_PARTS}}}")


def require_regular(path: Path, limit: int | None = None) -> None:
    """Raise a UserError if `path` is missing, is not a regular file, or has more than `limit` bytes."""
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file", nearest_file(path), code="missing-file", where=path) from error
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}", code="unreadable-file", where=path) from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a device, a pipe or a socket"
        raise UserError(f"{path} is {kind}, not a file", "replace it with a file", code="not-a-file", where=path)
    if limit is not None and status.st_size > limit:
        problem = f"{path} is too large: {status.st_size:,} bytes, at most {limit:,}"
        raise UserError(problem, code="too-large", where=path)


def refuse_devices(path: Path) -> None:
    """Raise a UserError if `path` is a device, a pipe or a socket; files, folders and missing files pass."""
    if path.exists() and not path.is_file() and not path.is_dir():
        require_regular(path)


def nearest_file(path: Path) -> str:
    """Describe the folder of a missing file, as the remedy of an error."""
    folder = path.parent
    if not folder.is_dir():
        return f"the folder {folder.absolute()} does not exist; relative paths start at the current folder"
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())[:8]
    return f"the folder {folder} contains {', '.join(names) if names else 'no files'}"


def open_regular(path: Path, limit: int | None = None) -> BinaryIO:
    """Open a regular file of at most `limit` bytes."""
    require_regular(path, limit)
    try:
        return path.open("rb")
    except OSError as error:
        problem, remedy = f"{path} cannot be read: {error.strerror}", "check the file permissions"
        raise UserError(problem, remedy, code="unreadable-file", where=path) from error


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """Read a regular file of at most `limit` bytes."""
    with open_regular(path, limit) as stream:
        return stream.read(limit)


def read_text(path: Path, limit: int = MAX_BYTES) -> str:
    """Read a regular UTF-8 file of at most `limit` bytes."""
    try:
        return read_bytes(path, limit).decode()
    except UnicodeDecodeError as error:
        problem, remedy = f"{path} is not UTF-8 text: {error}", "save it as UTF-8"
        raise UserError(problem, remedy, code="not-utf8", where=path) from error


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a regular file with their ends, one at a time."""
    with open_regular(path) as stream:
        number = 0
        while line := stream.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                where = f"{path}:{number}"
                raise UserError(f"{where} has more than {MAX_LINE:,} bytes", code="damaged-file", where=where)
            yield line


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; a ValueError says what is wrong, also if it is nested too deeply or has too many values."""
    text = text.decode() if isinstance(text, bytes) else text
    if text.count(",") + text.count("[") + text.count("{") > MAX_ITEMS:
        raise ValueError(f"it has more than {MAX_ITEMS:,} values")
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    check_depth(value)
    if _LONE_SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()  # raises UnicodeEncodeError, a ValueError
    return value


def parse_strict_json(text: str) -> object:
    """Parse JSON data; a ValueError also for a key that occurs twice, NaN, Infinity and the character U+0000."""

    def unique(items: list[tuple[str, object]]) -> dict[str, object]:
        values = dict(items)
        if len(values) < len(items):
            names = [name for name, _ in items]
            raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} occurs twice")
        return values

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON; write null or a number")

    value: object = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    if _NUL.search(text):
        raise ValueError("a text contains the character U+0000")
    return value


def check_depth(value: object) -> None:
    """Raise a ValueError if lists and objects are nested more than MAX_DEPTH times."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        items = (item for outer in level for item in (outer.values() if isinstance(outer, dict) else outer))
        level = [item for item in items if isinstance(item, dict | list)]
        if not level:
            return
    raise ValueError("it is nested too deeply")


def check_text(value: T, location: object = "the text", where: object = "") -> T:
    """Return a text or a JSON value; raise a UserError if it has a lone surrogate, which UTF-8 cannot encode."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        context = ascii(text[max(0, error.start - 10) : error.end + 10])
        problem = f"{location} contains half of a surrogate pair, {text[error.start]!a}, in {context}"
        remedy = "correct the text: half a surrogate pair is not a character"
        raise UserError(problem, remedy, code="bad-text", where=where or location) from error
    return value


def read_json(path: Path, kind: type[T]) -> T:
    """Read a JSON file that holds a value of type `kind`: dict[str, Any], list[str], a pydantic model, ..."""
    try:
        value = parse_json(read_text(path))
    except ValueError as error:
        raise UserError(f"{path} is damaged or is not JSON: {error}", code="damaged-file", where=path) from error
    return check_type(value, kind, path)


def check_type(value: object, kind: type[T], path: Path | str) -> T:
    """Return `value`, read from `path`, as a `kind`; a UserError names the first key that does not fit."""
    try:
        return _adapter(kind).validate_python(value, strict=True)  # type: ignore[arg-type]
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key, message = ".".join(map(str, problem["loc"])), problem["msg"].replace("Input should be", "it must be")
        text = f"{path} is damaged: " + (f"{key}: {message}" if key else message)
        raise UserError(text, code="damaged-file", where=f"{path}:{key}" if key else path) from error


@lru_cache(None)
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)


def check_dataclass(value: object, kind: type[T], path: Path | str) -> T:
    """Return a JSON object, read from `path`, as a dataclass; a UserError names a key that does not fit."""
    values, types = check_type(value, JsonObject, path), get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    optional = {name for name, field in fields.items() if field.default is not dataclasses.MISSING}
    optional |= {name for name, field in fields.items() if field.default_factory is not dataclasses.MISSING}
    for key in sorted({*values} ^ {*fields}):
        if key in values or key not in optional:
            problem = f"{key} is not known to this version of regard" if key in values else f"it has no {key}"
            problem = f"{path} is damaged or from a different version: {problem}"
            raise UserError(problem, code="damaged-file", where=f"{path}:{key}")
    return kind(**{key: check_type(item, types[key], f"{path}:{key}") for key, item in values.items()})


def parse_toml(text: str) -> JsonObject:
    """Parse TOML; raise ValueError for invalid text, deep nesting or keys that take too long to parse."""
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {MAX_KEY_PARTS} parts")
    try:
        values = tomllib.loads(text)
        _check_integers(values)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return values


def _check_integers(value: object) -> None:
    """Raise a ValueError for an integer of more than 64 bits: TOML has no larger ones."""
    if isinstance(value, int) and not -MAX_INTEGER < value < MAX_INTEGER:
        raise ValueError("an integer has more than 64 bits")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_integers(item)


def read_toml(path: Path) -> JsonObject:
    """Read a TOML file, which may be a pipe; a syntax error names its line."""
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_TOML_BYTES + 1).decode()
        if len(text) > MAX_TOML_BYTES:
            raise ValueError(f"it has more than {MAX_TOML_BYTES:,} bytes")
        return parse_toml(text)
    except FileNotFoundError as error:
        problem, remedy = f"{path}: no such recipe", "see `regard recipes`"
        raise UserError(problem, remedy, code="missing-file", where=path) from error
    except UnicodeDecodeError as error:
        problem, remedy = f"{path} is not UTF-8 text: {error}", "save it as UTF-8"
        raise UserError(problem, remedy, code="not-utf8", where=path) from error
    except ValueError as error:
        problem, remedy = f"{path} is not valid TOML: {error}", 'a setting looks like: name = 3, or name = "text"'
        raise UserError(problem, remedy, code="bad-toml", where=path) from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", code="unreadable-file", where=path) from error
