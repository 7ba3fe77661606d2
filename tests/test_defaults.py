"""Defaults and bounds of all settings equal tests/defaults.txt, so that none changes by mistake.

After a wanted change, write the file again and look at the difference: python -m tests.test_defaults
"""

from collections import defaultdict
from pathlib import Path

from pydantic.fields import FieldInfo

from regard.config import describe
from regard.tasks.registry import TASKS

FILE = Path(__file__).with_name("defaults.txt")
BOUNDS = ("gt", "ge", "lt", "le", "pattern", "min_length", "max_length")


def bounds(field: FieldInfo) -> str:
    found = {name: getattr(item, name) for item in field.metadata for name in BOUNDS if hasattr(item, name)}
    return ", ".join(f"{name} {value}" for name, value in found.items() if value is not None)


def default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    return "required" if field.is_required() else repr(value)


def all_defaults() -> str:
    """A line for each setting and default, with its bounds, and the tasks and kinds of model that have it."""
    lines: dict[tuple[str, str], set[str]] = defaultdict(set)
    tasks = {name: task for name, task in TASKS.items() if task.__module__.startswith("regard.")}  # no plugins
    for name, task in tasks.items():
        for setting in describe(task.recipe_type, task.recipe_type.defaults, lists=True):
            key = f"{setting.name} = {default(setting.field)}", bounds(setting.field)
            lines[key].add("/".join((name, *setting.kinds)))
    every = set(tasks)
    return "".join(
        f"{text}{f'  [{limits}]' if limits else ''}  ({'all' if of == every else ' '.join(sorted(of))})\n"
        for (text, limits), of in sorted(lines.items(), key=lambda item: (item[0], sorted(item[1])))
    )


def test_defaults_and_bounds() -> None:
    assert all_defaults().splitlines() == FILE.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    FILE.write_text(all_defaults(), encoding="utf-8")
