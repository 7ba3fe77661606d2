"""Defaults and bounds of all settings equal tests/defaults.txt, so that none changes by mistake.

After a wanted change, write the file again and look at the difference: python -m tests.test_defaults
The same command writes the names and values that the shell completes (src/regard/cli/setting_names.tsv).
"""

from collections import defaultdict
from pathlib import Path

from pydantic.fields import FieldInfo

from regard.cli.completion import NAMES
from regard.cli.settings import setting_rows
from regard.config import describe
from regard.tasks.registry import TASKS

FILE = Path(__file__).with_name("defaults.txt")
TYPES = ("text", "number", "table", "source")
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


def names_and_values() -> str:
    """A line for each setting: its name, its values if they are named, its defaults."""
    values: dict[str, set[str]] = defaultdict(set)
    defaults: dict[str, set[str]] = defaultdict(set)
    for row in setting_rows():
        named = row["type"].split(" | ") if " | " in row["type"] else []
        values[row["setting"]] |= {value for value in named if value not in TYPES and " " not in value}
        shown = row["default"].strip('"')
        defaults[row["setting"]] |= {shown} - {"", "required", "not set", "[]"} if " " not in shown else set()
    rows = ((name, " ".join(sorted(values[name])), " ".join(sorted(defaults[name]))) for name in sorted(values))
    return "".join("\t".join(row) + "\n" for row in rows)


def test_the_names_that_the_shell_completes() -> None:
    assert names_and_values().splitlines() == NAMES.read_text(encoding="utf-8").splitlines()


def test_defaults_and_bounds() -> None:
    assert all_defaults().splitlines() == FILE.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    FILE.write_text(all_defaults(), encoding="utf-8")
    NAMES.write_text(names_and_values(), encoding="utf-8")
