"""Values that the shell offers for arguments and options: runs, recipes, settings, languages, choices.

`with_completion` chooses what to offer by the metavar that the help shows: RUN, RECIPE, NAME=VALUE, CODE, or choices
like fp32|bf16|auto. So a new command needs nothing.

`regard --install-completion` writes the script of the shell, which starts regard for every tab. So nothing large is
imported here: the names of settings are read from setting_names.tsv, which `python -m tests.test_defaults` writes.

A setting is completed in two steps: first its name, `training.sch` -> `training.schedule=`, then its values or its
default. bash splits words at "=", and regard sees `training.schedule`, `=` and the value; zsh and fish do not.
"""

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_args

NAMES = Path(__file__).with_name("setting_names.tsv")
"""A line for each setting: name, its values if they are named, defaults; separated by tabs, values by spaces."""
MAX_FOLDERS = 500
"""Folders that are looked into for runs."""
CHOICES = {
    "checkpoint": ("averaged", "best", "last"),
    "device": ("auto", "cpu", "cuda"),
    "CODE": ("de", "en", "es", "fr", "zh"),
}
"""What to offer for parameters of this name or metavar; the languages are those of the bundled translator."""
Completer = Callable[..., list[str]]
"""What is typed already -> the values to offer; it may also take the context of click, as `ctx`."""


def complete_run(incomplete: str) -> list[str]:
    """Bundled runs, and the folders of runs below the folder that is typed."""
    from regard.run_files import bundled_runs

    return _beginning(incomplete, (*bundled_runs(), *runs_below(incomplete)))


def complete_recipe(incomplete: str) -> list[str]:
    """Bundled recipes, recipe files, and runs, which can be resumed."""
    from regard.recipe_files import SUFFIX

    files = sorted(str(path) for path in folder_of(incomplete).glob(f"*{SUFFIX}"))
    return _beginning(incomplete, (*recipe_names(), *files, *runs_below(incomplete)))


def complete_setting(ctx: Any, incomplete: str) -> list[str]:
    """NAME= for all settings that begin so; for a single one, or after "=", NAME=VALUE.

    `ctx` is the context of click. If the shell splits words at "=", the words before the last one end with a name, or
    with a name and "=": click removes "=" if nothing follows it.
    """
    typed = [str(word) for word in ctx.params.get("settings") or ()]
    name, equals, value = incomplete.partition("=")
    offered = setting_values()
    if typed[-1:] == ["="]:
        return _beginning(incomplete, offered.get("".join(typed[-2:-1]), []))
    if not incomplete and typed and typed[-1] in offered:
        return offered[typed[-1]]
    if equals:
        return [f"{name}={item}" for item in _beginning(value, offered.get(name, []))]
    names = _beginning(incomplete, sorted(offered))
    if len(names) > 1:
        return [f"{key}=" for key in names]
    return [item for key in names for item in (f"{key}=", *(f"{key}={value}" for value in offered[key]))]


def complete_names(incomplete: str) -> list[str]:
    """What `regard recipes NAME` and `--settings NAME` take: recipes, names of settings and their groups."""
    names = setting_values()
    groups = {name.rpartition(".")[0] for name in names} - {""}
    return sorted({*_beginning(incomplete, (*names, *groups, *recipe_names()))})


BY_METAVAR: dict[str, Completer] = {
    "RUN": complete_run, "RUN|TEXT": complete_run, "RECIPE": complete_recipe, "NAME=VALUE": complete_setting,
}  # fmt: skip
"""What to offer for a value that the help shows so."""


def with_completion(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with values to offer for its parameters."""
    signature = inspect.signature(command)
    parameters = [offering_values(parameter) for parameter in signature.parameters.values()]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def offering_values(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter with values to offer, if any are known for it."""
    plain, *more = get_args(parameter.annotation)
    option = copy.copy(more[0])
    metavar = option.metavar or ""
    written = [choice for choice in metavar.split("|") if choice.strip(".")] if "|" in metavar else []
    choices = CHOICES.get(parameter.name) or CHOICES.get(metavar) or written
    completer = complete_names if parameter.name == "names" else BY_METAVAR.get(metavar)
    if completer is None and choices:
        completer = lambda incomplete: _beginning(incomplete, choices)  # noqa: E731
    option.autocompletion = option.autocompletion or completer
    return parameter.replace(annotation=Annotated[plain, option])


# ---- parts -----------------------------------------------------------------------------------------------------------


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def recipe_names() -> list[str]:
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
    rows = (line.split("\t") for line in NAMES.read_text(encoding="utf-8").splitlines())
    return {name: values.split() or defaults.split() for name, values, defaults in rows}
