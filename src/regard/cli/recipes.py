"""regard recipes: the bundled recipes, and all settings."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from regard.cli.options import AsJson
from regard.cli.screen import print_json, print_result, print_table
from regard.cli.settings import show_settings
from regard.cli.shell import as_called
from regard.errors import UserError
from regard.messages import Message, find_message


def recipes(
    names: Annotated[
        list[str] | None,
        Argument(metavar="NAME", help="Recipe to print; with `--settings`, list only matching settings."),
    ] = None,
    settings: Annotated[bool, Option("--settings", help="List settings with type, default and meaning.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the bundled recipes, or all settings."""
    names = names or []
    if settings:
        show_settings(names, as_json)
    elif len(names) > 1:
        problem, remedy = f"cannot print {len(names)} recipes at once", "choose one, or add `--settings`"
        raise UserError(problem, remedy, code="invalid-option", where=names[1])
    elif names:
        show_recipe(names[0], as_json)
    else:
        list_recipes(as_json)


def list_recipes(as_json: bool) -> None:
    """Print name, task, model and description of each recipe; torch is not imported for this."""
    from regard.reading import read_toml
    from regard.recipe_files import DEFAULT_TASK, shipped_recipes

    if as_json:
        print_json([recipe_values(path) for path in shipped_recipes()])
        return
    rows = []
    for path in shipped_recipes():
        values = read_toml(path)
        about = find_message(values.get("about", ""))
        rows.append([path.stem, values.get("task", DEFAULT_TASK), values["model"]["kind"], about])
    print_table((Message("name"), Message("task"), Message("model"), Message("about")), rows)
    print_result(as_called(Message("train one: `regard train NAME`; print one: `regard recipes NAME`")))


def recipe_values(path: Path) -> dict[str, object]:
    """Facts about a recipe, with all its defaults."""
    from regard.tasks.registry import load_recipe

    recipe = load_recipe(path)
    return {
        "name": path.stem,
        "about": recipe.about,
        "task": recipe.task,
        "kind": recipe.model.kind,
        "model": recipe.model.summary,
        "data": ", ".join(map(str, recipe.data.train)),
        "steps": recipe.training.max_steps,
    }


def show_recipe(name: str, as_json: bool) -> None:
    """Print a recipe file as it is, or as JSON with all defaults."""
    from regard.recipe_files import find_recipe

    path: Path = find_recipe(name)
    if as_json:
        from regard.tasks.registry import load_recipe

        print_json(load_recipe(path).model_dump())
        return
    try:
        print_result(path.read_text(encoding="utf-8").rstrip("\n"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}", code="missing-file", where=path) from error
