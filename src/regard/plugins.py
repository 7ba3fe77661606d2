"""Plug-ins: your own tasks, parts and experiments, from Python files and installed packages.

    REGARD_PLUGINS   Python files, separated as in PATH
    entry points     of installed packages, name = "package.module" in the group regard.plugins, regard.tasks or
                     regard.experiments

A plug-in registers what it adds when it is imported, for example with `@register` (tasks/registry.py). Every table of
named things that a plug-in can extend is a `Registry`. `load_plugins` imports all plug-ins, once per process.
"""

import os
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.metadata import entry_points
from importlib.util import spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from typing import Any, TypeVar
from zlib import crc32

from regard.errors import UserError

PLUGINS = "REGARD_PLUGINS"
GROUPS = ("regard.plugins", "regard.tasks", "regard.experiments")
PREFIX = "regard_plugin_"
MISSING_PLUGIN = f"if it comes from a plug-in, add the plug-in's file to {PLUGINS}, or install its package"
"""The remedy for an unknown name that a plug-in may have."""

T = TypeVar("T")


class Registry(dict[str, T]):
    """Named things of one kind, for example all tasks: the built-in ones, and those that plug-ins add."""

    def __init__(self, kind: str, values: Mapping[str, T]) -> None:
        super().__init__(values)
        self.kind = kind

    def add(self, name: str, value: T) -> T:
        """Add a thing; raise UserError if another one has this name."""
        if not isinstance(name, str) or not name:
            raise UserError(f"a {self.kind} needs a name, not {name!r}", code="invalid-plugin", where=self.kind)
        if name in self and _identity(self[name]) != _identity(value):
            problem = f"there are two {self.kind}s called {name!r}: {_place(self[name])} and {_place(value)}"
            raise UserError(problem, "rename one of them", code="duplicate-name", where=name)
        self[name] = value
        return value

    def adder(self, name: str) -> Callable[[Any], Any]:
        """A decorator that adds a class or function under a name."""
        return lambda value: self.add(name, value)

    def all(self) -> "Registry[T]":
        """The registry with everything that plug-ins add."""
        load_plugins()
        return self

    def has(self, name: object) -> bool:
        """True if there is such a thing, built in or added by a plug-in."""
        return isinstance(name, str) and (name in self or name in self.all())


def _identity(value: object) -> object:
    """Module and name of a class or function: running a notebook cell again replaces its old definition."""
    return getattr(value, "__module__", None), getattr(value, "__qualname__", value)


def _place(value: object) -> str:
    module = sys.modules.get(getattr(value, "__module__", ""))
    return str(getattr(module, "__file__", None) or getattr(module, "__name__", repr(value)))


def load_plugins() -> None:
    """Import the files in REGARD_PLUGINS and the entry points of installed packages; those already imported stay."""
    for path in plugin_files():
        if not path.is_file():
            raise UserError(f"{path}: no such plug-in", f"correct {PLUGINS}", code="missing-file", where=path)
        import_plugin(module_name(path), str(path))
    for name, module in installed_plugins().items():
        import_plugin(module, f"the installed plug-in {name}")


@cache
def installed_plugins() -> dict[str, str]:
    """The modules of installed plug-ins by the names of their entry points."""
    modules: dict[str, str] = {}
    for point in (point for group in GROUPS for point in entry_points(group=group)):
        if modules.setdefault(point.name, point.module) != point.module:
            problem = f"two installed plug-ins are called {point.name!r}: {modules[point.name]} and {point.module}"
            raise UserError(problem, "uninstall one of them", code="duplicate-name", where=point.name)
    return modules


def plugin_files() -> list[Path]:
    names = filter(None, os.environ.get(PLUGINS, "").split(os.pathsep))
    return [Path(name).expanduser().resolve() for name in names]


def module_name(path: Path) -> str:
    """The module of a plug-in file; files of the same name in different folders are different modules."""
    return f"{PREFIX}{path.stem}_{crc32(os.fsencode(path)):08x}"


class PluginFinder:
    """Finds the modules of plug-in files, so that `import` and processes that unpickle their classes can."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The file of a module that `module_name` named; None for all other modules."""
        files = plugin_files() if name.startswith(PREFIX) else []
        return next((spec_from_file_location(name, file) for file in files if module_name(file) == name), None)


sys.meta_path.append(PluginFinder)


def import_plugin(module: str, plugin: str) -> None:
    """Import a module; a UserError with the line to correct if that fails."""
    try:
        import_module(module)
    except UserError:
        raise
    except Exception as error:
        line = extract_tb(error.__traceback__)[-1]
        problem = f"{plugin} cannot be imported: {type(error).__name__}: {error}"
        remedy = f"correct {line.filename}:{line.lineno}"
        raise UserError(problem, remedy, code="invalid-plugin", where=plugin) from error
