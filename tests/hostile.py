"""Hostile JSON: the values of a file replaced, one after another, by values that do not belong there."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.files import LOCK, checksum

VALUES: list[Any] = [
    None, [], {}, -1, 0, 1e30, 10**30, "x", True, float("nan"), float("inf"), [[]], {"x": None}, "../../x", ["x", 1],
]  # fmt: skip
TEXTS = [
    "", "{", "null", "3", '"x"', "[]", "[null]", "{}", '{"sha256": null}', "[" * 100_000,
    '{"a":' * 3_000 + "1" + "}" * 3_000,
    "9" * 5_000, '["\\ud800"]', "\x00", "NaN",
]  # fmt: skip
"""Whole files."""
MAX_CHILDREN = 12
"""Values of one list or object that are replaced: those of a vocabulary are all alike."""


def paths_in(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of all values in JSON, outer ones first; of a large list or object only the first values."""
    items = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for key, item in items[:MAX_CHILDREN]:
        yield (*path, key)
        yield from paths_in(item, (*path, key))


def replaced(value: Any, path: tuple[str | int, ...], new: object) -> Any:
    """A copy of a JSON value with another value at a path."""
    result = copy.deepcopy(value)
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return result


def removed(value: Any, path: tuple[str | int, ...]) -> Any:
    """A copy of a JSON value without the value at a path."""
    result = copy.deepcopy(value)
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return result


def hostile_versions(text: str, values_each: int = 3) -> Iterator[tuple[str, str]]:
    """Hostile versions of a JSON file, each with a name; every path gets some of the values, all are used in turn.

    The checksum of a manifest is right again: it proves that a file is whole, not that it makes sense.
    """
    for whole in TEXTS:
        yield f"whole file {whole[:20]!r}", whole
    content = json.loads(text)
    for number, path in enumerate(paths_in(content)):
        if path == ("sha256",):
            continue
        yield f"no {path}", sealed(removed(content, path))
        for index in range(values_each):
            new = VALUES[(number * values_each + index) % len(VALUES)]
            yield f"{path} = {new!r}", sealed(replaced(content, path, new))


def sealed(content: Any) -> str:
    """JSON text; if it is a manifest, with the right checksum."""
    if isinstance(content, dict) and isinstance(content.get("sha256"), str):
        content = {key: value for key, value in content.items() if key != "sha256"}
        content["sha256"] = checksum(content)
    return json.dumps(content)


def copy_links(source: Path, target: Path) -> None:
    """A copy of a folder whose files are links: quick to make; replace a file by `rewrite`."""
    for path in sorted(source.rglob("*")):
        destination = target / path.relative_to(source)
        if path.is_dir():
            destination.mkdir(parents=True, exist_ok=True)
        elif path.name != LOCK:
            destination.parent.mkdir(parents=True, exist_ok=True)
            destination.symlink_to(path)


def rewrite(path: Path, text: str) -> None:
    """Replace a file, which may be a link."""
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")
