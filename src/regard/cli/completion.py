"""Values that the shell offers for arguments and options: runs, recipes, settings, languages, choices.

`with_completion` chooses what to offer by the word that the help shows for a value: RUN, RECIPE, NAME=VALUE, CODE, or
choices like fp32|bf16|auto. So a new verb needs nothing.

`regard --install-completion` writes the script of the shell, which starts regard for every tab. So nothing large is
imported here: the names of settings are read from setting_names.tsv, which `python -m tests.test_defaults` writes.

A setting is completed in two steps: first its name, `training.sch` -> `training.schedule=`, then its values or its
default. bash splits words at "=", and regard sees `training.schedule`, `=` and the value; zsh and fish do not.
"""

import copy
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_args

NAMES = Path(__file__).with_name("setting_names.tsv")
"""A line for each setting: name, its values if they are named, defaults; separated by tabs, values by spaces."""
MAX_FOLDERS = 500
"""Folders that are looked into for runs."""
Completer = Callable[..., list[str]]
"""What is typed already -> the values to offer; it may also take the context of click, as `ctx`."""
LANGUAGES = ("de", "en", "es", "fr", "zh")
"""The languages of the translator that comes with regard."""


def complete_run(incomplete: str) -> list[str]:
    """Folders of runs below the folder that is typed, and the runs that come with regard."""
    from regard.run_files import bundled_runs

    return [name for name in (*bundled_runs(), *runs_below(incomplete)) if name.startswith(incomplete)]


def complete_recipe(incomplete: str) -> list[str]:
    """Recipes that come with regard, recipe files, and runs, which can be resumed."""
    from regard.recipe_files import SUFFIX

    files = sorted(str(path) for path in folder_of(incomplete).glob(f"*{SUFFIX}"))
    return [name for name in (*recipe_names(), *files, *runs_below(incomplete)) if name.startswith(incomplete)]


def complete_setting(ctx: Any, incomplete: str) -> list[str]:
    """NAME= for all settings that begin so; for a single one, or after "=", NAME=VALUE.

    `ctx` is the context of click. If the shell splits words at "=", the words before the last one end with a name, or
    with a name and "=": click removes "=" if nothing follows it.
    """
    typed = [str(word) for word in ctx.params.get("settings") or ()]
    name, equals, value = incomplete.partition("=")
    if typed[-1:] == ["="]:
        return [item for item in values_of("".join(typed[-2:-1])) if item.startswith(incomplete)]
    if not incomplete and typed and typed[-1] in setting_values():
        return values_of(typed[-1])
    if equals:
        return [f"{name}={item}" for item in values_of(name) if item.startswith(value)]
    names = sorted(key for key in setting_values() if key.startswith(incomplete))
    if len(names) > 1:
        return [f"{key}=" for key in names]
    return [item for key in names for item in (f"{key}=", *(f"{key}={value}" for value in values_of(key)))]


def complete_names(incomplete: str) -> list[str]:
    """What `regard recipes NAME` and `--settings NAME` take: recipes, names of settings and their groups."""
    names = setting_values()
    groups = {name.rpartition(".")[0] for name in names} - {""}
    return sorted({name for name in (*names, *groups, *recipe_names()) if name.startswith(incomplete)})


def complete_language(incomplete: str) -> list[str]:
    """Codes of the languages of the translator that comes with regard."""
    return [code for code in LANGUAGES if code.startswith(incomplete)]


def complete_checkpoint(incomplete: str) -> list[str]:
    """The names that every run has."""
    return [name for name in ("averaged", "best", "last") if name.startswith(incomplete)]


def complete_device(incomplete: str) -> list[str]:
    """The devices of torch."""
    return [name for name in ("auto", "cpu", "cuda") if name.startswith(incomplete)]


def choices_of(metavar: str) -> Completer:
    """The choices of an option whose help shows them: fp32|bf16|auto."""
    choices = [choice for choice in metavar.split("|") if choice.strip(".")]
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


BY_NAME: dict[str, Completer] = {
    "names": complete_names, "checkpoint": complete_checkpoint, "device": complete_device,
}  # fmt: skip
BY_METAVAR: dict[str, Completer] = {
    "RUN": complete_run, "RUN|TEXT": complete_run, "RECIPE": complete_recipe, "NAME=VALUE": complete_setting,
    "CODE": complete_language,
}  # fmt: skip
"""What to offer for a parameter of this name, and for a value that the help shows so."""


def with_completion(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb, with values to offer for its parameters."""
    signature = inspect.signature(verb)
    parameters = [offering_values(parameter) for parameter in signature.parameters.values()]
    verb.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    verb.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return verb


def offering_values(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter with values to offer, if any are known for it."""
    plain, *more = get_args(parameter.annotation)
    option = copy.copy(more[0])
    metavar = option.metavar or ""
    found = BY_NAME.get(parameter.name) or BY_METAVAR.get(metavar) or (choices_of(metavar) if "|" in metavar else None)
    option.autocompletion = option.autocompletion or found
    return parameter.replace(annotation=Annotated[plain, option])


# ---- parts -----------------------------------------------------------------------------------------------------------


def recipe_names() -> list[str]:
    """The recipes that come with regard."""
    from regard.recipe_files import shipped_recipes

    return [path.stem for path in shipped_recipes()]


def folder_of(incomplete: str) -> Path:
    """The folder that is typed already: runs for runs/da."""
    return Path(incomplete.rpartition("/")[0] or ("/" if incomplete.startswith("/") else "."))


def runs_below(incomplete: str) -> Iterator[str]:
    """The runs in the folder that is typed, two levels deep, as they would be typed."""
    from regard.run_files import RECIPE

    prefix = incomplete[: incomplete.rfind("/") + 1]
    for number, path in enumerate(folders_in(folder_of(incomplete))):
        if number >= MAX_FOLDERS:
            return
        inner = [path, *folders_in(path)] if not (path / RECIPE).is_file() else [path]
        for run in inner:
            if (run / RECIPE).is_file():
                yield prefix + str(run.relative_to(folder_of(incomplete)))


def folders_in(folder: Path) -> list[Path]:
    """The folders in a folder that are not hidden; none if it cannot be read."""
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError:
        return []


def setting_values() -> dict[str, list[str]]:
    """The values to offer for each setting."""
    rows = (line.split("\t") for line in NAMES.read_text(encoding="utf-8").splitlines())
    return {name: values.split() or defaults.split() for name, values, defaults in rows}


def values_of(name: str) -> list[str]:
    """The values to offer for one setting."""
    return setting_values().get(name, [])
