"""Recipes: what each task is told, put together from the settings of the rooms below."""

from regard.recipe.base import Recipe, to_toml
from regard.recipe.language import LanguageRecipe
from regard.recipe.loading import RECIPES, beginnings, build_recipe, find_recipe, load_recipe, shipped_recipes
from regard.recipe.parsing import ParsingRecipe
from regard.recipe.pretraining import PretrainingRecipe
from regard.recipe.translation import TranslationRecipe

__all__ = [
    "RECIPES",
    "LanguageRecipe",
    "ParsingRecipe",
    "PretrainingRecipe",
    "Recipe",
    "TranslationRecipe",
    "beginnings",
    "build_recipe",
    "find_recipe",
    "load_recipe",
    "shipped_recipes",
    "to_toml",
]
