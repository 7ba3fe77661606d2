"""Texts of lines: plain text, subtitles (.srt), and messages with line breaks inside of sentences.

plain text    every line is a passage; whitespace and line ends stay as they are
subtitles     numbers and times stay, the text of each subtitle is a passage:

                  12
                  00:01:02,500 --> 00:01:04,000
                  A sentence may go on
                  in the <i>next</i> line.

short texts   tags such as <i> and line breaks are taken out and put back by word alignment, like inline tags of HTML; a
              break comes before the translation of the word that began the line. Entities are not read: `&amp;` stays
"""

import re
from collections.abc import Iterator

from regard.documents.markup import VOID, Item, PassageBuilder, Token, find_delimiters, read_markup
from regard.documents.passage import Passage, ReadOptions, Slot, TemplateDocument

_PIECES = re.compile(r"(?P<break>\r\n|\r|\n)|(?P<style>\{\\[^{}]{0,100}\})|<")
BREAK = Token("open", "\n", "br")
TIMES = re.compile(r"[ \t]*\d{1,3}:\d\d:\d\d[,.]\d{1,3}[ \t]*-->[^\r\n]*(?:\r\n|\r|\n)")
BLANK_LINE = re.compile(r"(?:(?:\r\n|\r|\n)[ \t]*){2,}|(?:\r\n|\r|\n)[ \t]*\Z|\Z")
_EMPTY_LINES = re.compile(r"(?:[ \t]*(?:\r\n|\r|\n))+[ \t]*(?=\r|\n)|\A(?:[ \t]*[\r\n]+)+|(?:[\r\n]+[ \t]*)+\Z")


def read_lines(text: str, options: ReadOptions) -> Slot | None:
    """The slot of a text with tags and line breaks; None if there is nothing to translate in it."""
    items = list(split_items(text))
    alone = set(find_delimiters(items, two_breaks=False))
    builder = PassageBuilder(reads_entities=False)
    for index, item in enumerate(items):
        kind = "empty" if index in alone else item.kind
        builder.add(Item(kind, item.raw, item.token), (item.raw,))
    passage = builder.passage(options)
    return Slot(passage, {}, builder.opens, builder.closes) if passage.is_changed else None


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


def read_text(text: str, options: ReadOptions) -> TemplateDocument:
    """Read plain text."""
    template: list[str | int] = []
    slots: list[Slot] = []
    for line in re.findall(r"[^\r\n]+|[\r\n]+", text):
        passage = None if line[0] in "\r\n" else Passage(line, options)
        if passage is not None and passage.is_changed:
            template.append(len(slots))
            slots.append(Slot(passage))
        else:
            template.append(line)
    return TemplateDocument(template, slots)


class SubtitleDocument(TemplateDocument):
    """Subtitles; a blank line would end one, so none is written inside of its text."""

    def finish(self, text: str) -> str:
        return _EMPTY_LINES.sub("", text)


def read_subtitles(text: str, options: ReadOptions) -> SubtitleDocument:
    """Read subtitles; what is none stays as it is."""
    template: list[str | int] = []
    slots: list[Slot] = []
    copied = 0
    for times in TIMES.finditer(text):
        end = BLANK_LINE.search(text, times.end())
        if times.start() < copied or end is None or end.start() <= times.end():
            continue
        slot = read_lines(text[times.end() : end.start()], options)
        if slot is not None:
            template += [text[copied : times.end()], len(slots)]
            slots.append(slot)
            copied = end.start()
    return SubtitleDocument([*template, text[copied:]], slots)
