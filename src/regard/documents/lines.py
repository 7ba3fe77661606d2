"""Short texts with markup and line breaks inside of sentences: a subtitle, a message of a program.

Tags such as <i> and line breaks are taken out of the text and put back by word alignment, like inline tags of HTML; a
break comes before the translation of the word that began the line. Entities are not read: `&amp;` stays as it is.
"""

import re
from collections.abc import Iterator

from regard.documents.html_tokens import VOID, Token, read_markup
from regard.documents.inline import Item, PassageBuilder, find_delimiters
from regard.documents.passage import Reading
from regard.documents.template import Slot

_PIECES = re.compile(r"(?P<break>\r\n|\r|\n)|(?P<style>\{\\[^{}]{0,100}\})|<")
BREAK = Token("open", "\n", "br")


def read_lines(text: str, reading: Reading) -> Slot | None:
    """The slot of a text with tags and line breaks; None if there is nothing to translate in it."""
    items = list(split_items(text))
    alone = set(find_delimiters(items, two_breaks=False))
    builder = PassageBuilder(reads_entities=False)
    for index, item in enumerate(items):
        kind = "empty" if index in alone else item.kind
        builder.add(Item(kind, item.raw, item.token), (item.raw,))
    passage = builder.passage(reading)
    return Slot(passage, str, builder.opens, builder.closes) if passage.is_changed else None


def split_items(text: str) -> Iterator[Item]:
    """Text, tags, line breaks, and the styles of subtitles: {\\an8}."""
    copied = place = 0
    while match := _PIECES.search(text, place):
        item = read_item(text, match)
        place = match.start() + (len(item.raw) if item else 1)
        if item is not None:
            if copied < match.start():
                yield Item("text", text[copied : match.start()], Token("text", ""))
            yield item
            copied = place
    if copied < len(text):
        yield Item("text", text[copied:], Token("text", ""))


def read_item(text: str, match: re.Match[str]) -> Item | None:
    """The line break, style or tag at a place; None if "<" is text there."""
    if match["break"]:
        return Item("empty", match[0], BREAK)
    if match["style"]:
        return Item("empty", match[0], Token("other", match[0]))
    token = read_markup(text, match.start())
    if token is None or token.kind == "other":
        return None
    kind = "empty" if token.name in VOID or token.is_empty else token.kind
    return Item(kind, token.raw, token)
