"""regard recipes: what can be trained, and every setting there is."""

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer

from regard.cli.options import AsJson
from regard.cli.screen import result, result_json, table


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
    """Name, purpose, size and data of each."""
    from regard.recipe import load_recipe, shipped_recipes

    found = [(path, load_recipe(path)) for path in shipped_recipes()]
    rows = [
        {
            "name": path.stem,
            "about": recipe.about,
            "size": recipe.model.size,
            "data": ", ".join(map(str, recipe.data.train)),
            "steps": recipe.training.max_steps,
        }
        for path, recipe in found
    ]
    if as_json:
        result_json(rows)
        return
    table(
        ("name", "about", "size", "data"),
        [[str(row[key]) for key in ("name", "about", "size", "data")] for row in rows],
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
    columns = ("setting", "type", "default", "meaning")
    table(columns, [[row[column] for column in columns] for row in rows])


def setting_rows() -> Iterator[dict[str, str]]:
    """The settings of a recipe, and of a corpus in it."""
    from regard.config import describe
    from regard.data.corpora import Corpus
    from regard.recipe import Recipe

    for prefix, group in (("", Recipe), ("data.train.", Corpus)):
        for name, field in describe(group, prefix):
            default = (
                "must be given" if field.is_required() else default_text(field.get_default(call_default_factory=True))
            )
            yield {
                "setting": name,
                "type": kind_text(field.annotation),
                "default": default,
                "meaning": field.description or "",
            }


def default_text(value: Any) -> str:
    """A default as it is written in a recipe."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def kind_text(kind: Any) -> str:
    """A type in the words of a person: a number, one of a few names, a corpus."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " | ".join(str(part) for part in parts)
    if origin in (Union, types.UnionType):
        return " | ".join(kind_text(part) for part in parts if part is not type(None))
    if origin is list:
        return f"{kind_text(parts[0])} or list"
    names = {str: "text", int: "whole number", float: "number", bool: "true | false"}
    return names.get(kind, getattr(kind, "__name__", str(kind)).lower())
