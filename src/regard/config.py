"""Settings: typed, frozen, unknown names refused; TOML recipes with `a.b=c` overrides.

A setting is written once, beside the class it configures: its name, type, default and help are one `Field`. Every
refusal names the key, says what is wrong with it and, for a name nobody knows, the nearest one that exists.
"""

import difflib
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from regard.errors import UserError

__all__ = ["Field", "Settings", "apply_overrides", "build", "describe", "read_toml"]


class Settings(BaseModel):
    """Base of every group of settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


LISTED = "regard recipes --settings lists them all"

S = TypeVar("S", bound=Settings)
Table = dict[str, Any]


def read_toml(path: Path) -> Table:
    """Read a TOML file; a syntax error names its line."""
    try:
        with path.open("rb") as stream:
            return tomllib.load(stream)
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such recipe", "regard recipes lists those that come with the toolkit") from error
    except tomllib.TOMLDecodeError as error:
        raise UserError(
            f"{path} is not valid TOML: {error}", 'a setting looks like: name = 3, or name = "text"'
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}", "save it as UTF-8") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


def apply_overrides(values: Table, overrides: Sequence[str]) -> Table:
    """Return `values` with each `a.b=c` set; `c` is read as TOML, and as plain text where it is none."""
    result: Table = _copy(values)
    for override in overrides:
        path, equals, text = override.partition("=")
        keys = path.strip().split(".")
        if not equals or not all(keys):
            raise UserError(f"{override!r} is not a setting", "write name=value, for example training.max_steps=1000")
        table = result
        for key in keys[:-1]:
            table = table.setdefault(key, {})
            if not isinstance(table, dict):
                raise UserError(f"{override!r}: {key} holds a value, not a group of settings")
        table[keys[-1]] = _parse_value(text.strip())
    return result


def _copy(table: Table) -> Table:
    return {key: _copy(value) if isinstance(value, dict) else value for key, value in table.items()}


def _parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def build(settings: type[S], values: Table, source: str) -> S:
    """Validate `values` as `settings`; all problems are reported at once, each with its key and a remedy."""
    try:
        return settings.model_validate(values)
    except ValidationError as error:
        lines = [_explain(settings, problem) for problem in error.errors()]
        raise UserError(
            f"{source}: {len(lines)} setting{'s' * (len(lines) > 1)} cannot be used", "\n  ".join(lines)
        ) from error


def _explain(settings: type[Settings], problem: Any) -> str:
    location = [str(part) for part in problem["loc"]]
    # Union members add their type's name to the location; only what the user wrote is shown.
    key = ".".join(part for part in location if not part.startswith(("list[", "function-", "union[")))
    kind, given = problem["type"], problem.get("input")
    if kind == "extra_forbidden":
        names = list(setting_names(settings))
        groups = {name.rpartition(".")[0] for name in names if "." in name and "." not in key}
        close = nearest(key, [*sorted(groups), *names])
        return f"{key}: there is no such setting; " + (f"did you mean {close}?" if close else LISTED)
    if kind == "missing":
        return f"{key}: must be given"
    if kind == "string_pattern_mismatch" and key in (known := dict(describe(settings))):
        return f"{key}: cannot be {given!r}; it is {known[key].description}"
    message = problem["msg"].removeprefix("Value error, ")
    message = message.replace("Input should be", "must be")
    return (
        f"{key}: {message}, not {given!r}" if key and kind != "value_error" else f"{key}: {message}".removeprefix(": ")
    )


def nearest(name: str, names: Sequence[str]) -> str:
    """The known name most like `name`: by its initials (lr), by its whole path, or by its last part in any group."""
    for known in names:
        words = known.rsplit(".", 1)[-1].split("_")
        if len(words) > 1 and "".join(word[0] for word in words) == name.rsplit(".", 1)[-1]:
            return known
    for close in difflib.get_close_matches(name, names, n=1, cutoff=0.75):
        return close
    last = {known.rsplit(".", 1)[-1]: known for known in reversed(names)}
    for close in difflib.get_close_matches(name.rsplit(".", 1)[-1], list(last), n=1, cutoff=0.7):
        return last[close]
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=0.5)), "")


def setting_names(settings: type[Settings]) -> Iterator[str]:
    """Every setting's full name, `group.name`."""
    return (name for name, _ in describe(settings))


def describe(settings: type[Settings], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every setting with its full name and its field (type, default, help), depth first."""
    for name, field in settings.model_fields.items():
        kind: Any = field.annotation
        if isinstance(kind, type) and issubclass(kind, Settings):
            yield from describe(kind, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field
