"""Settings: typed, frozen, unknown names refused; TOML recipes with `a.b=c` overrides.

A setting is written once, beside the class it configures: its name, type, default and help are one `Field`. Every
refusal names the key, says what is wrong with it and, for a name nobody knows, the nearest one that exists.
"""

import difflib
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Discriminator, Field, ValidationError
from pydantic.fields import FieldInfo

from regard.errors import UserError

__all__ = ["Field", "Settings", "apply_overrides", "build", "by_kind", "describe", "listed", "members", "read_toml"]


class Settings(BaseModel):
    """Base of every group of settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def by_kind(default: str) -> Discriminator:
    """For a group of several forms, each with its own settings: `kind` says which, `default` where it is not said.

    The forms are `Annotated[Form, Tag("its kind")]`.
    """

    def kind(value: Any) -> Any:
        return value.get("kind", default) if isinstance(value, dict) else getattr(value, "kind", None)

    return Discriminator(kind)


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
    key, holder = _written(settings, problem["loc"])
    kind, given = problem["type"], problem.get("input")
    if kind == "extra_forbidden":
        group, _, name = key.rpartition(".")
        if kinds := _kinds_with(settings, group, name):
            chosen = problem["loc"][1]
            return (
                f"{key}: is for kind = {' or '.join(kinds)}, not {chosen}; leave it out "
                f'({group}={{kind="{chosen}"}} on the command line replaces the whole group)'
            )
        own = [f"{group}.{name}".lstrip(".") for name, _ in describe(holder)]
        names = [*own, *(name for name in setting_names(settings) if not group or not name.startswith(f"{group}."))]
        groups = {name.rpartition(".")[0] for name in names if "." in name and "." not in key}
        close = nearest(key, [*sorted(groups), *names])
        return f"{key}: there is no such setting; " + (f"did you mean {close}?" if close else LISTED)
    if kind == "too_short":
        return f"{key}: must name at least one"
    if kind == "missing":
        return f"{key}: must be given"
    if kind == "union_tag_not_found":
        return f"{key}: must be a group of settings, not {given!r}"
    if kind == "union_tag_invalid":
        return f"{key}.kind: must be one of {problem['ctx']['expected_tags']}, not {problem['ctx']['tag']!r}"
    if kind == "string_pattern_mismatch" and key in (known := dict(describe(settings))):
        return f"{key}: cannot be {given!r}; it is {known[key].description}"
    message = problem["msg"].removeprefix("Value error, ")
    message = message.replace("Input should be", "must be")
    return (
        f"{key}: {message}, not {given!r}" if key and kind != "value_error" else f"{key}: {message}".removeprefix(": ")
    )


def _written(settings: type[Settings], location: Sequence[Any]) -> tuple[str, type[Settings]]:
    """A problem's place as the user wrote it, and the settings it is among.

    Between the names stand words of the library: the type of a union's member, or the kind that chose it.
    """
    names, holder = [], settings
    forms: dict[str, type[Settings]] = {}
    for part in map(str, location):
        if part in forms:
            holder, forms = forms[part], {}
        elif not part.startswith(("list[", "function-", "union[")):
            names.append(part)
            field = holder.model_fields.get(part)
            found = [] if field is None else members(field) or listed(field)
            holder = found[0] if len(found) == 1 else holder
            forms = {kind: form for form in found[1:] and found for kind in _kinds(form)}
    return ".".join(names), holder


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
        forms = members(field)
        for form in forms:
            yield from describe(form, f"{prefix}{name}.")
        if not forms:
            yield f"{prefix}{name}", field


def members(field: FieldInfo) -> list[type[Settings]]:
    """The settings a field holds: of one form, of several by kind, or none where it holds a plain value."""
    forms: list[Any] = [field.annotation]
    if get_origin(field.annotation) in (Union, UnionType):
        forms = [get_args(form)[0] if get_origin(form) is Annotated else form for form in get_args(field.annotation)]
    found = [form for form in forms if isinstance(form, type) and issubclass(form, Settings)]
    return list(dict.fromkeys(found))


def listed(field: FieldInfo) -> list[type[Settings]]:
    """The settings of which a field holds a list, if it does."""
    forms = get_args(field.annotation) if get_origin(field.annotation) is list else ()
    return [form for form in forms if isinstance(form, type) and issubclass(form, Settings)]


def _kinds_with(settings: type[Settings], group: str, name: str) -> list[str]:
    """The kinds of a group that have a setting of this name; none where the group has but one form."""
    forms = members(settings.model_fields[group]) if group in settings.model_fields else []
    return [kind for form in forms if len(forms) > 1 and name in form.model_fields for kind in _kinds(form)]


def _kinds(form: type[Settings]) -> tuple[str, ...]:
    """The values of `kind` that choose a form."""
    return get_args(form.model_fields["kind"].annotation)
