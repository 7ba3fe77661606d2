"""The public interface: every name that a public signature mentions is public, and `import regard` is light."""

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

import pytest

PACKAGES = ("regard", "regard.tasks")
LAZY = {"Tensor": "torch", "Model": "regard.run.model", "Translator": "regard.run.model"}
"""Names that some annotations use and their modules do not import."""


def functions(thing: object) -> Iterator[FunctionType]:
    """A function, or the public methods and properties of a class and of its bases in regard."""
    if isinstance(thing, FunctionType) and thing.__module__.startswith("regard"):
        yield thing
    for base in thing.__mro__ if inspect.isclass(thing) else ():
        for name, value in list(vars(base).items()) if base.__module__.startswith("regard") else ():
            value = getattr(value, "__func__", getattr(value, "fget", getattr(value, "func", value)))
            ours = isinstance(value, FunctionType) and value.__module__.startswith("regard")
            if ours and (name == "__init__" or not name.startswith("_")):
                yield value


def classes(hint: Any) -> Iterator[type]:
    """The classes of regard in an annotation."""
    if isinstance(hint, TypeVar):
        yield from classes(hint.__bound__)
    elif isinstance(hint, list | tuple):
        for item in hint:
            yield from classes(item)
    else:
        origin = get_origin(hint) or hint
        if isinstance(origin, type) and origin.__module__.startswith("regard"):
            yield origin
        yield from classes(get_args(hint))


def mentioned(thing: object) -> set[type]:
    """The classes that the signatures of a public function or class mention."""
    lazy = {name: getattr(importlib.import_module(module), name) for name, module in LAZY.items()}
    hints = (hint for function in functions(thing) for hint in get_type_hints(function, localns=lazy).values())
    return {item for item in classes(list(hints)) if not item.__name__.startswith("_")}


def public(package: str) -> dict[str, object]:
    module = importlib.import_module(package)
    return {name: getattr(module, name) for name in module.__all__}


def test_everything_a_public_signature_mentions_is_public() -> None:
    names = [item for package in PACKAGES for item in public(package).items()]
    known = {id(thing) for _, thing in names}
    missing = {
        f"{item.__module__}.{item.__name__}": name
        for name, thing in names
        for item in mentioned(thing)
        if id(item) not in known
    }
    assert not missing, "add them to src/regard/__init__.pyi or src/regard/tasks/__init__.pyi"


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_listed(package: str) -> None:
    names = public(package)
    assert names.keys() <= set(dir(importlib.import_module(package))) and len(names) == len(set(names))
    with pytest.raises(AttributeError):
        importlib.import_module(package).nothing  # noqa: B018


def test_import_regard_is_light() -> None:
    script = "import sys, regard; sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'pydantic')))"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


if TYPE_CHECKING:  # mypy checks that these names are exported
    from regard import Model, Recording, translate  # noqa: F401
    from regard.tasks import Batch, Task  # noqa: F401
