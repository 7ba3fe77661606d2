"""XML: checked by expat, read as tokens whose texts joined are the file, and written by paragraph.

A paragraph is what is translated as a whole. One whose text does not change keeps its bytes. Broken XML, deep nesting
and a document type that could define entities are refused, and so are unusual prefixes, since names are compared with
their usual prefix.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from itertools import islice
from xml.parsers.expat import ExpatError, ParserCreate

from regard.documents.markup import LETTER, Item, PassageBuilder, Token, collect, find_delimiters
from regard.documents.passage import Markup, ReadOptions, Slot, TemplateDocument, fill
from regard.documents.segment import SegmentTranslation
from regard.documents.tables import TABLES
from regard.errors import UserError

MAX_DEPTH = 256
MAX_NESTED = 20
"""How deep elements, and paragraphs in notes and text boxes of other paragraphs, may be nested."""
PREFIXES: dict[str, str] = TABLES["prefixes"]
"""Namespaces with text, and how they are declared."""
CONTROLS = [*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF]
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"} | dict.fromkeys(map(chr, CONTROLS), "")
"""How text is written; XML has no control characters."""
ESCAPES = str.maketrans(ENTITIES)
_CDATA = "<![CDATA["
_TOKEN = re.compile(
    r"""<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<(/?)([^\s/>]++)[^"'>]*+(?:(?:"[^"]*+"|'[^']*+')[^"'>]*+)*+>|[^<]++""",
    re.DOTALL,
)
_NAMESPACE = re.compile(r"""\s(xmlns(?::[\w.-]+)?)\s*=\s*["']([^"'<>]*)""")
_ATTRIBUTE = re.compile(r"""([^\s=<"']+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")


class XmlToken(Token):
    """A tag, a text or a comment; CDATA is text."""

    @property
    def is_empty(self) -> bool:
        return self.raw.endswith("/>")

    def get(self, name: str) -> str:
        return next((unescape(a or b) for key, a, b in _ATTRIBUTE.findall(self.raw) if key.lower() == name), "")


def tokenize_xml(text: str) -> Iterator[XmlToken]:
    """The tokens of XML that `check_xml` has checked."""
    for match in _TOKEN.finditer(text):
        raw, name = match[0], match[2]
        if name is None:
            yield XmlToken("text" if raw[0] != "<" or raw.startswith(_CDATA) else "other", raw)
        elif name[0] == "!":
            yield XmlToken("other", raw)
        else:
            yield XmlToken("close" if match[1] else "open", raw, name.lower())


def visible_text(tokens: Iterable[Token]) -> str:
    """What a reader sees of the texts among some tokens."""
    raws = (token.raw for token in tokens if token.kind == "text")
    return "".join(raw[len(_CDATA) : -3] if raw.startswith(_CDATA) else unescape(raw) for raw in raws)


def check_xml(text: str, name: str) -> None:
    """Raise a UserError if a text is not well-formed XML that can be read safely."""
    opened: list[str] = []

    def start(element: str, _: Mapping[str, str]) -> None:
        opened.append(element)
        if len(opened) > MAX_DEPTH:
            raise damaged(f"{name} has more than {MAX_DEPTH} nested elements", "too-deep")

    def doctype(_: str, system: str | None, public: str | None, has_subset: int) -> None:
        if has_subset:
            raise damaged(f"{name} has a document type of its own")

    parser = ParserCreate("utf-8")
    parser.StartElementHandler, parser.StartDoctypeDeclHandler = start, doctype
    parser.EndElementHandler = lambda _: opened.pop()
    try:
        parser.Parse(text.encode(), True)
    except ExpatError as error:
        raise damaged(f"{name} is not well-formed XML: {error}") from error
    declared = set(_NAMESPACE.findall(text))
    for namespace, prefix in PREFIXES.items():
        others = [key for key, value in declared if value == namespace]
        if others and prefix not in others:
            raise damaged(f"{name} declares {namespace} as {', '.join(others)} instead of {prefix}")


def check_level(level: int) -> None:
    """Raise a UserError if paragraphs are nested too deeply."""
    if level > MAX_NESTED:
        raise damaged(f"it has more than {MAX_NESTED} paragraphs inside of each other", "too-deep")


def damaged(problem: str, code: str = "damaged-file") -> UserError:
    """The error of a file that cannot be used."""
    problem, remedy = f"the file cannot be used: {problem}", "save it again with the program that made it"
    return UserError(problem, remedy, code=code, where="file")


def join_raw(items: Iterable[Item | Token]) -> str:
    """Tokens or items exactly as they are written."""
    return "".join(item.raw for item in items)


# ---- paragraphs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class XmlItem(Item):
    """A piece of a paragraph: as it is written alone, which may contain passages, and the formatting of text."""

    markup: Markup = ()
    properties: str = ""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph: exactly as it is written, its markup with the numbers of its passages, and all passages in it."""

    raw: str
    markup: Markup
    slots: range


class XmlDocument(TemplateDocument):
    """An XML file; the numbers in its template are those of paragraphs."""

    def __init__(self, template: Sequence[str | int], slots: Sequence[Slot], paragraphs: Sequence[Paragraph]) -> None:
        super().__init__(template, slots)
        self.paragraphs = paragraphs

    def render(self, translations: Sequence[SegmentTranslation]) -> str:
        """The translated file; paragraphs whose text does not change stay as they are."""
        remaining, rendered, is_changed = iter(translations), list[str](), list[bool]()
        for slot, count in zip(self.slots, self._counts, strict=True):
            own = list(islice(remaining, count))
            is_changed.append(slot.passage.join(own).text != slot.passage.text)
            rendered.append(slot.passage.render(own, slot.tags(rendered)))
        texts = [
            fill(item.markup, rendered) if any(is_changed[number] for number in item.slots) else item.raw
            for item in self.paragraphs
        ]
        return fill(self.template, texts)


@dataclass
class XmlReader:
    """Reads one XML file; the subclasses know what a paragraph is."""

    options: ReadOptions
    template: list[str | int] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    paragraphs: list[Paragraph] = field(default_factory=list)

    def read(self, xml: str) -> XmlDocument:
        """Read XML that `check_xml` has checked."""
        self.read_tokens(tokenize_xml(xml))
        return XmlDocument(self.template, self.slots, self.paragraphs)

    def read_tokens(self, tokens: Iterator[Token]) -> None:
        """Read all tokens; every subclass has its way."""

    def add_paragraph(self, raw: str, markup: Markup, first: int) -> None:
        """Add a paragraph with the passages from number `first` on."""
        if first == len(self.slots):
            self.template.append(raw)
        else:
            self.template.append(len(self.paragraphs))
            self.paragraphs.append(Paragraph(raw, markup, range(first, len(self.slots))))

    def split(self, items: Sequence[XmlItem]) -> Markup:
        """The markup of items: passages, and what ends them."""
        markup: list[str | int] = []
        start = 0
        for index in [*find_delimiters(items, two_breaks=False), len(items)]:
            part = items[start:index]
            has_words = any(item.kind == "text" and LETTER.search(item.text) for item in part)
            slot = self.make_slot(part) if has_words else None
            if slot is not None:
                markup.append(len(self.slots))
                self.slots.append(slot)
            else:
                markup += [piece for item in part for piece in item.markup]
            markup += items[index].markup if index < len(items) else ()
            start = index + 1
        return tuple(markup)

    def make_slot(self, items: Sequence[XmlItem]) -> Slot | None:
        """The slot of a passage; None if there is nothing to translate."""
        builder = PassageBuilder()
        for item in items:
            if item.kind == "text":
                builder.add_plain(item.text)
            else:
                builder.add(item, item.markup)
        passage = builder.passage(self.options)
        return Slot(passage, ENTITIES, builder.opens, builder.closes) if passage.is_changed else None


# ---- mixed content ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Vocabulary:
    """The names of elements: paragraphs, tags around words, what ends a passage, what is never translated, and fields.

    The text of a field is read by the model, and its element is copied.
    """

    paragraphs: frozenset[str]
    inline: frozenset[str] = frozenset()
    breaks: frozenset[str] = frozenset()
    untouched: frozenset[str] = frozenset()
    fields: re.Pattern[str] = re.compile(r"(?!)")


@dataclass
class MixedReader(XmlReader):
    """Reads XML whose paragraphs contain text and tags in any order, as HTML does."""

    words: Vocabulary = Vocabulary(frozenset())

    def read_tokens(self, tokens: Iterator[Token]) -> None:
        for token in tokens:
            element, first = self.read_block(token, tokens), len(self.slots)
            self.add_paragraph(join_raw(element), self.read_inside(element), first)

    def read_block(self, token: Token, tokens: Iterator[Token]) -> Sequence[Token]:
        """All tokens of a paragraph, or of an element that is never translated; any other token."""
        is_block = token.kind == "open" and token.name in self.words.paragraphs | self.words.untouched
        return collect(token, tokens)[0] if is_block else [token]

    def read_inside(self, element: Sequence[Token], level: int = 0) -> Markup:
        """The markup of an element with paragraphs in it, or of a paragraph."""
        check_level(level)
        if element[0].name in self.words.untouched or len(element) == 1:
            return (join_raw(element),)
        if element[0].name in self.words.paragraphs:
            return (element[0].raw, *self.read_inline(element[1:-1], level), element[-1].raw)
        tokens = iter(element[1:])
        parts = (self.read_inside(self.read_block(token, tokens), level + 1) for token in tokens)
        return (element[0].raw, *(piece for part in parts for piece in part))

    def read_inline(self, content: Iterable[Token], level: int = 0) -> Markup:
        """The markup of a paragraph's content."""
        return self.split(list(self.read_items(iter(content), level)))

    def read_items(self, tokens: Iterator[Token], level: int) -> Iterator[XmlItem]:
        """The pieces of a paragraph."""
        for token in tokens:
            is_kept = token.name != "" and (token.get("translate") == "no" or token.get("mtype") == "protected")
            if token.name in self.words.inline and not token.is_empty and not is_kept:
                yield XmlItem(token.kind, token.raw, token, markup=(token.raw,))
            elif token.name:
                yield self.read_element(collect(token, tokens)[0], is_kept, level)
            else:
                kind = "text" if token.kind == "text" else "empty"
                yield XmlItem(kind, token.raw, token, visible_text([token]), (token.raw,))

    def read_element(self, element: Sequence[Token], is_kept: bool, level: int) -> XmlItem:
        """Classify an inline element: "delimiter" for a break, "opaque" for a field or kept text, else "empty"."""
        first, raw = element[0], join_raw(element)
        if first.name in self.words.breaks:
            return XmlItem("delimiter", raw, Token("other", raw), markup=(raw,))
        if any(token.name in self.words.paragraphs for token in element):
            return XmlItem("empty", raw, first, markup=self.read_inside(element, level + 1))
        text = visible_text(element)
        is_field = text.strip() and (is_kept or self.words.fields.match(first.name))
        return XmlItem("opaque" if is_field else "empty", raw, first, text, (raw,))
