"""The list of all settings, for `regard recipes --settings`."""

import copy
import shutil
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from textwrap import fill
from typing import TYPE_CHECKING, Literal, Union, get_args, get_origin

from regard.cli.screen import print_json, print_result
from regard.errors import UserError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from regard.config import Setting

REQUIRED, NOT_SET, MODEL_KIND = "required", "not set", "model.kind"
INDENT, PLAIN_WIDTH, MAX_WIDTH = "    ", 80, 100

Row = dict[str, str]
Entry = tuple[str, "Setting"]
"""A task and one of its settings."""


def show_settings(names: Sequence[str], as_json: bool) -> None:
    """Print the settings that match all names: default, tasks or model kinds, then meaning and type."""
    rows = list(setting_rows(names))
    if as_json:
        print_json(rows)
        return
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH) if sys.stdout.isatty() else PLAIN_WIDTH
    for row in rows:
        default = f"   ({row['default']})" if row["default"] in (REQUIRED, NOT_SET) else f" = {row['default']}"
        of = f"   ({row['of']})" if row["of"] else ""
        print_result(fill(f"{row['setting']}{default}{of}", width, subsequent_indent=INDENT, break_on_hyphens=False))
        text = f"{row['meaning']} [{row['type']}]"
        print_result(fill(text, width, initial_indent=INDENT, subsequent_indent=INDENT, break_on_hyphens=False))
    if not names:
        print_result(
            "\nTo list fewer, name a task, a recipe or a group such as training: `regard recipes --settings NAME`"
        )


def setting_rows(names: Sequence[str] = ()) -> Iterator[Row]:
    """The settings that match all names, each once, with the tasks or model kinds that have it; no owner means all."""
    entries = all_settings()
    for name in names:
        fits = build_filter(name, entries)
        entries = [entry for entry in entries if fits(*entry)]
        if not entries:
            problem = f"no setting, task, recipe or model kind matches {name!r} and the names before it"
            remedy = "list all settings with `regard recipes --settings`"
            raise UserError(problem, remedy, code="invalid-option", where=name)
    tasks, owners = {task for task, _ in entries}, dict[tuple[str, str, str, str], list[str]]()
    for task, setting in entries:
        row = (setting.name, field_type(setting.field), default_text(setting.field), setting.help)
        owners.setdefault(row, []).append(" | ".join(setting.kinds) or task)
    for (setting_name, kind, default, meaning), of in owners.items():
        shown = "" if set(of) >= tasks else ", ".join(dict.fromkeys(of))
        yield {"setting": setting_name, "of": shown, "type": kind, "default": default, "meaning": meaning}


def all_settings() -> list[Entry]:
    """Every setting of every task; the sources of valid and test have the same ones as those of train."""
    from pydantic.fields import FieldInfo

    from regard.config import Setting, describe
    from regard.data.sources import Columns, column_setting
    from regard.tasks.registry import all_tasks

    entries = []
    for name, task in all_tasks().items():
        defaults = {key: value for key, value in task.recipe_type.defaults.items() if key != "task"}
        default = defaults.get(MODEL_KIND, task.recipe_type.model_fields["model"].get_default().kind)
        settings = merge_kinds(list(describe(task.recipe_type, defaults, lists=True)), default)
        entries += [(name, item) for item in settings if not item.name.startswith(("data.valid.", "data.test."))]
        for field, meaning in task.recipe_type.fields.columns.items():
            column = FieldInfo(annotation=Columns | None, default=None)
            entries.append((name, Setting(f"data.train.{column_setting(field)}", column, meaning)))
    return entries


def merge_kinds(settings: "Sequence[Setting]", default: object) -> "Iterator[Setting]":
    """The settings of a task with one `model.kind`, which explains each kind by the docstring of its settings."""
    kinds = {get_args(item.field.annotation): item.help for item in settings if item.name == MODEL_KIND}
    texts = (
        f"{', '.join(names)}: {text.partition('.')[0].removeprefix('Settings of ')}" for names, text in kinds.items()
    )
    for item in settings:
        if item.name != MODEL_KIND:
            yield item
        elif kinds:
            field = copy.copy(item.field)
            field.annotation, field.default = Literal[tuple(chain(*kinds))], default  # type: ignore[assignment]
            yield replace(item, field=field, help="; ".join(texts), kinds=())
            kinds = {}


def build_filter(name: str, entries: Sequence[Entry]) -> "Callable[[str, Setting], bool]":
    """A test of settings: those of a task, of a recipe, of a kind of model, or with names that begin so."""
    from regard.recipe_files import shipped_recipes
    from regard.tasks.registry import all_tasks, load_recipe

    if name in all_tasks():
        return lambda task, setting: task == name
    if name in {path.stem for path in shipped_recipes()}:
        recipe = load_recipe(name)
        of_others = {kind for _, item in entries if item.name.startswith("model.") for kind in item.kinds}
        of_others.discard(recipe.model.kind)
        return lambda task, setting: task == recipe.task and not (setting.kinds and of_others.issuperset(setting.kinds))
    if any(name in setting.kinds for _, setting in entries):
        return lambda task, setting: name in setting.kinds
    return lambda task, setting: setting.name.startswith(name)


def default_text(field: "FieldInfo") -> str:
    """The default of a setting as it is written in a recipe."""
    if field.is_required():
        return REQUIRED
    value = field.get_default(call_default_factory=True)
    if value is None:
        return NOT_SET
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def field_type(field: "FieldInfo") -> str:
    """The type of a setting in words; for the name of a part, all names, those of plug-ins too."""
    from regard.config import NameIn

    registry = next((item.registry for item in field.metadata if isinstance(item, NameIn)), None)
    return type_text(field.annotation) if registry is None else " | ".join(registry.all())


def type_text(kind: object) -> str:
    """A type in words: a number, one of some names, a source."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " | ".join(str(item) for item in arguments if item != "")
    if origin in (Union, types.UnionType):
        lists = [type_text(item) for item in arguments if get_origin(item) is list]
        others = (item for item in arguments if item is not type(None) and get_origin(item) is not list)
        single = " | ".join(map(type_text, others))
        return " | ".join([*lists, *([] if f"{single} or list" in lists else [single])])
    if origin is list:
        return f"{type_text(arguments[0])} or list"
    if origin is dict:
        return "table"
    name: str = getattr(kind, "__name__", str(kind)).lower()
    return {"str": "text", "int": "whole number", "float": "number", "bool": "true | false"}.get(name, name)
