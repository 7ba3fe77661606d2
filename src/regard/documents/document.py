"""A document to translate, in two phases: `segments` out, translations in.

A document holds no model and reads no file, so that a command and a server can both drive it:

    document = open_document(text, "html", language="en", glossary={"attention": "Aufmerksamkeit"})
    translations = [translate(segment) for segment in document.segments]
    page = document.render(translations)
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from regard.documents.html import HtmlReader
from regard.documents.passage import Reading
from regard.documents.protecting import NO_TERMS, Glossary
from regard.documents.segment import Link, Segment, SegmentTranslation
from regard.documents.text import read_text
from regard.errors import UserError

__all__ = ["FORMATS", "Document", "Link", "Segment", "SegmentTranslation", "open_document"]

FORMATS = ("text", "html")
MAX_CHARACTERS = 10_000_000


class Document(Protocol):
    """A text in some format: the sentences to translate, and the text with their translations in place."""

    @property
    def segments(self) -> Sequence[Segment]:
        """The sentences to translate, in order."""
        ...

    def render(self, translations: Sequence[SegmentTranslation]) -> str:
        """The translated document, from one translation for each segment."""
        ...

    def render_alternatives(self, translations: Sequence[SegmentTranslation], count: int) -> list[str]:
        """At most `count` other translations of the document, none equal to another or to the best one."""
        ...


def open_document(
    text: str,
    format: str = "text",
    *,
    language: str = "",
    glossary: Mapping[str, str] | Glossary = NO_TERMS,
    placeholders: Sequence[str] = (),
    split: bool = True,
) -> Document:
    """Open a text that is plain ("text") or HTML ("html").

    language      the code of its language, for sentence splitting
    glossary      terms of the source and what they must become in the translation
    placeholders  symbols that the model copies from source to translation, such as "⦅0⦆"
    split         False: a line is one sentence, also if it looks like several
    """
    if format not in FORMATS:
        raise UserError(
            f"unknown format {format!r}", f"write one of {', '.join(FORMATS)}", code="invalid-option", where="format"
        )
    if len(text) > MAX_CHARACTERS:
        raise UserError(
            f"the document has {len(text):,} characters",
            f"translate parts of at most {MAX_CHARACTERS:,}",
            code="too-large",
            where="document",
        )
    reading = Reading(language, Glossary.of(glossary), tuple(placeholders), split=split)
    return HtmlReader(reading).read(text) if format == "html" else read_text(text, reading)
