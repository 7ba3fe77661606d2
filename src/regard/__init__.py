"""regard: attention models from raw text to a trained, evaluated and inspected model.

import regard
regard.translate("Hello", target="de")

from regard import Translator, load_recipe, train
train(load_recipe("dates"), "runs/dates", resume=True)
Translator.load("runs/dates").translate("Sunday, November 15, 2026")

A name is imported when it is first used, so `import regard` is fast and does not import torch. The file __init__.pyi
lists these names, for Python and for type checkers. They are the public interface, and so are those of `regard.tasks`.
Everything else is imported from its module and may change.
"""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from sys import modules

__version__ = "0.3.0"


def lazy_names(package: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, from the imports in its stub file."""
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    places = {name: module for module, name in re.findall(r"^from (\S+) import (\w+) as \2$", stub, re.MULTILINE)}

    def __getattr__(name: str) -> object:  # noqa: N807
        """Import the module of a public name when the name is first used."""
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(places[name]), name)
        setattr(modules[package], name, value)
        return value

    return __getattr__, lambda: sorted({*vars(modules[package]), *places}), list(places)


__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
__all__ += ["__version__"]
