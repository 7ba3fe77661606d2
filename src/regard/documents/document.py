"""Texts and files as documents, in two phases: `segments` out, translations in.

A document holds no model and reads no file, so that a command and a server can both drive it:

    document = open_document(text, "html", language="en", glossary={"attention": "Aufmerksamkeit"})
    translations = [translate(segment) for segment in document.segments]
    page = document.render(translations)

The extension of a file name says its format; what is not text stays byte by byte:

    .txt     plain text: each line (lines.py)
    .html    a page (html.py); also .htm and .xhtml
    .srt     subtitles (lines.py)
    .po      messages of programs (lines.py)
    .docx    Word (docx.py)

Nothing is written to disk. Sizes are bounded, also those of what is packed in a file.
"""

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol

from regard.documents.html import HtmlReader
from regard.documents.lines import MessageDocument, read_subtitles, read_text
from regard.documents.passage import CharacterBudget, ReadOptions, TemplateDocument
from regard.documents.protecting import NO_TERMS, Glossary
from regard.documents.segment import Link, Segment, SegmentTranslation
from regard.errors import UserError

__all__ = ["FORMATS", "FileDocument", "Link", "Segment", "SegmentTranslation", "open_document", "open_file"]

FORMATS = ("text", "html")
MAX_CHARACTERS = 10_000_000
FILE_FORMATS = (".txt", ".html", ".srt", ".po", ".docx")
OTHER_NAMES = {".htm": ".html", ".xhtml": ".html", ".pot": ".po"}
MAX_BYTES = 50_000_000
GBK = "gbk"
"""Browsers read gb2312 as gbk, and pages rely on it."""
MARKUP = 10
"""Bytes of a text file for each character to translate, tags and times included, if their number is limited."""
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_ENCODINGS = re.compile(
    r"(?:utf-?8|utf-?16(?:-[lb]e)?|(?:us-)?ascii|latin-?1|iso-8859-\d+|(?:windows-|cp)\d+|gb\w+|big5\w*|shift_jis|euc-\w+)\Z",
    re.IGNORECASE,
)
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)


class FileDocument(Protocol):
    """A file: the sentences to translate, and the file with their translations in place."""

    @property
    def segments(self) -> Sequence[Segment]:
        """The sentences to translate, in order."""
        ...

    def render(self, translations: Sequence[SegmentTranslation]) -> bytes:
        """The content of the translated file, from one translation for each segment."""
        ...


READERS: dict[str, Callable[[str, ReadOptions], TemplateDocument | MessageDocument]] = {
    ".txt": read_text,
    ".html": lambda text, options: HtmlReader(options).read(text),
    ".srt": read_subtitles,
    ".po": MessageDocument,
}


def open_document(
    text: str,
    format: str = "text",
    *,
    language: str = "",
    glossary: Mapping[str, str] | Glossary = NO_TERMS,
    placeholders: Sequence[str] = (),
    split: bool = True,
) -> TemplateDocument:
    """Open a text that is plain ("text") or HTML ("html").

    language      the code of its language, for sentence splitting
    glossary      terms of the source and what they must become in the translation
    placeholders  symbols that the model copies from source to translation, such as "⦅0⦆"
    split         False: a line is one sentence, also if it looks like several
    """
    if format not in FORMATS:
        remedy = f"choose one of {', '.join(FORMATS)}"
        raise UserError(f"unknown format {format!r}", remedy, code="invalid-option", where="format")
    if len(text) > MAX_CHARACTERS:
        problem, remedy = f"the document has {len(text):,} characters", f"split it (at most {MAX_CHARACTERS:,} each)"
        raise UserError(problem, remedy, code="too-large", where="document")
    options = ReadOptions(language, Glossary.of(glossary), tuple(placeholders), split=split)
    return HtmlReader(options).read(text) if format == "html" else read_text(text, options)


def file_format(name: str) -> str:
    """The format of a file by the ending of its name, as in FILE_FORMATS; "" if it is none of them."""
    ending = PurePath(name).suffix.lower()
    ending = OTHER_NAMES.get(ending, ending)
    return ending if ending in FILE_FORMATS else ""


def open_file(
    name: str,
    content: bytes,
    *,
    language: str = "",
    glossary: Mapping[str, str] | Glossary = NO_TERMS,
    placeholders: Sequence[str] = (),
    max_characters: int | None = None,
) -> FileDocument:
    """Open the content of a file; the other arguments are those of `open_document`.

    A file with more than `max_characters` of text is a UserError ("too-large") before it is read to its end, and so is
    a text file of more than MARKUP times as many bytes.
    """
    ending, name = file_format(name), PurePath(name).name
    if not ending:
        problem, remedy = f"{name}: unsupported file extension", f"use one of {', '.join(FILE_FORMATS)}"
        raise UserError(problem, remedy, code="unsupported-file", where=name)
    most = MAX_BYTES if max_characters is None or ending == ".docx" else min(MAX_BYTES, MARKUP * max_characters)
    if len(content) > most:
        problem, remedy = f"{name} is too large: {len(content):,} bytes", f"split the file (at most {most:,})"
        raise UserError(problem, remedy, code="too-large", where=name)
    limit = None if max_characters is None else CharacterBudget(max_characters)
    options = ReadOptions(language, Glossary.of(glossary), tuple(placeholders), limit)
    if ending == ".docx":
        from regard.documents.docx import DocxDocument

        return DocxDocument(content, options)
    text, encoding, bom = decode(content, name, ending)
    outside = "xmlcharrefreplace" if ending == ".html" else "strict"
    return EncodedDocument(READERS[ending](text, options), encoding, bom, outside)


@dataclass(frozen=True)
class EncodedDocument:
    """A text file: its document, its encoding, its byte order mark, and what replaces characters outside of it."""

    document: TemplateDocument | MessageDocument
    encoding: str
    bom: bytes
    outside: str

    @property
    def segments(self) -> Sequence[Segment]:
        return self.document.segments

    def render(self, translations: Sequence[SegmentTranslation]) -> bytes:
        return self.bom + self.document.render(translations).encode(self.encoding, self.outside)


def decode(content: bytes, name: str, ending: str) -> tuple[str, str, bytes]:
    """The text of a file, its encoding and its mark of the byte order."""
    bom, encoding = next(((bom, encoding) for bom, encoding in _BOMS if content.startswith(bom)), (b"", "utf-8"))
    if ending == ".html" and not bom and (match := _CHARSET.search(content[:4096])):
        encoding = match[1].decode()
        encoding = GBK if encoding.lower() == "gb2312" else encoding
    try:
        if not _ENCODINGS.match(encoding):
            raise LookupError(encoding)
        return content[len(bom) :].decode(encoding), encoding, bom
    except (UnicodeDecodeError, LookupError) as error:
        raise UserError(
            f"{name} is not text in the encoding {encoding}", "save the file as UTF-8", code="bad-text", where=name
        ) from error
