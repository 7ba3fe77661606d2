"""Word files (.docx): text of the body, tables, headers, footers, notes and text boxes; everything else stays.

A .docx file is a zip archive of XML. A paragraph <w:p> is a list of runs <w:r>: text of one formatting <w:rPr>.

    <w:p><w:r><w:t>Click </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>here</w:t></w:r></w:p>

The formatting of most characters of a paragraph is its base; other runs are inline elements of it, so that bold words
move with their translation. Links and fields are elements too. Pictures, notes and bookmarks are empty elements. A tab
or a page break ends a passage. Archives are checked before they are unpacked: number of entries, sizes, and how much
they are compressed. Entities are not read.
"""

import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from itertools import chain

from regard.documents.markup import LETTER, Item, PassageBuilder, Token, collect, find_delimiters, names, tokenize
from regard.documents.passage import ReadOptions, Slot, TemplateDocument, fill
from regard.documents.segment import Segment, SegmentTranslation
from regard.errors import UserError

PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml\Z")
MAX_ENTRIES, MAX_TOTAL, MAX_PART, MAX_RATIO = 5_000, 200_000_000, 30_000_000, 200
SMALL = 10_000_000
"""Bytes below which it does not matter how much an archive is compressed."""
MAX_NESTED = 20
WRAPPERS = names("w:hyperlink w:ins w:smarttag w:fldsimple")
EMPTY = names("w:bookmarkstart w:bookmarkend w:prooferr w:commentrangestart w:commentrangeend w:permstart w:permend")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def escape(text: str) -> str:
    """Text as it is written in XML; control characters cannot be."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "", text).translate(_ESCAPES)


def write_run(properties: str, content: str) -> str:
    """A run of one formatting."""
    return f"<w:r>{properties}{content}</w:r>"


def write_text(properties: str, text: str) -> str:
    """A run of text."""
    return write_run(properties, f'<w:t xml:space="preserve">{escape(text)}</w:t>') if text else ""


@dataclass(frozen=True)
class DocxItem(Item):
    """A piece of a paragraph.

    raw          exactly as it is written; several pieces of one run have parts of it
    markup       as it is written alone
    properties   the formatting of text, <w:rPr>
    """

    markup: str = ""
    properties: str = ""


@dataclass(frozen=True)
class DocxSlot(Slot):
    """A passage of a paragraph: the formatting of its elements (None if they have none), and of all other text."""

    formats: Sequence[str | None] = ()
    base: str = ""

    def tags(self, rendered: Sequence[str]) -> "RunTags":
        return RunTags(self)


@dataclass
class RunTags:
    """How text of a paragraph is written: in runs, with the formatting of the innermost element around it."""

    slot: DocxSlot
    stack: list[str] = field(default_factory=list)

    def text(self, text: str) -> str:
        return write_text(self.stack[-1] if self.stack else self.slot.base, text)

    def open(self, element: int) -> str:
        properties = self.slot.formats[element]
        if properties is not None:
            self.stack.append(properties)
        return fill(self.slot.opens[element], ())

    def close(self, element: int) -> str:
        if self.slot.formats[element] is not None:
            self.stack.pop()
        return self.slot.closes[element]


class DocxReader:
    """Reads one XML file of an archive."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.template: list[str | int] = []
        self.slots: list[Slot] = []
        self.items: list[DocxItem] = []
        self.paragraphs = 0

    def read(self, xml: str) -> TemplateDocument:
        """Read all tokens; a run with a text box in it is read like other tags around paragraphs."""
        tokens: Iterator[Token] = tokenize(xml)
        while (token := next(tokens, None)) is not None:
            if token.name == "w:r" and token.kind == "open" and self.paragraphs and not token.is_empty:
                run, _ = collect(token, tokens)
                if any(item.name == "w:p" for item in run):
                    self.add_literal(token)
                    tokens = chain(run[1:], tokens)
                else:
                    self.items += read_run(run)
            elif token.name in WRAPPERS and self.paragraphs and not token.is_empty:
                self.items.append(DocxItem(token.kind, token.raw, token, markup=token.raw))
            elif self.items and (token.name in EMPTY or (token.kind != "open" and token.name == "")):
                markup = "" if token.kind == "text" else token.raw
                self.items.append(DocxItem("empty", token.raw, Token("other", ""), markup=markup))
            else:
                self.add_literal(token)
        self.flush()
        return TemplateDocument(self.template, self.slots)

    def add_literal(self, token: Token) -> None:
        """What is outside of the text of a paragraph."""
        self.flush()
        self.template.append(token.raw)
        if token.name == "w:p" and not token.is_empty:
            self.paragraphs += 1 if token.kind == "open" else -1
        if self.paragraphs > MAX_NESTED:
            raise damaged(f"it has more than {MAX_NESTED} text boxes inside of each other", "too-deep")

    def flush(self) -> None:
        """End a passage."""
        items, self.items = list(join_fields(self.items)), []
        if not any(item.kind == "text" and LETTER.search(item.text) for item in items):
            self.template += [item.raw for item in items]
            return
        start = 0
        for index in [*find_delimiters(items, two_breaks=False), len(items)]:
            self.add_passage(items[start:index])
            if index < len(items):
                self.template.append(items[index].markup)
            start = index + 1

    def add_passage(self, items: Sequence[DocxItem]) -> None:
        """A passage; its runs only if there is nothing to translate."""
        slot = make_slot(items, self.options) if any(LETTER.search(item.text) for item in items) else None
        if slot is None:
            self.template += [item.markup for item in items]
        else:
            self.template.append(len(self.slots))
            self.slots.append(slot)


def make_slot(items: Sequence[DocxItem], options: ReadOptions) -> DocxSlot | None:
    """The slot of a part of a paragraph: each formatting but the most frequent one is an element."""
    sizes: Counter[str] = Counter()
    looks: dict[str, str] = {}
    for item in items:
        if item.kind == "text":
            key = format_key(item.properties)
            sizes[key] += len(item.text)
            looks.setdefault(key, item.properties)
    base = sizes.most_common(1)[0][0]
    builder, formats, current = PassageBuilder(), list[str | None](), base
    for item in items:
        key = (
            format_key(item.properties) if item.kind == "text" else base if item.kind in ("open", "close") else current
        )
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
            builder.close(item.markup)
        else:
            builder.open((item.markup,), item)
            formats.append(None)
    if current != base:
        builder.close("")
    passage = builder.passage(options)
    slot = DocxSlot(passage, {}, builder.opens, builder.closes, formats, looks[base])
    return slot if passage.is_changed else None


def format_key(properties: str) -> str:
    """Formatting without what a reader does not see: language, proofing, hints for fonts."""
    visible = re.sub(r'<w:(?:lang|noProof)\b[^<>]*/>|\sw:hint="[^"]*"', "", properties)
    return "" if visible in ("<w:rPr></w:rPr>", "<w:rPr/>") else visible


# ---- runs and fields -------------------------------------------------------------------------------------------------


def read_run(run: Sequence[Token]) -> Iterator[DocxItem]:
    """The pieces of a run: text, breaks and others, each with the formatting of the run."""
    inside = iter(run[1:-1])
    start, properties = run[0].raw, ""
    pieces: list[DocxItem] = []
    for token in inside:
        child = collect(token, inside)[0] if token.kind == "open" else [token]
        raw = "".join(item.raw for item in child)
        if token.name == "w:rpr":
            properties = raw
            start += raw
        elif token.name == "w:t":
            text = unescape("".join(item.raw for item in child[1:-1] if item.kind == "text"))
            pieces.append(DocxItem("text", raw, Token("text", ""), text, write_text(properties, text), properties))
        elif token.kind != "text":
            kind, name = piece_kind(token, raw)
            pieces.append(DocxItem(kind, raw, Token("open", raw, name), markup=write_run(properties, raw)))
    for index, piece in enumerate(pieces):
        before, after = start if index == 0 else "", run[-1].raw if index == len(pieces) - 1 else ""
        yield replace(piece, raw=before + piece.raw + after)
    if not pieces:
        raw = start + run[-1].raw
        yield DocxItem("empty", raw, Token("other", ""), markup=raw)


def piece_kind(token: Token, raw: str) -> tuple[str, str]:
    """The kind of a child of a run, and the name that says what it does in a passage."""
    if token.name in ("w:br", "w:cr"):
        return ("delimiter", "") if token.get("w:type") in ("page", "column") else ("empty", "br")
    if token.name in ("w:tab", "w:ptab"):
        return "delimiter", ""
    if token.name == "w:fldchar":
        return "empty", f"field {token.get('w:fldchartype')}"
    return "empty", "field instruction" if token.name == "w:instrtext" else "other"


def join_fields(items: Sequence[DocxItem]) -> Iterator[DocxItem]:
    """Fields as elements: begin, instruction and separate are one opening tag, end is the closing tag.

    A field without text is one empty element. A field that goes on in another paragraph ends passages.
    """
    header: list[DocxItem] = []
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
                raw, markup = ("".join(getattr(part, side) for part in header) for side in ("raw", "markup"))
                yield DocxItem(kind, raw, Token("open", raw, "field"), markup=markup)
                header, level = [], 0
        else:
            yield item
    yield from (replace(item, kind="delimiter") for item in header)


# ---- archives --------------------------------------------------------------------------------------------------------


class DocxDocument:
    """A Word file: the archive, and a document for each XML file with text."""

    def __init__(self, content: bytes, options: ReadOptions) -> None:
        self.entries = read_archive(content)
        self.documents = {
            entry.filename: DocxReader(options).read(decode_xml(data, entry.filename))
            for entry, data in self.entries
            if PARTS.match(entry.filename)
        }
        self.segments: list[Segment] = [item for document in self.documents.values() for item in document.segments]

    def render(self, translations: Sequence[SegmentTranslation]) -> bytes:
        """The archive with translated texts; all other files in it are the same."""
        buffer, used = io.BytesIO(), 0
        with zipfile.ZipFile(buffer, "w") as archive:
            for entry, data in self.entries:
                document = self.documents.get(entry.filename)
                if document is not None:
                    count = len(document.segments)
                    data = document.render(translations[used : used + count]).encode()
                    used += count
                copy = zipfile.ZipInfo(entry.filename, entry.date_time)
                copy.compress_type, copy.external_attr = entry.compress_type, entry.external_attr
                archive.writestr(copy, data)
        return buffer.getvalue()


def read_archive(content: bytes) -> list[tuple[zipfile.ZipInfo, bytes]]:
    """The entries of an archive and their content; a UserError if it is damaged, or too large unpacked."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries, contents = archive.infolist(), list[bytes]()
            names = [entry.filename for entry in entries]
            total = sum(entry.file_size for entry in entries)
            parts = max((entry.file_size for entry in entries if PARTS.match(entry.filename)), default=0)
            is_bomb = total > SMALL and total > MAX_RATIO * len(content)
            if len(names) > MAX_ENTRIES or total > MAX_TOTAL or parts > MAX_PART or is_bomb:
                raise damaged(f"its {len(names):,} entries have {total:,} bytes unpacked", "too-large")
            if len(set(names)) < len(names):
                raise damaged("two of its entries have the same name")
            if "word/document.xml" not in names:
                raise damaged("it has no word/document.xml")
            for entry in entries:  # at most as much as it says itself
                with archive.open(entry) as stream:
                    contents.append(stream.read(entry.file_size + 1))
                if len(contents[-1]) != entry.file_size:
                    raise damaged(f"the size of {entry.filename!r} is not what the archive says", "too-large")
            return list(zip(entries, contents, strict=True))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise damaged(f"it is not a zip archive that can be read: {error}") from error


def decode_xml(data: bytes, name: str) -> str:
    """The text of an XML file in UTF-8 without a document type, which could define entities."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise damaged(f"{name} in it is not UTF-8") from error
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise damaged(f"{name} in it has a document type")
    return text


def damaged(problem: str, code: str = "damaged-file") -> UserError:
    return UserError(f"the .docx file cannot be used: {problem}", "save it again in Word", code=code, where=".docx")
