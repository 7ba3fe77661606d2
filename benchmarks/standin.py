"""Empty modules in the place of packages a peer imports but never uses here: plotting, data sets, spell checking.

Installing them would take longer than the benchmark, and some have no build for this Python. Whoever does use one
after all is told so.
"""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

WITHOUT_EFFECT = ("matplotlib.use",)
"""Functions that peers call when they are imported, and whose effect the benchmark does not need."""


class StandIn(ModuleType):
    """A module with every name in it, and nothing behind any."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None, is_package=True)
        self.__path__: list[str] = []  # a package: modules below it can be asked for

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        if f"{self.__name__}.{name}" in WITHOUT_EFFECT:
            return lambda *_, **__: None

        def refuse(*_: Any, **__: Any) -> None:
            raise ModuleNotFoundError(f"{self.__name__}.{name} is used after all; add {self.__name__} to the roster")

        return type(name, (), {"__init__": refuse})


def stand_in(*names: str) -> None:
    """Put a stand-in where no real package is; `a.b` needs `a` before it."""
    for name in names:
        above = name.rpartition(".")[0]
        if isinstance(sys.modules.get(above), StandIn) or importlib.util.find_spec(name) is None:
            sys.modules[name] = StandIn(name)
