"""Texts and files as documents, in two phases: `segments` out, translations in.

A document holds no model and reads no file, so that a command and a server can both drive it:

    document = open_document(text, "html", language="en", glossary={"attention": "Aufmerksamkeit"})
    translations = [translate(segment) for segment in document.segments]
    page = document.render(translations)

The extension of a file name says its format (TEXT_READERS, BINARY_READERS); what is not text stays byte by byte.
Nothing is written to disk. Sizes are bounded, also those of what is packed in a file.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import PurePath

from regard.documents.archive import CHOOSE, ArchiveDocument
from regard.documents.encoded import EncodedDocument, FileDocument, TextDocument, decode
from regard.documents.html import HtmlReader
from regard.documents.json_values import JsonDocument
from regard.documents.lines import MessageDocument, read_text
from regard.documents.markdown import MarkdownReader
from regard.documents.passage import CharacterBudget, ReadOptions, TemplateDocument
from regard.documents.pdf import open_pdf
from regard.documents.protecting import NO_TERMS, Glossary
from regard.documents.segment import Link, Segment, SegmentTranslation
from regard.documents.subtitles import read_cues, read_vtt
from regard.documents.xliff import XliffReader
from regard.errors import UserError

__all__ = ["FORMATS", "FileDocument", "Link", "Segment", "SegmentTranslation", "open_document", "open_file"]

FORMATS = ("text", "html")
MAX_CHARACTERS = 10_000_000
OTHER_NAMES = {".htm": ".html", ".xhtml": ".html", ".pot": ".po", ".xlf": ".xliff", ".markdown": ".md"}
MAX_BYTES = 50_000_000
MARKUP = 10
"""Bytes of a text file for each character to translate, tags and times included, if their number is limited."""
TEXT_READERS: dict[str, Callable[[str, ReadOptions], TextDocument]] = {
    ".txt": read_text,
    ".html": lambda text, options: HtmlReader(options).read(text),
    ".srt": read_cues,
    ".vtt": read_vtt,
    ".po": MessageDocument,
    ".xliff": lambda text, options: XliffReader(options).read(text),
    ".md": lambda text, options: MarkdownReader(options).read(text),
    ".json": JsonDocument,
}
BINARY_READERS: dict[str, Callable[[bytes, ReadOptions], FileDocument]] = {
    **{ending: partial(ArchiveDocument, choose=choose) for ending, choose in CHOOSE.items()},
    ".pdf": open_pdf,
}
MARKUP_FORMATS = frozenset({".html", ".xliff"})
"""Text formats that declare their encoding, and can write any character as a number."""
FILE_FORMATS = (*TEXT_READERS, *BINARY_READERS)
RESULTS = {".pdf": ".txt"}
"""Formats whose translation has a different one."""


def open_document(
    text: str,
    format: str = "text",
    *,
    language: str = "",
    target: str = "",
    glossary: Mapping[str, str] | Glossary = NO_TERMS,
    placeholders: Sequence[str] = (),
    split: bool = True,
) -> TemplateDocument:
    """Open a text that is plain ("text") or HTML ("html").

    language      the code of its language, for sentence splitting
    target        the code of the target language, which HTML declares
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
    options = ReadOptions(language, Glossary.of(glossary), tuple(placeholders), split=split, target=target)
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
    target: str = "",
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
    is_text, is_markup = ending in TEXT_READERS, ending in MARKUP_FORMATS
    most = min(MAX_BYTES, MARKUP * max_characters) if is_text and max_characters is not None else MAX_BYTES
    if len(content) > most:
        problem, remedy = f"{name} is too large: {len(content):,} bytes", f"split the file (at most {most:,})"
        raise UserError(problem, remedy, code="too-large", where=name)
    limit = None if max_characters is None else CharacterBudget(max_characters)
    options = ReadOptions(language, Glossary.of(glossary), tuple(placeholders), limit, target=target)
    if not is_text:
        return BINARY_READERS[ending](content, options)
    text, encoding, bom = decode(content, name, is_markup)
    outside = "xmlcharrefreplace" if is_markup else "strict"
    return EncodedDocument(TEXT_READERS[ending](text, options), encoding, bom, outside)
