"""regard recipes: what can be trained, and every setting there is."""

import types
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer

from regard.cli.options import AsJson
from regard.cli.screen import result, result_json, table

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


def recipes(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Print this recipe's file.")] = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="List every setting with its type, default and meaning.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the recipes that come with the toolkit, or all settings.

    A recipe is a TOML file; printing one into a file of your own is the best way to begin.

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
    """Name, task, kind of model and purpose of each; as JSON with all that is asked for most."""
    from regard.recipe import load_recipe, shipped_recipes

    found = [(path, load_recipe(path)) for path in shipped_recipes()]
    rows = [
        {
            "name": path.stem,
            "about": recipe.about,
            "task": recipe.task,
            "kind": recipe.model.kind,
            "model": recipe.model.summary,
            "data": ", ".join(map(str, recipe.data.train)),
            "steps": recipe.training.max_steps,
        }
        for path, recipe in found
    ]
    if as_json:
        result_json(rows)
        return
    table(
        ("name", "task", "model", "about"),
        [[str(row[key]) for key in ("name", "task", "kind", "about")] for row in rows],
    )
    result("regard train NAME trains one; regard recipes NAME prints its file.")


def show_recipe(name: str, as_json: bool) -> None:
    """The file as it is; as JSON, with every default."""
    from regard.errors import UserError
    from regard.recipe import find_recipe, load_recipe

    path: Path = find_recipe(name)
    recipe = load_recipe(path)
    if as_json:
        result_json(recipe.model_dump())
        return
    try:
        result(path.read_text(encoding="utf-8").rstrip("\n"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


def show_settings(as_json: bool) -> None:
    """Every setting, a line each, and its meaning."""
    rows = list(setting_rows())
    if as_json:
        result_json(rows)
        return
    columns = ("setting", "of", "type", "default", "meaning")
    table(columns, [[row[column] for column in columns] for row in rows])


def setting_rows() -> Iterator[dict[str, str]]:
    """The settings of the recipe of every task and of a corpus in it, each once, with what it is a setting of."""
    from regard.config import describe
    from regard.recipe import RECIPES

    owners: dict[tuple[str, ...], list[str]] = {}
    for task, recipe in RECIPES.items():
        for setting in describe(recipe, lists=True):
            if setting.name.startswith(("data.valid.", "data.test.")):  # like those of data.train
                continue
            row = (setting.name, kind_text(setting.field.annotation), default_text(setting.field), setting.help)
            owners.setdefault(row, []).append(" | ".join(setting.kinds) or task)
    for (name, kind, default, meaning), among in owners.items():
        yield {"setting": name, "of": shared_by(among), "type": kind, "default": default, "meaning": meaning}


def shared_by(owners: list[str]) -> str:
    """Tasks and kinds of model in words: nothing for all, one name for those that say something about a text."""
    from regard.recipe import RECIPES
    from regard.recipe.understanding import UNDERSTANDING

    family = {recipe.model_fields["task"].default for recipe in UNDERSTANDING}
    if set(owners) >= set(RECIPES):
        return ""
    whole = set(owners) >= family
    return ", ".join(dict.fromkeys("understanding" if whole and owner in family else owner for owner in owners))


def default_text(field: "FieldInfo") -> str:
    """A default as it is written in a recipe."""
    if field.is_required():
        return "must be given"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def kind_text(kind: Any) -> str:
    """A type in the words of a person: a number, one of a few names, a corpus."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " | ".join(str(part) for part in parts if part != "")
    if origin in (Union, types.UnionType):
        single = " | ".join(
            kind_text(part) for part in parts if part is not type(None) and get_origin(part) is not list
        )
        lists = [kind_text(part) for part in parts if get_origin(part) is list]
        return " | ".join([*lists, *([] if f"{single} or list" in lists else [single])])
    if origin is list:
        return f"{kind_text(parts[0])} or list"
    if origin is dict:
        return "table"
    names = {str: "text", int: "whole number", float: "number", bool: "true | false"}
    return names.get(kind, getattr(kind, "__name__", str(kind)).lower())
