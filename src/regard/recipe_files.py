"""Recipe files: the bundled ones, and earlier names of settings. Nothing large is imported here."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import UserError

SUFFIX = ".toml"
DEFAULT_TASK = "translation"
"""The task of a recipe that names none."""
RENAMED = {
    "data.unknown_below": "data.min_word_count",
    "data.keep_apart": "data.exclude_overlap",
    "data.variations": "data.typing_noise",
    "model.kind=masked": "model.kind=mask-predict",
}
"""Settings and values with new names in version 0.2.0; recipes and runs may have the earlier ones."""
MAX_SUGGESTIONS, MIN_SIMILARITY, MAX_NAME = 3, 0.6, 100


def shipped_recipes() -> list[Path]:
    """The recipes beside the source tree, or inside the installed package, in the order of their names."""
    package = Path(__file__).parent
    for folder in (package.parents[1] / "recipes", package / "recipes"):
        if any(folder.glob(f"*{SUFFIX}")):
            return sorted(folder.glob(f"*{SUFFIX}"), key=lambda path: path.stem)
    return []


def find_recipe(source: str | Path) -> Path:
    """The path of a recipe file; a bare name is one of the shipped recipes. A UserError names similar ones."""
    path = Path(source)
    shipped = {recipe.stem: recipe for recipe in shipped_recipes()}
    if path.exists() and not path.is_dir():
        return path
    if str(source) in shipped:
        return shipped[str(source)]
    names = {str(file): file.name for file in path.parent.glob(f"*{SUFFIX}") if file.is_file()}
    names |= {name: name for name in shipped} if path.parent == Path() else {}
    forms = {word := path.name[:MAX_NAME], Path(word).stem}  # with and without its file extension
    scores = {
        shown: max(difflib.SequenceMatcher(None, form, name.removesuffix(SUFFIX)).ratio() for form in forms)
        for shown, name in names.items()
    }
    similar = [shown for shown, score in scores.items() if score >= MIN_SIMILARITY]
    close = sorted(similar, key=lambda shown: (-scores[shown], shown))[:MAX_SUGGESTIONS]
    is_file = path.suffix == SUFFIX
    raise UserError(
        f"{source}: no such recipe" + ("" if is_file else ": neither a file nor a recipe name (see `regard recipes`)"),
        f"did you mean {' or '.join(close)}?" if close else "`regard recipes` lists the bundled recipes",
        code="missing-file" if is_file else "unknown-recipe",
        where=source,
    )


def current_names(values: Mapping[str, object]) -> dict[str, Any]:
    """Settings by group, with the names of today; of a setting that has both names the last one is used."""
    return {group: _rename(group, settings, RENAMED) for group, settings in values.items()}


def earlier_names(values: Mapping[str, object]) -> dict[str, object]:
    """Settings by group, with their earlier names: what identifies data and results does not change with a name."""
    names = {new: old for old, new in RENAMED.items()}
    return {group: _rename(group, settings, names) for group, settings in values.items()}


def _rename(group: str, settings: object, names: Mapping[str, str]) -> object:
    if not isinstance(settings, dict):
        return settings
    renamed = {}
    for name, value in settings.items():
        key = f"{group}.{name}"
        text = names.get(f"{key}={value}", "").partition("=")[2]
        renamed[names.get(key, key).removeprefix(f"{group}.")] = text or value
    return renamed
