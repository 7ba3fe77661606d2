"""Recipes from files: by a path, or by the name of one that comes with the toolkit (`regard recipes` lists them)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.config import Table, apply_overrides, build, nearest, read_toml
from regard.errors import UserError
from regard.recipe.base import Recipe
from regard.recipe.language import LanguageRecipe
from regard.recipe.translation import TranslationRecipe

RECIPES: dict[str, type[Recipe]] = {"translation": TranslationRecipe, "language": LanguageRecipe}
"""The recipe of each task."""


def build_recipe(values: Table, source: str) -> Recipe:
    """Validate `values` as the recipe of their task; of a translator where they name none."""
    task = values.get("task", "translation")
    if task not in RECIPES:
        close = nearest(str(task), list(RECIPES))
        known = ", ".join(RECIPES)
        raise UserError(
            f"{source}: task = {task!r} is none of {known}", f"did you mean {close}?" if close else "write one of them"
        )
    return build(RECIPES[task], values, source)


def load_recipe(source: str | Path, overrides: Sequence[str] = ()) -> Any:
    """Read a recipe from a file, or by its name from those that come with the toolkit."""
    path = find_recipe(source)
    return build_recipe(apply_overrides(read_toml(path), overrides), str(path))


def find_recipe(source: str | Path) -> Path:
    """A file as it is; a bare name among the shipped recipes."""
    path = Path(source)
    if (path.exists() and not path.is_dir()) or path.suffix == ".toml":
        return path
    names = {recipe.stem: recipe for recipe in shipped_recipes()}
    if str(source) in names:
        return names[str(source)]
    close = nearest(str(source), list(names))
    raise UserError(
        f"{source}: neither a recipe file nor one that comes with the toolkit ({', '.join(names)})",
        f"did you mean {close}?" if close else "regard recipes lists them",
    )


def shipped_recipes() -> list[Path]:
    """The recipes beside the source tree, or inside the installed package."""
    here = Path(__file__).parents[1]
    for folder in (here.parents[1] / "recipes", here / "recipes"):
        if any(folder.glob("*.toml")):
            return sorted(folder.glob("*.toml"))
    return []
