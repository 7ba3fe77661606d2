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


def localize(text: str, chinese: bool | None = None) -> str:
    """Return the text in the terminal's language, or in Chinese; a text that is no `Message` stays as it is."""
    if not isinstance(text, Message) or not (is_chinese() if chinese is None else chinese):
        return text
    values = {name: localize(value, True) if isinstance(value, str) else value for name, value in text.values.items()}
    joined = text.template.replace("; ", "；").replace(", ", "，")  # what `join_messages` makes is in no catalogue
    return chinese_templates().get(text.template, joined).format(**values)


def to_page(text: str) -> str | dict[str, str]:
    """A text for a page that people read in either language: a message becomes {"en": ..., "zh": ...}."""
    return {"en": str(text), "zh": localize(text, chinese=True)} if isinstance(text, Message) else text


def find_message(text: str) -> str:
    """A text from a file, for example `about` in a bundled recipe: a message if the catalogue has it."""
    return Message(text) if "{" not in text and text in chinese_templates() else text


class Count(int):
    """A number of things: "{n:layer}" in an English template is "1 layer" or "2 layers", "{n}" is the number."""

    def __format__(self, name: str) -> str:
        return f"{int(self)} {name}{'s' * (self != 1)}" if name else str(int(self))


def format_duration(seconds: float) -> str:
    """Format a duration as 12 s, 5 min, 3 h 20 min or 26 days."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return Message("{seconds:.0f} s", seconds=seconds)
    if minutes < 60:
        return Message("{minutes} min", minutes=minutes)
    if minutes < 48 * 60:
        return Message("{hours} h {minutes} min", hours=minutes // 60, minutes=minutes % 60)
    return Message("{days:.0f} days", days=minutes / (24 * 60))


def is_chinese() -> bool:
    """True if the terminal's language is Chinese: LC_ALL, LC_MESSAGES or LANG, the first that is set."""
    names = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return next(filter(None, names), "").lower().startswith("zh")


@cache
def chinese_templates() -> dict[str, str]:
    """Read the Chinese template for each English one; the file groups them by screen."""
    return {english: chinese for group in read_toml(CATALOGUE).values() for english, chinese in group.items()}
