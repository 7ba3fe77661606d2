"""Zip archives of XML: .docx, .pptx, .odt, .odp and .epub. What is not text stays, member by member.

Archives are checked before they are unpacked: number of entries, sizes, and how much they are compressed. Members keep
their order, names, dates and compression, and those without text their bytes.
"""

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from urllib.parse import unquote

from regard.documents.encoded import EncodedDocument, TextDocument, decode
from regard.documents.html import HtmlReader
from regard.documents.markup import Token, names
from regard.documents.ooxml import DRAWING, RunReader
from regard.documents.passage import ReadOptions
from regard.documents.segment import Segment, SegmentTranslation
from regard.documents.xml import ENTITIES, MixedReader, Vocabulary, check_xml, damaged, tokenize_xml

MAX_ENTRIES, MAX_TOTAL, MAX_PART, MAX_RATIO = 5_000, 200_000_000, 30_000_000, 200
SMALL = 10_000_000
"""Bytes below which it does not matter how much an archive is compressed."""
Reader = Callable[[str, ReadOptions], TextDocument]
Choose = Callable[[Mapping[str, bytes]], Mapping[str, Reader]]
"""Reads the text of a member; finds the members with text, and how each is read."""


class ArchiveDocument:
    """An archive, and a document for each member with text."""

    def __init__(self, content: bytes, options: ReadOptions, choose: Choose) -> None:
        self.comment, self.entries = read_archive(content)
        self.documents: dict[str, EncodedDocument] = {}
        members = {entry.filename: data for entry, data in self.entries}
        for name, read in choose(members).items():
            text, encoding, bom = decode_member(members, name)
            self.documents[name] = EncodedDocument(read(text, options), encoding, bom, "xmlcharrefreplace")
        self.segments: list[Segment] = [item for document in self.documents.values() for item in document.segments]

    def render(self, translations: Sequence[SegmentTranslation]) -> bytes:
        """The archive with translated texts; all other members are the same."""
        buffer, used, texts = io.BytesIO(), 0, dict[str, bytes]()
        for name, document in self.documents.items():
            count = len(document.segments)
            texts[name] = document.render(translations[used : used + count])
            used += count
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.comment = self.comment
            for entry, data in self.entries:
                archive.writestr(copy(entry), texts.get(entry.filename, data))
        return buffer.getvalue()


def read_archive(content: bytes) -> tuple[bytes, list[tuple[zipfile.ZipInfo, bytes]]]:
    """The comment of an archive, and its entries and their content; a UserError if it is damaged, or too large."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries, contents = archive.infolist(), list[bytes]()
            count, total = len(entries), sum(entry.file_size for entry in entries)
            is_bomb = total > SMALL and total > MAX_RATIO * len(content)
            if count > MAX_ENTRIES or total > MAX_TOTAL or is_bomb:
                raise damaged(f"its {count:,} entries have {total:,} bytes unpacked", "too-large")
            if len({entry.filename for entry in entries}) < count:
                raise damaged("two of its entries have the same name")
            for entry in entries:  # at most as much as it says itself
                with archive.open(entry) as stream:
                    contents.append(stream.read(entry.file_size + 1))
                if len(contents[-1]) != entry.file_size:
                    raise damaged(f"the size of {entry.filename!r} is not what the archive says", "too-large")
            return archive.comment, list(zip(entries, contents, strict=True))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise damaged(f"it is not a zip archive that can be read: {error}") from error


def decode_member(members: Mapping[str, bytes], name: str) -> tuple[str, str, bytes]:
    """The text of an XML member, its encoding and its byte order mark."""
    if name not in members:
        raise damaged(f"it has no {name}")
    if len(members[name]) > MAX_PART:
        raise damaged(f"{name} has {len(members[name]):,} bytes", "too-large")
    text, encoding, bom = decode(members[name], name, is_markup=True)
    check_xml(text, name)
    return text, encoding, bom


# ---- formats ---------------------------------------------------------------------------------------------------------

OPEN_DOCUMENT = Vocabulary(
    paragraphs=names("text:p text:h"),
    inline=names("text:span text:a text:meta"),
    breaks=names("text:line-break text:tab"),
    untouched=names("text:tracked-changes office:annotation"),
    fields=re.compile(r"text:(?!note|ruby)"),
)
CONTENTS = Vocabulary(paragraphs=names("text"))
"""The table of contents of an old .epub file, toc.ncx."""


def read_drawing(text: str, options: ReadOptions) -> TextDocument:
    return RunReader(options, words=DRAWING).read(text)


def read_page(text: str, options: ReadOptions) -> TextDocument:
    page = HtmlReader(options).read(text)
    page.slots = [replace(slot, entities={**ENTITIES, **slot.entities}) for slot in page.slots]  # a page that is XML
    return page


PAGES: dict[str, Reader] = {
    "application/xhtml+xml": read_page,
    "application/x-dtbncx+xml": lambda text, options: MixedReader(options, words=CONTENTS).read(text),
}
DRAWINGS = r"(?:slides/slide|notesSlides/notesSlide|diagrams/(?:data|drawing)|charts/chart)\d+\.xml"
WORDS = r"word/(?:document\d*|header\d*|footer\d*|footnotes|endnotes)\.xml"
WORD_PARTS: dict[str, Reader] = {
    WORDS: lambda text, options: RunReader(options).read(text),
    f"word/{DRAWINGS}": read_drawing,
}
SLIDE_PARTS: dict[str, Reader] = {f"ppt/{DRAWINGS}": read_drawing}
OPEN_DOCUMENT_PARTS: dict[str, Reader] = {
    r"(?:content|styles)\.xml": lambda text, options: MixedReader(options, words=OPEN_DOCUMENT).read(text)
}


def choose_parts(required: str, readers: Mapping[str, Reader], members: Mapping[str, bytes]) -> dict[str, Reader]:
    """The members whose names match a pattern; one must match the required pattern."""
    if not any(re.fullmatch(required, name) for name in members):
        raise damaged(f"it has no {required}".replace("\\", "").replace("d*", ""))
    return {name: read for name in members for part, read in readers.items() if re.fullmatch(part, name)}


def choose_pages(members: Mapping[str, bytes]) -> dict[str, Reader]:
    """The pages that the package of a book lists, and its old table of contents."""
    found: dict[str, Reader] = {}
    for root in find_elements(members, "META-INF/container.xml", "rootfile"):
        package = root.get("full-path")
        for item in find_elements(members, package, "item"):
            name = posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(item.get("href"))))
            if item.get("media-type") in PAGES and name in members:
                found[name] = PAGES[item.get("media-type")]
    return found


def find_elements(members: Mapping[str, bytes], member: str, name: str) -> list[Token]:
    """The opening tags of a name, with any prefix, in a member."""
    tokens = tokenize_xml(decode_member(members, member)[0])
    return [token for token in tokens if token.kind == "open" and token.name.rpartition(":")[2] == name]


CHOOSE: dict[str, Choose] = {
    ".docx": partial(choose_parts, r"word/document\d*\.xml", WORD_PARTS),
    ".pptx": partial(choose_parts, r"ppt/presentation\.xml", SLIDE_PARTS),
    ".odt": partial(choose_parts, r"content\.xml", OPEN_DOCUMENT_PARTS),
    ".odp": partial(choose_parts, r"content\.xml", OPEN_DOCUMENT_PARTS),
    ".epub": choose_pages,
}
