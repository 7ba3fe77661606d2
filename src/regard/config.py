"""Settings: typed and frozen; unknown names and settings without effect are refused; TOML with `a.b=c` overrides.

A setting is written once, beside the class that it configures: name, type, default and help text are one `Field`.

Defaults. A task may have other defaults than the class of a group. They are an overlay: a mapping from full names to
values, `{"training.schedule": "linear"}`, given to `build` and `describe`.

Settings without effect. A group overrides `no_effect` to list the settings that its other settings make useless.
`build` refuses each of them unless it has its default. So a recipe with all defaults written out stays valid:

    def no_effect(self) -> Iterator[Unused]:
        yield from unless(self.search == "beam", 'search = "beam"', "beam", "nbest")

Errors. Every problem names its setting by the full key. A validator that compares settings raises
`SettingError(key, message)`.
"""

import copy
import difflib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import UnionType
from typing import Annotated, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Discriminator, Field, GetCoreSchemaHandler, Tag, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, PydanticKnownError
from pydantic_core.core_schema import no_info_after_validator_function, str_schema

from regard.errors import UserError
from regard.plugins import MISSING_PLUGIN, Registry
from regard.reading import MAX_KEY_PARTS, JsonObject, parse_toml

__all__ = [
    "Field", "NameIn", "SettingError", "Settings", "add_kind", "apply_overrides", "build", "by_kind", "describe",
    "unless", "with_defaults",
]  # fmt: skip

SettingsTable = JsonObject
Defaults = Mapping[str, object]
MAX_NAME = 100
"""Longest name that is compared with the names of settings."""
MAX_PROBLEMS = 20
"""Problems of a recipe that an error explains."""
Unused = tuple[str, str]
"""A setting without effect: its key, and the condition under which it has one."""


class Settings(BaseModel):
    """Base of every group of settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)

    def no_effect(self) -> Iterator[Unused]:
        """Yield (key, condition): settings without effect here, and when they have one (`unless`); by default none."""
        yield from ()


S = TypeVar("S", bound=Settings)


class SettingError(ValueError):
    """An invalid value, found by a validator that compares settings; `key` is relative to the validator's group."""

    def __init__(self, key: str, message: str, code: str = "invalid-setting") -> None:
        super().__init__(message)
        self.key, self.code = key, code


def unless(condition: bool, text: str, *keys: str) -> Iterator[Unused]:
    """Yield `keys` as settings without effect if `condition` is false; `text` describes the condition."""
    if not condition:
        yield from ((key, text) for key in keys)


def by_kind(default: str) -> Discriminator:
    """Choose one of the forms `Annotated[Form, Tag("its kind")]` of a group by `kind`; `default` if it is not given."""

    def kind(value: object) -> object:
        return value.get("kind", default) if isinstance(value, dict) else getattr(value, "kind", None)

    return Discriminator(kind)


@dataclass(frozen=True)
class NameIn:
    """Marks a text setting as the name of a thing in a registry: `Annotated[str, NameIn(REGISTRY)]`."""

    registry: Registry[object]

    def check(self, name: str) -> str:
        """Refuse a name that is not in the registry."""
        if not self.registry.has(name):
            raise PydanticKnownError("literal_error", {"expected": f"one of {', '.join(self.registry)}"})
        return name

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self.check, str_schema(strict=True))


def add_kind(settings: type[Settings], group: str, form: type[Settings]) -> None:
    """Let a group that has several kinds have one more: `form`, whose setting `kind` has one value."""
    field, tag = settings.model_fields[group], Tag(*_kinds(form))
    others = tuple(item for item in get_args(field.annotation) if item.__metadata__[0] != tag)
    field.annotation = Union[(*others, Annotated[form, tag])]  # type: ignore[assignment]
    settings.model_rebuild(force=True)


def apply_overrides(values: SettingsTable, overrides: Sequence[str]) -> SettingsTable:
    """Return `values` with each override `a.b=c` applied; `c` is read as TOML, or as plain text if it is not TOML."""
    result = copy.deepcopy(values)
    for override in overrides:
        path, equals, text = override.partition("=")
        keys = path.strip().split(".")
        shown = shorten(override)
        if not equals or not all(keys) or len(keys) > MAX_KEY_PARTS:
            problem, remedy = f"{shown!r} is not a setting", "use name=value, e.g. training.max_steps=1000"
            raise UserError(problem, remedy, code="bad-override", where=shown)
        table = result
        for key in keys[:-1]:
            table = table.setdefault(key, {})
            if not isinstance(table, dict):
                raise UserError(f"{shown!r}: {key} is a single setting, not a group", code="bad-override", where=shown)
        try:
            table[keys[-1]] = parse_toml(f"value = {text.strip()}")["value"]
        except tomllib.TOMLDecodeError:
            table[keys[-1]] = text.strip()
        except ValueError as error:
            raise UserError(f"{shown!r}: {error}", code="bad-override", where=shown) from error
    return result


def shorten(text: str, length: int = 200) -> str:
    """The beginning of a text that is too long for a message."""
    return text if len(text) <= length else f"{text[:length]}..."


def build(
    settings: type[S], values: SettingsTable, source: str, defaults: Defaults | None = None, allow_unused: bool = False
) -> S:
    """Validate `values` as `settings`; raise one UserError with all problems, each with its key and a remedy.

    defaults       defaults that differ from those of the classes, by full name
    allow_unused   accept settings without effect, as in the recipes of older runs
    """
    defaults = defaults or {}
    try:
        result = settings.model_validate(with_defaults(settings, values, defaults))
    except ValidationError as error:
        details = error.errors(include_url=False)
        problems = [_explain(settings, problem) for problem in details[:MAX_PROBLEMS]]
        raise _combine(problems, source, len(details)) from error
    problems = [] if allow_unused else list(_unused(result, defaults))
    if problems:
        raise _combine(problems, source)
    return result


@dataclass(frozen=True)
class _Problem:
    code: str
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.key}: {self.message}" if self.key else self.message


def _combine(problems: Sequence[_Problem], source: str, count: int = 0) -> UserError:
    """Make one error of the problems, the first of `count`; its code is theirs, or invalid-settings if they differ."""
    codes, count = {problem.code for problem in problems}, count or len(problems)
    return UserError(
        f"{source}: {count} setting{'s' * (count > 1)} cannot be used",
        "\n  ".join(map(str, problems)),
        code=codes.pop() if len(codes) == 1 else "invalid-settings",
        where=", ".join(problem.key for problem in problems if problem.key),
    )


def with_defaults(settings: type[Settings], values: SettingsTable, defaults: Defaults) -> SettingsTable:
    """Return `values` with the defaults that they do not override. A default of a group of several kinds applies if the
    chosen kind has this setting. Kinds come first."""
    result = copy.deepcopy(values)
    for key in sorted(defaults, key=lambda key: not key.endswith(".kind")):
        *groups, name = key.split(".")
        table, holder = result, settings
        for group in groups:
            table = table.setdefault(group, {})
            if not isinstance(table, dict):  # a value in place of a group: the validation reports it
                break
            holder = _chosen_form(holder.model_fields[group], table)
        else:
            if name in holder.model_fields:
                table.setdefault(name, defaults[key])
    return result


def _chosen_form(field: FieldInfo, table: SettingsTable) -> type[Settings]:
    """Return the class of a group; for a group of several kinds, that of the kind in `table`."""
    forms = group_forms(field)
    for marker in field.metadata:
        if isinstance(marker, Discriminator) and callable(marker.discriminator):
            kind = marker.discriminator(table)
            return next((form for form in forms if kind in _kinds(form)), forms[0])
    return forms[0]


def _unused(settings: Settings, defaults: Defaults) -> Iterator[_Problem]:
    """Yield a problem for every setting without effect that differs from its default."""
    for prefix, group in _groups(settings):
        for key, condition in group.no_effect():
            *inner, name = key.split(".")
            holder = reduce(getattr, inner, group)
            default = type(holder).model_fields[name].get_default(call_default_factory=True)
            value, default = getattr(holder, name), defaults.get(f"{prefix}{key}", default)
            if value != default:
                message = f"{value!r} has no effect: only used with {condition}; remove it (default: {default!r})"
                yield _Problem("unused-setting", f"{prefix}{key}", message)


def drop_unused(settings: Settings, values: SettingsTable, defaults: Defaults) -> SettingsTable:
    """`values` without the settings that have no effect in `settings`, which was built from them."""
    result = copy.deepcopy(values)
    for problem in _unused(settings, defaults):
        group, _, name = problem.key.rpartition(".")
        result.get(group, {}).pop(name, None)
    return result


def _groups(settings: Settings, prefix: str = "") -> Iterator[tuple[str, Settings]]:
    """Yield a group and all groups in it, each with the prefix of its keys."""
    yield prefix, settings
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        members = {name: value} if not isinstance(value, list) else {f"{name}.{i}": v for i, v in enumerate(value)}
        for key, member in members.items():
            if isinstance(member, Settings):
                yield from _groups(member, f"{prefix}{key}.")


def _explain(settings: type[Settings], problem: ErrorDetails) -> _Problem:
    """Turn an error of pydantic into a problem with the key as the user wrote it and a remedy."""
    key, holder = _locate(settings, problem["loc"])
    kind, value, context = problem["type"], shorten(repr(problem.get("input"))), problem.get("ctx", {})
    cause = context.get("error")
    if isinstance(cause, SettingError):
        return _Problem(cause.code, f"{key}.{cause.key}".strip("."), str(cause))
    if kind == "extra_forbidden":
        return _Problem("unknown-setting", key, _explain_unknown(settings, holder, key, problem["loc"]))
    if kind in ("missing", "too_short"):
        return _Problem("missing-setting", key, "must be given" if kind == "missing" else "must name at least one")
    if kind == "union_tag_not_found":
        return _Problem("invalid-setting", key, f"must be a group of settings, not {value}")
    if kind == "union_tag_invalid":
        message = f"must be one of {context['expected_tags']}, not {shorten(repr(context['tag']))}; {MISSING_PLUGIN}"
        return _Problem("invalid-setting", f"{key}.kind", message)
    if kind == "literal_error" and context["expected"].startswith("one of "):
        return _Problem("invalid-setting", key, f"must be {context['expected']}, not {value}; {MISSING_PLUGIN}")
    if kind == "string_pattern_mismatch":
        for setting in describe(settings):
            if setting.name == key:
                return _Problem("invalid-setting", key, f"cannot be {value}; expected: {setting.help}")
    message = problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return _Problem("invalid-setting", key, f"{message}, not {value}" if key and kind != "value_error" else message)


def _explain_unknown(
    settings: type[Settings], holder: type[Settings], key: str, location: tuple[int | str, ...]
) -> str:
    """Suggest the nearest setting, or say that the setting belongs to another kind."""
    group, _, name = key.rpartition(".")
    forms = group_forms(settings.model_fields[group]) if group in settings.model_fields else []
    kinds = [kind for form in forms if len(forms) > 1 and name in form.model_fields for kind in _kinds(form)]
    if kinds:
        kind = location[1]
        return (
            f"is for kind = {' or '.join(kinds)}, not {kind}; leave it out "
            f'({group}={{kind="{kind}"}} on the command line replaces the whole group)'
        )
    in_group = [f"{group}.{setting.name}".lstrip(".") for setting in describe(holder)]
    elsewhere = [s.name for s in describe(settings) if not group or not s.name.startswith(f"{group}.")]
    names = [*in_group, *elsewhere]
    groups = {name.rpartition(".")[0] for name in names if "." in name and "." not in key}
    close = nearest(key, [*sorted(groups), *names])
    return "there is no such setting; " + (
        f"did you mean {close}?" if close else "regard recipes --settings lists them all"
    )


def _locate(settings: type[Settings], location: Sequence[int | str]) -> tuple[str, type[Settings]]:
    """Return the key of a problem as the user wrote it, and the class of the group that it is in. pydantic puts its own
    words between the names: the type of a union's member, or the kind that chose it."""
    names: list[str] = []
    holder, forms = settings, dict[str, type[Settings]]()
    for word in map(str, location):
        if word in forms:
            holder, forms = forms[word], {}
        elif not word.startswith(("list[", "function-", "union[")):
            names.append(word)
            field = holder.model_fields.get(word)
            inner = [] if field is None else group_forms(field) or element_forms(field)
            holder = inner[0] if len(inner) == 1 else holder
            forms = {kind: form for form in inner for kind in _kinds(form)} if len(inner) > 1 else {}
    return ".".join(names), holder


def nearest(name: str, names: Sequence[str]) -> str:
    """Return the most similar of `names`, or "": by its initials (lr), its full name, or its last word in any group."""
    if len(name) > MAX_NAME:
        return ""
    for candidate in names:
        words = candidate.rsplit(".", 1)[-1].split("_")
        if len(words) > 1 and "".join(word[0] for word in words) == name.rsplit(".", 1)[-1]:
            return candidate
    for close in difflib.get_close_matches(name, names, n=1, cutoff=0.75):
        return close
    last = {candidate.rsplit(".", 1)[-1]: candidate for candidate in reversed(names)}
    for close in difflib.get_close_matches(name.rsplit(".", 1)[-1], list(last), n=1, cutoff=0.7):
        return last[close]
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=0.5)), "")


@dataclass(frozen=True)
class Setting:
    """One setting of a recipe.

    name    full name, `group.name`
    field   type, default and help text
    help    help text; for a setting without one, the first line of its group's docstring
    kinds   the kinds of the group that have it; empty if the group has one form
    """

    name: str
    field: FieldInfo
    help: str
    kinds: tuple[str, ...] = ()


def describe(
    settings: type[Settings], defaults: Defaults | None = None, lists: bool = False, prefix: str = ""
) -> Iterator[Setting]:
    """Yield every setting, depth first, with its default in the overlay `defaults` if it is there. A group of several
    kinds is described kind by kind. With `lists`, the settings of a list's elements follow it."""
    for name, field in settings.model_fields.items():
        key, forms = f"{prefix}{name}", group_forms(field)
        for form in forms:
            kinds = _kinds(form) if len(forms) > 1 else ()
            for setting in describe(form, defaults, lists, f"{key}."):
                yield Setting(setting.name, setting.field, setting.help, setting.kinds or kinds)
        if not forms:
            help_text = field.description or (settings.__doc__ or "").partition("\n")[0]
            if defaults and key in defaults:
                field = copy.copy(field)
                field.default, field.default_factory = defaults[key], None
            yield Setting(key, field, help_text)
        for form in element_forms(field) if lists else []:
            yield from describe(form, defaults, lists, f"{key}.")


def group_forms(field: FieldInfo) -> list[type[Settings]]:
    """Return the classes of settings that a field may hold: one, one for each kind, or none for a plain value."""
    types: tuple[object, ...] = (field.annotation,)
    if get_origin(field.annotation) in (Union, UnionType):
        types = tuple(get_args(t)[0] if get_origin(t) is Annotated else t for t in get_args(field.annotation))
    return list(dict.fromkeys(_settings_only(types)))


def element_forms(field: FieldInfo) -> list[type[Settings]]:
    """Return the classes of settings that are elements of a field's list; none if the field is not such a list."""
    return _settings_only(get_args(field.annotation) if get_origin(field.annotation) is list else ())


def _settings_only(types: Sequence[object]) -> list[type[Settings]]:
    return [t for t in types if isinstance(t, type) and issubclass(t, Settings)]


def _kinds(form: type[Settings]) -> tuple[str, ...]:
    """Return the values of `kind` that choose a form."""
    return get_args(form.model_fields["kind"].annotation)
