"""Messages for people, in English or Chinese: the English template is in the code, the Chinese one in messages.zh.toml.

    text = Message("{count:,} examples in {time}", count=1200, time=duration)      a str: the English text
    localize(text)                                                                 the text in the terminal's language

A message is an English string that remembers its template and values. Files, JSON and logs hold the English text; only
code that prints for a person calls `localize`. Help texts and errors are English in every terminal.
"""

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from regard.reading import read_toml

CATALOGUE = Path(__file__).with_name("messages.zh.toml")


class Message(str):
    """An English text, made of a template and values, that `localize` can translate."""

    template: str
    values: dict[str, object]

    def __new__(cls, template: str, /, **values: object) -> "Message":
        message = super().__new__(cls, template.format(**values))
        message.template, message.values = template, values
        return message

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, object]]:  # to copy and pickle it
        return (self.template,), self.values


def join_messages(separator: str, parts: Iterable[str]) -> Message:
    """Join texts, some of which may be messages, so that each is translated by itself."""
    values = {f"part{number}": part for number, part in enumerate(parts)}
    return Message(separator.join(f"{{{name}}}" for name in values), **values)


def localize(text: str) -> str:
    """Return the text in the terminal's language; a text that is no `Message` stays as it is."""
    if not isinstance(text, Message) or not is_chinese():
        return text
    values = {name: localize(value) if isinstance(value, str) else value for name, value in text.values.items()}
    joined = text.template.replace("; ", "；").replace(
        ", ", "，"
    )  # only what `join_messages` makes has no Chinese template
    return chinese_templates().get(text.template, joined).format(**values)


def is_chinese() -> bool:
    """True if the terminal's language is Chinese: LC_ALL, LC_MESSAGES or LANG, the first that is set."""
    names = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return next(filter(None, names), "").lower().startswith("zh")


@cache
def chinese_templates() -> dict[str, str]:
    """Read the Chinese template for each English one; the file groups them by screen."""
    return {english: chinese for group in read_toml(CATALOGUE).values() for english, chinese in group.items()}
