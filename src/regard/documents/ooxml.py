"""Word (.docx) and PowerPoint (.pptx): paragraphs of runs; everything else stays.

A paragraph <w:p> is a list of runs <w:r>: text of one formatting <w:rPr>. In PowerPoint it is <a:p>, <a:r>, <a:rPr>.

    <w:p><w:r><w:t>Click </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>here</w:t></w:r></w:p>

The formatting of most characters of a paragraph is its base; other runs are inline elements of it, so that bold words
move with their translation. Links and fields are elements too. Pictures, notes, bookmarks and deleted text are empty
elements. A tab, a line break or a page break ends a passage.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from regard.documents.markup import Item, PassageBuilder, Token, collect, names
from regard.documents.passage import Markup, Slot, fill
from regard.documents.tables import TABLES
from regard.documents.xml import ESCAPES, XmlItem, XmlReader, check_level, join_raw, visible_text


@dataclass(frozen=True)
class RunVocabulary:
    """The names of elements in a paragraph, and formatting that a reader does not see: language, proofing, fonts."""

    prefix: str
    text_tag: str
    unseen: re.Pattern[str]
    whole: frozenset[str]  # copied with all that is in them
    wrappers: frozenset[str] = frozenset()
    empty: frozenset[str] = frozenset()
    breaks: frozenset[str] = frozenset()

    def write_run(self, properties: str, content: Markup) -> Markup:
        return (f"<{self.prefix}:r>{properties}", *content, f"</{self.prefix}:r>")

    def write_text(self, properties: str, text: str) -> str:
        content = f"<{self.text_tag}>{text.translate(ESCAPES)}</{self.prefix}:t>"
        return fill(self.write_run(properties, (content,)), ()) if text else ""

    def format_key(self, properties: str) -> str:
        """Formatting without what a reader does not see."""
        visible = self.unseen.sub("", properties)
        return "" if re.fullmatch(r"<\w:rPr(?:/>|></\w:rPr>)", visible) else visible


WORD = RunVocabulary(
    "w",
    'w:t xml:space="preserve"',
    re.compile(r'<w:(?:lang|noProof)\b[^<>]*/>|\sw:hint="[^"]*"'),
    whole=names("w:del w:movefrom m:omath"),
    wrappers=names("w:hyperlink w:ins w:moveto w:smarttag w:fldsimple"),
    empty=names(TABLES["word_empty"]),
)
_UNSEEN = re.compile(r'\s(?:lang|altLang|dirty|err|smtClean|noProof|bmk)="[^"]*"')
DRAWING = RunVocabulary("a", "a:t", _UNSEEN, whole=names("a:fld"), breaks=names("a:br"))


@dataclass(frozen=True)
class RunSlot(Slot):
    """A passage of a paragraph: the formatting of its elements (None if they have none), and of all other text."""

    words: RunVocabulary = WORD
    formats: Sequence[str | None] = ()
    base: str = ""

    def tags(self, rendered: Sequence[str]) -> "RunTags":
        return RunTags(self, rendered)


@dataclass
class RunTags:
    """How text of a paragraph is written: in runs, with the formatting of the innermost element around it."""

    slot: RunSlot
    rendered: Sequence[str]
    stack: list[str] = field(default_factory=list)

    def text(self, text: str) -> str:
        return self.slot.words.write_text(self.stack[-1] if self.stack else self.slot.base, text)

    def open(self, element: int) -> str:
        properties = self.slot.formats[element]
        if properties is not None:
            self.stack.append(properties)
        return fill(self.slot.opens[element], self.rendered)

    def close(self, element: int) -> str:
        if self.slot.formats[element] is not None:
            self.stack.pop()
        return self.slot.closes[element]


@dataclass
class RunReader(XmlReader):
    """Reads XML whose paragraphs are runs."""

    words: RunVocabulary = WORD
    level: int = 0
    items: list[XmlItem] = field(default_factory=list)
    is_inside: bool = False  # in a paragraph

    def __post_init__(self) -> None:
        self.first = len(self.slots)

    def read_tokens(self, tokens: Iterator[Token]) -> None:
        words = self.words
        for token in tokens:
            is_open = self.is_inside and token.kind == "open"
            if is_open and token.name == f"{words.prefix}:r" and not token.is_empty:
                self.items += read_run(collect(token, tokens)[0], words, self.read_nested)
            elif self.is_inside and token.name in words.wrappers and not token.is_empty:
                self.items.append(XmlItem(token.kind, token.raw, token, markup=(token.raw,)))
            elif is_open and token.name in words.whole | words.breaks:
                raw = join_raw(collect(token, tokens)[0])
                kind = "empty" if token.name in words.whole else "delimiter"
                self.items.append(XmlItem(kind, raw, Token("other", ""), markup=(raw,)))
            elif self.items and (token.name in words.empty or token.name == ""):
                markup = () if token.kind == "text" else (token.raw,)
                self.items.append(XmlItem("empty", token.raw, Token("other", ""), markup=markup))
            else:
                self.flush()
                self.template.append(token.raw)
                if token.name == f"{words.prefix}:p" and not token.is_empty:
                    self.is_inside = token.kind == "open"
        self.flush()

    def read_nested(self, element: Sequence[Token]) -> Markup:
        """The markup of an element in a run: a text box has paragraphs of its own."""
        if not any(token.name == f"{self.words.prefix}:p" for token in element):
            return (join_raw(element),)
        check_level(self.level)
        reader = RunReader(self.options, slots=self.slots, words=self.words, level=self.level + 1)
        reader.read_tokens(iter(element))
        return tuple(
            piece
            for item in reader.template
            for piece in (reader.paragraphs[item].markup if isinstance(item, int) else (item,))
        )

    def flush(self) -> None:
        """End a paragraph, or the part of it before other elements."""
        items, self.items = list(join_fields(self.items)), []
        self.add_paragraph(join_raw(items), self.split(items), self.first)
        self.first = len(self.slots)

    def make_slot(self, items: Sequence[XmlItem]) -> RunSlot | None:
        """The slot of a part of a paragraph: each formatting but the most frequent one is an element."""
        sizes: Counter[str] = Counter()
        looks: dict[str, str] = {}
        for item in items:
            if item.kind == "text":
                key = self.words.format_key(item.properties)
                sizes[key] += len(item.text)
                looks.setdefault(key, item.properties)
        base = sizes.most_common(1)[0][0]
        builder, formats, current = PassageBuilder(), list[str | None](), base
        for item in items:
            key = base if item.kind in ("open", "close") else current
            key = self.words.format_key(item.properties) if item.kind == "text" else key
            if key != current:
                if current != base:
                    builder.close("")
                if key != base:
                    builder.open((), Item("open", "", Token("other", "")))
                    formats.append(looks[key])
                current = key
            if item.kind == "text":
                builder.add_plain(item.text)
            elif item.kind == "close":
                builder.close(fill(item.markup, ()))
            else:
                builder.open(item.markup, item)
                formats.append(None)
        if current != base:
            builder.close("")
        passage = builder.passage(self.options)
        slot = RunSlot(passage, {}, builder.opens, builder.closes, self.words, formats, looks[base])
        return slot if passage.is_changed else None


# ---- runs and fields -------------------------------------------------------------------------------------------------


def read_run(
    run: Sequence[Token], words: RunVocabulary, read_nested: Callable[[Sequence[Token]], Markup]
) -> Iterator[XmlItem]:
    """The pieces of a run: text, breaks and others, each with the formatting of the run."""
    inside = iter(run[1:-1])
    start, properties = run[0].raw, ""
    pieces: list[XmlItem] = []
    for token in inside:
        child = collect(token, inside)[0] if token.kind == "open" else [token]
        raw = join_raw(child)
        if token.name == f"{words.prefix}:rpr":
            properties = raw
            start += raw
        elif token.name == f"{words.prefix}:t":
            text = visible_text(child)
            written = (words.write_text(properties, text),)
            pieces.append(XmlItem("text", raw, Token("text", ""), text, written, properties))
            comments = (item.raw for item in child if item.kind == "other")
            pieces += (XmlItem("empty", "", Token("other", ""), markup=(comment,)) for comment in comments)
        elif token.kind == "text" and pieces:  # blanks between elements
            pieces[-1] = replace(pieces[-1], raw=pieces[-1].raw + raw)
        elif token.kind == "text":
            start += raw
        else:
            kind, name = piece_kind(token)
            markup = words.write_run(properties, read_nested(child))
            pieces.append(XmlItem(kind, raw, Token("open", raw, name), markup=markup))
    for index, piece in enumerate(pieces):
        before, after = start if index == 0 else "", run[-1].raw if index == len(pieces) - 1 else ""
        yield replace(piece, raw=before + piece.raw + after)
    if not pieces:
        raw = start + run[-1].raw
        yield XmlItem("empty", raw, Token("other", ""), markup=(raw,))


def piece_kind(token: Token) -> tuple[str, str]:
    """The kind of a child of a run, and the name that says what it does in a passage."""
    if token.name in ("w:br", "w:cr", "w:tab", "w:ptab"):
        return "delimiter", ""
    if token.name == "w:fldchar":
        return "empty", f"field {token.get('w:fldchartype')}"
    return "empty", "field instruction" if token.name == "w:instrtext" else "other"


def join_fields(items: Sequence[XmlItem]) -> Iterator[XmlItem]:
    """Fields as elements: begin, instruction and separate are one opening tag, end is the closing tag.

    A field without text is one empty element. A field that goes on in another paragraph ends passages.
    """
    header: list[XmlItem] = []
    level = 0
    for item in items:
        name = item.token.name
        level += (name == "field begin") - (name == "field end" and level > 0)
        if not header and name == "field end":
            yield replace(item, kind="close", token=Token("close", "", "field"))
        elif header or name == "field begin":
            header.append(item)
            if level == 0 or (level == 1 and name == "field separate"):
                kind = "open" if level else "empty"
                markup = tuple(piece for part in header for piece in part.markup)
                yield XmlItem(kind, join_raw(header), Token("open", "", "field"), markup=markup)
                header, level = [], 0
        else:
            yield item
    yield from (replace(item, kind="delimiter") for item in header)
