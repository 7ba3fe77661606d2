"""regard recipes: the recipes that come with regard, and all settings."""

import types
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Union, get_args, get_origin

import typer

from regard.cli.options import AsJson
from regard.cli.screen import print_json, print_result, print_table

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


def recipes(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Print the file of this recipe.")] = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="List all settings with type, default and meaning.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the recipes that come with regard, or all settings.

    A recipe is a TOML file. To write your own, print one into a file and change it.

    \b
    Examples:
      regard recipes
      regard recipes dates > my.toml
      regard recipes --settings
    """
    if settings:
        show_settings(as_json)
    elif name is not None:
        show_recipe(name, as_json)
    else:
        list_recipes(as_json)


def list_recipes(as_json: bool) -> None:
    """Print name, task, model and description of each recipe."""
    from regard.tasks.registry import load_recipe, shipped_recipes

    rows = []
    for path in shipped_recipes():
        recipe = load_recipe(path)
        rows.append(
            {
                "name": path.stem,
                "about": recipe.about,
                "task": recipe.task,
                "kind": recipe.model.kind,
                "model": recipe.model.summary,
                "data": ", ".join(map(str, recipe.data.train)),
                "steps": recipe.training.max_steps,
            }
        )
    if as_json:
        print_json(rows)
        return
    keys = ("name", "task", "kind", "about")
    print_table(("name", "task", "model", "about"), [[str(row[key]) for key in keys] for row in rows])
    print_result("regard train NAME trains one; regard recipes NAME prints its file.")


def show_recipe(name: str, as_json: bool) -> None:
    """Print a recipe file as it is, or as JSON with all defaults."""
    from regard.errors import UserError
    from regard.tasks.registry import find_recipe, load_recipe

    path: Path = find_recipe(name)
    recipe = load_recipe(path)
    if as_json:
        print_json(recipe.model_dump())
        return
    try:
        print_result(path.read_text(encoding="utf-8").rstrip("\n"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", code="missing-file", where=path) from error


def show_settings(as_json: bool) -> None:
    """Print all settings, one per line."""
    rows = list(setting_rows())
    if as_json:
        print_json(rows)
        return
    columns = ("setting", "of", "type", "default", "meaning")
    print_table(columns, [[row[column] for column in columns] for row in rows])


def setting_rows() -> Iterator[dict[str, str]]:
    """The settings of all tasks, each once, with the tasks or model kinds that have it; none means all tasks."""
    from regard.config import describe
    from regard.tasks.registry import all_tasks

    tasks, owners = all_tasks(), dict[tuple[str, str, str, str], list[str]]()
    for name, task in tasks.items():
        defaults = {key: value for key, value in task.recipe_type.defaults.items() if key != "task"}
        for setting in describe(task.recipe_type, defaults, lists=True):
            if setting.name.startswith(("data.valid.", "data.test.")):  # as those of data.train
                continue
            field = setting.field
            row = (setting.name, type_text(field.annotation), default_text(field), setting.help)
            owners.setdefault(row, []).append(" | ".join(setting.kinds) or name)
    for (name, kind, default, meaning), names in owners.items():
        of = "" if set(names) >= set(tasks) else ", ".join(dict.fromkeys(names))
        yield {"setting": name, "of": of, "type": kind, "default": default, "meaning": meaning}


def default_text(field: "FieldInfo") -> str:
    """The default of a setting as it is written in a recipe."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


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
