"""Tasks for tests, built without files: a recipe from dotted settings, tokenizers given."""

from dataclasses import replace
from typing import Any, TypeVar

from regard.config import apply_overrides, build
from regard.recipe import Recipe
from regard.tasks.base import AnyTask, ValidationData

T = TypeVar("T", bound=AnyTask)

PAIR = {"src": "a", "tgt": "b"}
DATA: dict[str, dict[str, Any]] = {
    "translation": {"train": PAIR, "valid": PAIR},
    "parsing": {"train": {"builtin": "trees", "split": "train"}, "valid": {"builtin": "trees", "split": "valid"}},
    "language": {"train": {"file": "a"}, "valid": {"file": "b"}},
}


def make_recipe(task: type[AnyTask], settings: dict[str, Any]) -> Any:
    """A recipe of a task from dotted settings, {"data.max_length": 8}; its files need not exist."""
    values: dict[str, Any] = {"name": "tiny", "task": task.name, "data": dict(DATA.get(task.name, {}))}
    for key, value in settings.items():
        group, _, name = key.rpartition(".")
        (values.setdefault(group, {}) if group else values)[name] = value
    recipe: type[Recipe] = task.recipe_type
    return build(recipe, apply_overrides(values, []), "tiny", recipe.defaults)


def make_task(task: type[T], *artifacts: Any, settings: dict[str, Any] | None = None, **fields: Any) -> T:
    """A task with a recipe of `settings` and the given tokenizers and labels."""
    return task(make_recipe(task, settings or {}), *artifacts, **fields)


def changed(task: T, **settings: Any) -> T:
    """The task with settings of its recipe changed: changed(task, training__label_smoothing=0.2)."""
    recipe = task.recipe
    for key, value in settings.items():
        group, _, name = key.partition("__")
        part = getattr(recipe, group).model_copy(update={name: value})
        recipe = recipe.model_copy(update={group: part})
    return replace(task, recipe=recipe)


def validation(store: Any = None, examples: Any = ()) -> ValidationData[Any]:
    """Validation data without a folder."""
    return ValidationData(store, examples)
