"""The reference pages in Markdown: commands, settings and the Python interface, from help texts and docstrings."""

import inspect
import re
import tomllib
from collections.abc import Callable, Iterable
from itertools import groupby

from pydantic import BaseModel

import regard
from regard.cli.app import HELP, build_command, find_function
from regard.cli.settings import NOT_SET, REQUIRED, Row, setting_rows
from regard.cli.shell import GROUPS

MAX_WIDTH = 80
"""Characters of a signature on one line."""


def plain(text: str) -> str:
    """Text as Markdown: quoted code stays, everything else is no markup."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(p if n % 2 else re.sub(r"([\\*_\[\]<>#|$~{}`])", r"\\\1", p) for n, p in enumerate(parts))


def entry(term: str, text: str) -> str:
    """An entry of a definition list."""
    return f"{term}\n: {plain(' '.join(text.split())) or '–'}\n"


def commands() -> Iterable[str]:
    texts = tomllib.loads(HELP.read_text(encoding="utf-8"))
    for group, names in GROUPS.items():
        yield f"## {group}\n"
        for name in names:
            command = build_command(name)
            context = command.make_context(name, [], resilient_parsing=True)
            yield f"### regard {name}\n\n{plain(find_function(name).__doc__ or '')}\n"
            yield f"```\nregard {name} {' '.join(command.collect_usage_pieces(context))}\n```\n"
            yield f"{plain(texts[name]['about'])}\n\n```\n{texts[name]['examples'].strip()}\n```\n"
            for parameter in command.get_params(context):
                term, text = parameter.get_help_record(context) or ("", "")
                yield entry(f"`{parameter.metavar if parameter.param_type_name == 'argument' else term}`", text)


def settings() -> Iterable[str]:
    def group_of(row: Row) -> str:
        return row["setting"].partition(".")[0] if "." in row["setting"] else ""

    for group, rows in groupby(sorted(setting_rows(), key=group_of), key=group_of):
        yield f"## {group or 'run'}\n"
        for row in rows:
            default = f"({row['default']})" if row["default"] in (NOT_SET, REQUIRED) else f"= `{row['default']}`"
            owners = f" · {plain(row['of'])}" if row["of"] else ""
            yield entry(f"`{row['setting']}` {default} · *{plain(row['type'])}*{owners}", row["meaning"])


def python() -> Iterable[str]:
    names = [name for name in vars(regard)["__all__"] if name != "__version__"]
    for title, are_classes in (("Functions", False), ("Classes", True)):
        yield f"## {title}\n"
        for name in sorted(names, key=str.lower):
            value = getattr(regard, name)
            if isinstance(value, type) == are_classes:
                yield f"### {name}\n\n```python\n{name}{parameters(value)}\n```\n\n{docstring(value)}\n"
                yield from methods(value) if are_classes else ()


def methods(owner: type) -> Iterable[str]:
    """The public methods and properties that a class defines itself."""
    for name, value in list(vars(owner).items()):
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if not name.startswith("_") and inspect.isfunction(function) and function.__doc__:
            shown = name if isinstance(value, property) else f"{name}{parameters(function)}"
            yield entry(f"`{' '.join(shown.split())}`", inspect.cleandoc(function.__doc__).partition("\n\n")[0])


def parameters(value: Callable[..., object]) -> str:
    """The signature without the modules of types; one parameter per line if it is long."""
    try:
        shown = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    if isinstance(value, type) and issubclass(value, BaseModel):
        return f"({', '.join(shown.parameters)})"
    text = re.sub(r"(?<=[:>] )'([^']*)'", r"\1", re.sub(r"<(?:[^<>]|<[^>]*>)*>", "...", str(shown)))
    text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)|[~+-](?=[A-Z])", "", text)
    text = re.sub(r"Union\[_Buffer.*?\| str\]\]", "ArrayLike", text)
    return text if len(text) < MAX_WIDTH else re.sub(r", (?=\*{0,2}\w+: |\*, |/, )", ",\n    ", text)


def docstring(value: object) -> str:
    """A docstring as Markdown; indented and aligned parts are code."""
    paragraphs = inspect.cleandoc(value.__doc__ or "").split("\n\n")
    are_code = [text.startswith("    ") or re.search(r"\S {3,}\S", text) for text in paragraphs]
    return "\n\n".join(
        f"```\n{text}\n```" if is_code else plain(text) for text, is_code in zip(paragraphs, are_code, strict=True)
    )


MAKERS: dict[str, Callable[[], Iterable[str]]] = {"commands": commands, "settings": settings, "python": python}
"""The pages in reference/, and the functions that make their lines."""
