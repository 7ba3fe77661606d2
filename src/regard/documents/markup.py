"""Markup as tokens, and inline content put together to passages.

The tokens of a page joined are the page. Broken markup never fails: what is no tag is text, as in a browser. Every
character is read a bounded number of times.
"""

import html
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from regard.documents.passage import Markup, Passage, ReadOptions
from regard.documents.projecting import Element
from regard.documents.protecting import Protected
from regard.documents.sentences import Span, ends_line


def names(text: str) -> frozenset[str]:
    """The names in a text, separated by blanks."""
    return frozenset(re.findall(r"\S+", text))


VOID = names("area base br col embed hr img input link meta param source track wbr")
RAW_TEXT = names("script style textarea xmp iframe noembed noframes plaintext")
"""Elements with text in which no tags are read."""

_NAME = re.compile(r"<(/?)([A-Za-z][^\s/>]*|\d+(?=\s*/?>))")
_ATTRIBUTE = re.compile(
    r"""(\{%[^\n]{0,200}?%\}|\{\{[^\n]{0,200}?\}\}|=?[^\s/>=]*+)(?:\s*+=\s*+(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s>"'][^\s>]*)))?"""
)
_SPACE = re.compile(r"[\s/]*+")
_COMMENT_END = re.compile(r"--!?>")


@dataclass(frozen=True)
class Attribute:
    """An attribute: its name in lower case, its value as it is written, and the span of the value in its tag.

    `quote` is "" if the value is written without quotes.
    """

    name: str
    value: str
    span: Span
    quote: str


@dataclass(frozen=True)
class Token:
    """A piece of a page.

    kind    "open", "close", "text", or "other": comments, doctype, and text in which no tags are read
    raw     exactly as it is written
    name    of a tag, in lower case
    """

    kind: str
    raw: str
    name: str = ""
    attributes: tuple[Attribute, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True for a tag without a closing tag."""
        return self.name in VOID or self.raw.endswith("/>")

    @property
    def is_fixed(self) -> bool:
        """True for what cannot move: text in which no tags are read, and a comment or tag that does not end."""
        if self.kind != "other":
            return False
        return not self.raw.endswith(("-->", "--!>") if self.raw.startswith("<!--") else ">") or self.raw[0] != "<"

    def get(self, name: str) -> str:
        """The value of an attribute as it is written; "" if there is none."""
        return next((item.value for item in self.attributes if item.name == name), "")


def tokenize(page: str) -> Iterator[Token]:
    """The tokens of a page."""
    text_start = place = 0
    while (place := page.find("<", place)) >= 0:
        token = read_markup(page, place)
        if token is None:
            place += 1
            continue
        if text_start < place:
            yield Token("text", page[text_start:place])
        yield token
        place += len(token.raw)
        if token.kind == "open" and token.name in RAW_TEXT and not token.is_empty:
            close = re.compile(rf"</{token.name}(?=[\s/>])", re.IGNORECASE).search(page, place)
            end = close.start() if close else len(page)
            if place < end:
                yield Token("other", page[place:end])
            place = end
        text_start = place
    if text_start < len(page):
        yield Token("text", page[text_start:])


def collect(token: Token, tokens: Iterator[Token]) -> tuple[list[Token], bool]:
    """The tokens of an element from its opening tag to its closing tag; False if the closing tag is missing."""
    inside, level = [token], 0 if token.is_empty else 1
    for other in tokens if level else ():
        inside.append(other)
        if other.name == token.name and not other.is_empty:
            level += 1 if other.kind == "open" else -1
        if not level:
            break
    return inside, not level


def read_markup(page: str, place: int) -> Token | None:
    """The tag or comment that begins at a place; None if "<" is text there."""
    if page.startswith("<!--", place):
        match = _COMMENT_END.search(page, place + 2)
        return Token("other", page[place : match.end() if match else len(page)])
    for start, end in (("<![CDATA[", "]]>"), ("<!", ">"), ("<?", ">")):
        if page.startswith(start, place):
            found = page.find(end, place)
            return Token("other", page[place : found + len(end) if found >= 0 else len(page)])
    match = _NAME.match(page, place)
    return read_tag(page, place, match) if match else None


def read_tag(page: str, place: int, name: re.Match[str]) -> Token:
    """A tag with its attributes; a tag that does not end is the rest of the page."""
    attributes: list[Attribute] = []
    end = name.end()
    while True:
        space = _SPACE.match(page, end)
        end = space.end() if space else end
        if end >= len(page):
            return Token("other", page[place:])
        if page[end] == ">":
            kind = "close" if name[1] else "open"
            return Token(kind, page[place : end + 1], name[2].lower(), tuple(attributes))
        match = _ATTRIBUTE.match(page, end)
        assert match is not None  # it matches the empty text too
        end = max(match.end(), end + 1)
        for group, quote in (("double", '"'), ("single", "'"), ("bare", "")):
            if match[group] is not None:
                span = match.start(group) - place, match.end(group) - place
                attributes.append(Attribute(match[1].lower(), match[group], span, quote))


# ---- inline content --------------------------------------------------------------------------------------------------

LETTER = re.compile(r"[^\W\d_]")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});?")


@dataclass(frozen=True)
class Item:
    """A piece of inline content.

    kind    "text"; "open", "close" or "empty" for a tag; "opaque" for an element that is never translated; "delimiter"
            for what ends a passage
    """

    kind: str
    raw: str
    token: Token
    text: str = ""
    """What a reader sees."""


def find_delimiters(run: Sequence[Item], two_breaks: bool = True) -> list[int]:
    """The items that end a passage: tags without a partner in the run, what encloses them, and two <br>."""
    partners: dict[int, int] = {}
    waiting: dict[str, list[int]] = {}
    opened: list[int] = []
    delimiters: set[int] = set()
    last_break = -1
    for index, item in enumerate(run):
        if item.kind == "open":
            opened.append(index)
            waiting.setdefault(item.token.name, []).append(index)
        elif item.kind == "close":
            names = waiting.get(item.token.name)
            while names and opened:
                partner = opened.pop()
                waiting[run[partner].token.name].pop()
                if run[partner].token.name == item.token.name:
                    partners[partner] = index
                    break
        if item.token.name == "br" and two_breaks:
            if last_break >= 0:
                delimiters |= {last_break, index}
            last_break = index
        elif item.kind != "text" or item.raw.strip():
            last_break = -1
        if item.kind == "delimiter":
            delimiters.add(index)
    paired = partners.keys() | set(partners.values())
    delimiters |= {n for n, item in enumerate(run) if item.kind in ("open", "close") and n not in paired}
    if delimiters:
        ordered = sorted(delimiters)
        for start, end in partners.items():
            first = bisect_left(ordered, start)
            if first < len(ordered) and ordered[first] < end:
                delimiters |= {start, end}
    return sorted(delimiters)


class PassageBuilder:
    """Puts inline content together: plain text, elements, parts that are never translated, entities."""

    def __init__(self, reads_entities: bool = True, is_wrapped: bool = False) -> None:
        """`is_wrapped`: a line break does not end a sentence, but an item of a list does."""
        self._reads_entities, self._is_wrapped = reads_entities, is_wrapped
        self._lines: list[int] = []
        """Where line breaks are."""
        self.opens: list[Markup] = []
        self.closes: list[str] = []
        self.entities: dict[str, str] = {}
        """Characters that are written as an entity here."""
        self._texts: list[str] = []
        self._length = 0
        self._elements: list[Element] = []
        self._opened: list[int] = []
        self._opaque: list[Protected] = []
        self._breaks: set[int] = set()
        self._visible: list[int] = []

    def passage(self, options: ReadOptions) -> Passage:
        text = "".join(self._texts)
        spaced = {
            number
            for number in self._visible
            if (start := self._elements[number].start) and text[start - 1 : start + 1].isspace() and start < len(text)
        }
        ends = [place for place in self._lines if ends_line(text, place, self._is_wrapped)]
        return Passage(text, options, self._elements, self._opaque, self._breaks, spaced, collapse=True, ends=ends)

    def add(self, item: Item, markup: Markup) -> None:
        """Any piece; `markup` is what is written for a tag."""
        if item.kind == "text":
            copied = 0
            for match in _ENTITY.finditer(item.raw) if self._reads_entities else ():
                character = html.unescape(match[0])
                if len(character) == 1 and match[0].endswith(";"):
                    self.entities.setdefault(character, match[0])
                self.add_plain(item.raw[copied : match.start()])
                self.add_plain(character)
                copied = match.end()
            self.add_plain(item.raw[copied:])
        elif item.kind == "opaque":  # it is never translated, but a model reads its text
            start, words = self._length, item.text.split()
            self.add_plain(" ".join(words))
            # What is written is the markup; "_" makes it one word.
            self._opaque.append(Protected(start, self._length, "_".join(words), markup=item.raw))
        elif item.kind == "close":
            self.close(item.raw)
        else:
            self.open(markup, item)

    def add_plain(self, text: str) -> None:
        """Text without entities."""
        if text:
            self._texts.append(text)
            self._length += len(text)

    def open(self, markup: Markup, item: Item) -> None:
        """An opening tag, an empty element or a comment. <br> between two words is a blank."""
        if item.token.name == "br" and self._texts and not self._texts[-1][-1].isspace():
            self.add_plain("\n")
            self._breaks.add(len(self.opens))
        self._lines += [self._length] if item.token.name == "br" else []
        number = len(self.opens)
        self._elements.append(Element(self._length, self._length, self._opened[-1] if self._opened else -1))
        self.opens.append(markup)
        self.closes.append("")
        if item.kind == "open":
            self._opened.append(number)
        elif item.token.kind == "open" and item.token.name not in ("br", "wbr"):
            self._visible.append(number)

    def close(self, raw: str) -> None:
        """The closing tag of the element that was opened last."""
        number = self._opened.pop()
        self.closes[number] = raw
        self._elements[number] = replace(self._elements[number], end=self._length)
