"""Texts of lines: plain text, and short texts (subtitles, .po messages) with line breaks inside of sentences.

plain text    every line is a passage; whitespace and line ends stay as they are; a tab ends a sentence
short texts   tags such as <i>, tabs and line breaks are taken out and put back by word alignment, like inline tags of
              HTML; a break comes before the translation of the word that began the line. Entities are not read: `&amp;`
              stays
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from regard.documents.markup import VOID, Item, PassageBuilder, Token, find_delimiters, read_markup
from regard.documents.passage import Passage, ReadOptions, Slot, TemplateDocument
from regard.documents.segment import Segment, SegmentTranslation
from regard.documents.sentences import tab_ends
from regard.errors import UserError

_PIECES = re.compile(r"(?P<break>\r\n|\r|\n|\t+)|(?P<style>\{\\[^{}]{0,100}\}|<\d\d[\d:.]{4,12}>)|<")
"""Tags, line breaks, and the styles and times in subtitles: {\\an8}, <00:00:01.500>."""
MAX_TAG = 2000
BREAK = Token("open", "\n", "br")


def read_lines(text: str, options: ReadOptions) -> Slot | None:
    """The slot of a text with tags and line breaks; None if there is nothing to translate in it."""
    items = [item for item in split_items(text, _PIECES, read_item) if item.raw]
    alone = set(find_delimiters(items, two_breaks=False))
    builder = PassageBuilder(reads_entities=False, is_wrapped=True)
    for index, item in enumerate(items):
        kind = "empty" if index in alone else item.kind
        builder.add(Item(kind, item.raw, item.token), (item.raw,))
    passage = builder.passage(options)
    return Slot(passage, {}, builder.opens, builder.closes) if passage.is_changed else None


def split_items(
    text: str, pattern: re.Pattern[str], read: Callable[[str, re.Match[str]], Item | None]
) -> Iterator[Item]:
    """Text, and the markup that is read where a pattern matches; None if it is text there."""
    copied = place = 0
    while match := pattern.search(text, place):
        item = read(text, match)
        place = match.start() + (len(item.raw) if item else 1)
        if item is not None:
            yield Item("text", text[copied : match.start()], Token("text", ""))
            yield item
            copied = place
    yield Item("text", text[copied:], Token("text", ""))


def read_item(text: str, match: re.Match[str]) -> Item | None:
    """The line break, style or tag at a place; None if "<" is text there."""
    if match["break"]:
        return Item("empty", match[0], BREAK)
    if match["style"]:
        return Item("empty", match[0], Token("other", match[0]))
    window = text[match.start() : match.start() + MAX_TAG]
    token = read_markup(window, 0) if ">" in window else None
    if token is None or token.kind == "other":
        return None
    kind = "empty" if token.name in VOID or token.is_empty else token.kind
    return Item(kind, token.raw, replace(token, name=token.name.partition(".")[0]))  # .vtt: <i.red>...</i>


def read_text(text: str, options: ReadOptions) -> TemplateDocument:
    """Read plain text."""
    template: list[str | int] = []
    slots: list[Slot] = []
    for line in re.findall(r"[^\r\n]+|[\r\n]+", text):
        passage = None if line[0] in "\r\n" else Passage(line, options, ends=tab_ends(line))
        if passage is not None and passage.is_changed:
            template.append(len(slots))
            slots.append(Slot(passage))
        else:
            template.append(line)
    return TemplateDocument(template, slots)


# ---- messages of programs (.po of gettext) ---------------------------------------------------------------------------
#
# Entries without a translation get one, everything else stays as it is.
#
#     #, c-format
#     msgid "%d file"                    -> msgstr[0]
#     msgid_plural "%d files"            -> all other forms; the only form of languages without a plural
#     msgstr[0] ""
#     msgstr[1] ""
#
# Existing translations, also fuzzy ones, are kept: a person may have written them. So are the header and obsolete
# entries. A line break inside of a sentence is put back by word alignment; other lines are texts of their own.

_KEYWORD = re.compile(r'\s*(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)\s*(".*")\s*$')
LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_STRING = re.compile(r'\s*(".*")\s*$')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_TO_ESCAPE = {ord(value): f"\\{key}" for key, value in _ESCAPES.items()} | {ord('"'): '\\"', ord("\\"): "\\\\"}
_HARD_BREAK = re.compile(r"(?<=[.!?:;。！？：；\n])\n|\n(?![a-zà-ÿ])|\n\Z")
"""Where a line ends that is a text of its own: after punctuation, or before a line that does not go on."""


@dataclass
class Field:
    """The value of a keyword in an entry, and its lines in the file."""

    keyword: str
    value: str
    first: int
    last: int


Entry = dict[str, Field]
"""A message: its keywords."""


def missing(entry: Entry, count: int) -> Iterator[tuple[Field, str]]:
    """The translations that are missing in a message, each with its source; `count` plural forms, if it is known.

    A form that is too many has no keyword.
    """
    source, plural = entry.get("msgid"), entry.get("msgid_plural")
    forms = [item for name, item in entry.items() if name.startswith("msgstr")]
    if plural and count and forms and not any(item.value for item in forms):
        last = forms[-1].last
        yield from ((replace(item, keyword=""), "") for item in forms[count:])
        forms = forms[:count] + [Field(f"msgstr[{n}]", "", last, last) for n in range(len(forms), count)]
    for item in forms if source and source.value else ():
        if not item.value:
            is_plural = plural is not None and (item.keyword != "msgstr[0]" or len(forms) == 1)
            found = plural if is_plural else source
            assert found is not None
            yield item, found.value


def read_entries(lines: Sequence[str]) -> Iterator[Entry]:
    """Read the entries from a gettext PO file; skip comments and obsolete entries."""
    entry, current = Entry(), None
    for number, line in enumerate(lines):
        if match := _KEYWORD.match(line):
            if match[1] in ("msgctxt", "msgid") and any(name.startswith("msgstr") for name in entry):
                yield entry
                entry = Entry()
            if match[1].startswith("msgstr") and "msgid" not in entry:
                problem, remedy = f"line {number + 1}: {match[1]} has no msgid before it", 'write msgid "..." above it'
                raise UserError(problem, remedy, code="bad-line", where=f"line {number + 1}")
            current = Field(match[1], unquote(match[2]), number, number + 1)
            entry[match[1]] = current
        elif (match := _STRING.match(line)) and current is not None:
            current.value += unquote(match[1])
            current.last = number + 1
        elif line.strip() and not line.lstrip().startswith("#"):
            problem = f"line {number + 1} is not valid gettext: {line.strip()[:60]!r}"
            remedy = 'write msgid "...", msgstr "..." or a comment'
            raise UserError(problem, remedy, code="bad-line", where=f"line {number + 1}")
        else:
            current = None
    yield entry


def fill_header(value: str, language: str) -> str:
    """The header of a file with its language and the rule for plural forms, where they are not given."""
    from babel.core import Locale, UnknownLocaleError
    from babel.messages.plurals import get_plural

    value = re.sub(r"(?m)^Language:[ \t]*$", f"Language: {language.replace('-', '_')}", value)
    try:
        rule = get_plural(Locale.parse(language, sep="-"))
    except (UnknownLocaleError, ValueError):
        return value
    return re.sub(r"(?m)^Plural-Forms:(?:.*INTEGER.*|[ \t]*)$", f"Plural-Forms: {rule}", value)


def unquote(text: str) -> str:
    """The value of a quoted string."""
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])


def quote(keyword: str, value: str, end: str) -> str:
    """A keyword with its value, in one line for each line of the value."""
    lines = [line.translate(_TO_ESCAPE) for line in re.findall(r"[^\n]*\n|[^\n]+", value)]
    if len(lines) > 1:
        lines.insert(0, "")
    return end.join([f'{keyword} "{lines[0] if lines else ""}"', *(f'"{line}"' for line in lines[1:])])


class MessageList:
    """Texts that may have tags and line breaks; each is a document of its own."""

    def __init__(self, texts: Iterable[str], options: ReadOptions) -> None:
        self.messages = [read_message(text, options) for text in texts]
        self.segments: list[Segment] = [segment for message in self.messages for segment in message.segments]

    def values(self, translations: Sequence[SegmentTranslation]) -> Iterator[str]:
        """Each text, from the translations of all segments."""
        remaining = iter(translations)
        return (message.render(list(islice(remaining, len(message.segments)))) for message in self.messages)


class MessageDocument(MessageList):
    """The messages of a file."""

    def __init__(self, text: str, options: ReadOptions) -> None:
        self.lines = LINES.findall(text)
        entries = list(read_entries(self.lines))
        header = next((entry["msgstr"] for entry in entries if "msgstr" in entry and not entry["msgid"].value), None)
        value = header.value if header else ""
        if own := re.search(r"(?m)^Language:[ \t]*(\S+)", value):
            options.check_target(own[1], "Language")
        if header and options.target and (value := fill_header(value, options.target)) != header.value:
            self.write(self.lines, header, value)
        rule = re.search(r"(?m)^Plural-Forms:.*nplurals *= *(\d+)", value)
        self.missing = [item for entry in entries for item in missing(entry, int(rule[1]) if rule else 0)]
        super().__init__((source for _, source in self.missing), options)

    def render(self, translations: Sequence[SegmentTranslation]) -> str:
        """The file with the missing translations."""
        lines = list(self.lines)
        for (item, _), value in zip(self.missing, self.values(translations), strict=True):
            self.write(lines, item, value)
        return "".join(lines)

    def write(self, lines: list[str], item: Field, value: str) -> None:
        """Write a field in place of its lines, or after the line before it if it has none."""
        last = lines[item.last - 1] if item.first < item.last else self.lines[item.last - 1]
        end = last[len(last.rstrip("\r\n")) :]
        written = quote(item.keyword, value, end or "\n") + end if item.keyword else ""
        if item.first == item.last:
            lines[item.last - 1] += written if end else f"\n{written}"
        else:
            lines[item.first : item.last] = [written, *[""] * (item.last - item.first - 1)]


def read_message(text: str, options: ReadOptions) -> TemplateDocument:
    """A message in texts of its own; a line break inside of a sentence is none."""
    template: list[str | int] = []
    slots: list[Slot] = []
    copied = 0
    for match in [*_HARD_BREAK.finditer(text), None]:
        end = match.start() if match else len(text)
        slot = read_lines(text[copied:end], options)
        template += [text[copied:end] if slot is None else len(slots), match[0] if match else ""]
        slots += [slot] if slot is not None else []
        copied = match.end() if match else end
    return TemplateDocument(template, slots)
