"""HTML as tokens: tags, comments and text, each exactly as it is written.

The tokens of a page joined are the page. Broken markup never fails: what is no tag is text, as in a browser. Every
character is read a bounded number of times.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from regard.documents.sentences import Span

VOID = frozenset(re.findall(r"\w+", "area base br col embed hr img input link meta param source track wbr"))
RAW_TEXT = frozenset(re.findall(r"\w+", "script style textarea xmp iframe noembed noframes plaintext"))
"""Elements with text in which no tags are read."""

_NAME = re.compile(r"<(/?)([A-Za-z][^\s/>]*|\d+(?=\s*/?>))")
_ATTRIBUTE = re.compile(
    r"""(=?[^\s/>=]*+)(?:\s*+=\s*+(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s>"'][^\s>]*)))?"""
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
    if page.startswith("<![CDATA[", place):
        end = page.find("]]>", place)
        return Token("other", page[place : end + 3 if end >= 0 else len(page)])
    if page.startswith(("<!", "<?"), place):
        end = page.find(">", place)
        return Token("other", page[place : end + 1 if end >= 0 else len(page)])
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
