"""Recipes from files: by a path, or by the name of one that comes with the toolkit (`regard recipes` lists them)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.config import Table, apply_overrides, build, nearest, read_toml
from regard.data.sources import migrate_data
from regard.errors import UserError
from regard.recipe.base import Recipe
from regard.recipe.language import LanguageRecipe
from regard.recipe.parsing import ParsingRecipe
from regard.recipe.pretraining import PretrainingRecipe
from regard.recipe.translation import TranslationRecipe
from regard.recipe.understanding import UNDERSTANDING

RUN_RECIPE = "recipe.toml"
"""Name of the recipe in a run folder."""

RECIPES: dict[str, type[Recipe]] = {
    "translation": TranslationRecipe,
    "language": LanguageRecipe,
    "parsing": ParsingRecipe,
    "pretraining": PretrainingRecipe,
    **{recipe.model_fields["task"].default: recipe for recipe in UNDERSTANDING},
}
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
    return build(RECIPES[task], with_start(task, values), source)


def with_start(task: str, values: Table) -> Table:
    """The settings of the run to start from stand under one's own: the same model reads the same pieces.

    Whoever wants another model names another kind; a run that is not there, or does not suit, is complained of when it
    is opened.
    """
    path = Path(str(values.get("start_from", ""))).expanduser() / "recipe.toml"
    if not values.get("start_from") or not path.is_file():
        return values
    theirs, merged = read_toml(path), dict(values)
    if theirs.get("task", "translation") not in beginnings(task):
        return values
    for group in ("text", "model"):
        there, here = theirs.get(group, {}), values.get(group, {})
        if isinstance(here, dict) and here.get("kind", there.get("kind")) == there.get("kind"):
            merged[group] = there | here
    return merged


def beginnings(task: str) -> tuple[str, ...]:
    """The tasks whose runs one of `task` may start from: its own; for what is said about texts, all that read alike."""
    family = tuple(recipe.model_fields["task"].default for recipe in UNDERSTANDING)
    return ("pretraining", *family) if task in family else (task,)


def load_recipe(source: str | Path, overrides: Sequence[str] = ()) -> Any:
    """Read a recipe from a file, or by its name from those that come with the toolkit."""
    path = find_recipe(source)
    return build_recipe(apply_overrides(read_recipe(path), overrides), str(path))


def read_recipe(path: Path) -> Table:
    """The values of a recipe file; those that an earlier version wrote into a run folder get the names of today."""
    values = read_toml(path)
    if path.name == RUN_RECIPE and isinstance(values.get("data"), dict):
        values["data"] = migrate_data(values["data"])
    return values


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
