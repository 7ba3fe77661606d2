"""The registry of tasks, and recipes from files.

A task of your own is a subclass of `Task` with the decorator `@register`, in a file or package that is a plug-in
(plugins.py).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from regard.config import SettingsTable, add_kind, apply_overrides, build, group_forms, nearest
from regard.errors import UserError
from regard.models.language import LANGUAGE_MODELS
from regard.models.language_recurrent import RecurrentLanguageSettings
from regard.models.settings import WORD_VECTORS, ModelSettings
from regard.models.text_encoder import TEXT_ENCODERS, TransformerEncoderSettings
from regard.models.transformer import TransformerSettings
from regard.models.translation import TRANSLATION_MODELS
from regard.plugins import MISSING_PLUGIN, Registry
from regard.reading import read_toml
from regard.recipe import Recipe, no_rules
from regard.recipe_files import DEFAULT_TASK, current_names, find_recipe
from regard.run_files import RECIPE, find_run
from regard.tasks.answering import Answering
from regard.tasks.base import AnyTask
from regard.tasks.choice import Choice
from regard.tasks.classification import Classification, Regression
from regard.tasks.dependencies import Dependencies
from regard.tasks.language import Language
from regard.tasks.parsing import Parsing
from regard.tasks.pretraining import Pretraining
from regard.tasks.recognition import Recognition
from regard.tasks.tagging import Tagging
from regard.tasks.translation import Translation

T = TypeVar("T", bound=type[AnyTask])
M = TypeVar("M", bound=type[nn.Module])

TASKS: Registry[type[AnyTask]] = Registry("task", {
    task.name: task
    for task in (
        Translation, Language, Parsing, Pretraining, Classification, Regression, Tagging, Dependencies, Answering,
        Choice, Recognition,
    )
})  # fmt: skip
"""Every task by its name: the only table of tasks."""


def register(task: T) -> T:
    """Add a task to the registry; use it as a class decorator."""
    TASKS.add(task.name, task)
    return task


def register_translation_model(settings: type[ModelSettings]) -> Callable[[M], M]:
    """Add a model kind for translation: use `@register_translation_model(settings)` on the model class.

    The default of the setting `kind` is its name in a recipe. The class is called as in models/transformer.py:
    `Model(settings, source vocabulary size, target vocabulary size)`.
    """
    return partial(add_model, TRANSLATION_MODELS, TransformerSettings, settings)


def register_language_model(settings: type[ModelSettings]) -> Callable[[M], M]:
    """Add a kind of language model, called as in models/language_transformer.py: `Model(settings, vocabulary size)`."""
    return partial(add_model, LANGUAGE_MODELS, RecurrentLanguageSettings, settings)


def register_text_encoder(settings: type[ModelSettings]) -> Callable[[M], M]:
    """Add a text encoder, called as in models/text_encoder.py: `Encoder(settings, vocabulary size)`."""
    return partial(add_model, TEXT_ENCODERS, TransformerEncoderSettings, settings)


def add_model(models: Registry[Any], usual: type[ModelSettings], settings: type[ModelSettings], model: M) -> M:
    """Add a model to a registry, and its settings to every recipe that accepts the settings `usual`."""
    models.add(settings.model_fields["kind"].default, model)
    for recipe in recipe_types(Recipe):
        forms = group_forms(recipe.model_fields["model"])
        if len(forms) > 1 and usual in forms:
            add_kind(recipe, "model", settings)
    return model


def recipe_types(base: type[Recipe]) -> Iterator[type[Recipe]]:
    for recipe in base.__subclasses__():
        yield recipe
        yield from recipe_types(recipe)


def all_tasks() -> dict[str, type[AnyTask]]:
    """Every task by its name, with those that plug-ins add."""
    return TASKS.all()


def task_of(recipe: Recipe) -> type[AnyTask]:
    return all_tasks()[recipe.task]


def is_derived(recipe: Recipe, names: Sequence[str]) -> bool:
    """True if the task of a recipe is one of these tasks, or derived from one by a plug-in."""
    return issubclass(task_of(recipe), tuple(TASKS[name] for name in names))


def build_recipe(values: SettingsTable, source: str, allow_unused: bool = False) -> Recipe:
    """Validate `values` as the recipe of their task; without a task they are of translation. `allow_unused` accepts
    settings without effect, as in the recipes of older runs."""
    tasks, values = all_tasks(), current_names(values)
    name = values.get("task", DEFAULT_TASK)
    if not isinstance(name, str) or name not in tasks:
        close = nearest(str(name), list(tasks))
        problem = f"{source}: task = {name!r} is not one of {', '.join(tasks)}"
        remedy = (f"did you mean {close}? " if close else "") + MISSING_PLUGIN
        raise UserError(problem, remedy, code="unknown-task", where="task")
    settings, values = tasks[name].recipe_type, merge_start_settings(tasks[name], values)
    recipe = build(settings, values, source, settings.defaults, allow_unused)
    groups = {group: settings for group, settings in values.items() if isinstance(settings, dict)}
    recipe._given = frozenset(f"{group}.{name}" for group, names in groups.items() for name in names)
    check_schedule(recipe, source)
    return recipe


def check_schedule(recipe: Recipe, source: str) -> None:
    """Raise UserError if a given rate or warm-up does not fit the schedule; those that are not given are chosen."""
    training, fixed = recipe.training, type(recipe).rules is no_rules
    given_rate = fixed or recipe.is_given("training.learning_rate")
    if given_rate and training.schedule != "paper" and training.learning_rate >= 0.5:
        problem = (
            f"{source}: training.learning_rate = {training.learning_rate} is the peak learning rate of schedule = "
            f"{training.schedule!r} and would diverge"
        )
        remedy = "set e.g. `training.learning_rate = 0.0005`"
        raise UserError(problem, remedy, code="invalid-setting", where="training.learning_rate")
    given_warmup = fixed or recipe.is_given("training.warmup")
    if given_warmup and training.schedule in ("cosine", "linear", "slanted") and training.warmup >= training.max_steps:
        problem = (
            f"{source}: training.warmup = {training.warmup} must be fewer steps than training.max_steps = "
            f"{training.max_steps} for schedule = {training.schedule!r}"
        )
        raise UserError(problem, "reduce `training.warmup`", code="invalid-setting", where="training.warmup")


def merge_start_settings(task: type[AnyTask], values: SettingsTable) -> SettingsTable:
    """Use [text] and [model] of the run to start from as defaults: its weights fit no other model."""
    folder = values.get("start_from")
    path = find_run(Path(folder).expanduser()) / RECIPE if folder and isinstance(folder, str) else None
    if path is None or not path.is_file():
        return values  # a run that is missing or not compatible is reported later, when it is opened
    start, merged = current_names(read_toml(path)), dict(values)
    if start.get("task", DEFAULT_TASK) not in start_tasks(task):
        return values
    for group in ("text", "model"):
        theirs, ours = start.get(group, {}), values.get(group, {})
        if not isinstance(ours, dict) or not isinstance(theirs, dict):
            continue
        theirs = task.starts.settings(start.get("task", DEFAULT_TASK), group, theirs)
        if ours.get("kind", theirs.get("kind")) == theirs.get("kind"):
            merged[group] = {key: value for key, value in theirs.items() if key not in WORD_VECTORS} | ours
    return merged


def start_tasks(task: type[AnyTask]) -> tuple[str, ...]:
    """The tasks whose runs a run of `task` may start from."""
    return task.starts.tasks or (task.name,)


def load_recipe(source: str | Path | Mapping[str, object], overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe from a file, a bundled one by its name, or a dictionary with the same groups of settings.

    The name of a task is a recipe with this task and nothing else; `overrides` name its data.
    """
    if str(source) in all_tasks() and not Path(str(source)).exists():
        source = {"name": str(source), "task": str(source)}
    if isinstance(source, Mapping):
        return build_recipe(apply_overrides(dict(source), overrides), "the recipe")
    path = find_recipe(source)
    return build_recipe(apply_overrides(read_toml(path), overrides), str(path))
