"""A document to translate, in two phases: `segments` out, translations in.

A document holds no model and reads no file, so that a command and a server can both drive it:

    document = open_document(text, "html", language="en", glossary={"attention": "Aufmerksamkeit"})
    translations = [translate(segment) for segment in document.segments]
    page = document.render(translations)
"""

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from regard.documents.segment import Link, Segment, SegmentTranslation
from regard.documents.sentences import sentence_spans
from regard.errors import UserError

__all__ = ["FORMATS", "Document", "Link", "Segment", "SegmentTranslation", "open_document"]

FORMATS = ("text", "html")


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
    glossary: Mapping[str, str] = {},
    placeholders: Sequence[str] = (),
) -> Document:
    """Open a text that is plain ("text") or HTML ("html").

    language      the code of its language, for sentence splitting
    glossary      terms of the source and what they must become in the translation
    placeholders  symbols that the model copies from source to translation, such as "⦅0⦆"
    """
    if format not in FORMATS:
        raise UserError(
            f"unknown format {format!r}", f"write one of {', '.join(FORMATS)}", code="invalid-option", where="format"
        )
    return TextDocument(text, language)


class TextDocument:
    """Plain text: every line is split into sentences; blank space and line ends stay as they are."""

    def __init__(self, text: str, language: str = "") -> None:
        self.between: list[str] = []
        self.segments: list[Segment] = []
        end = 0
        for line in re.finditer(r"[^\r\n]+", text):
            for first, last in sentence_spans(line[0], language):
                sentence = line[0][first:last]
                if any(map(str.isalpha, sentence)):
                    self.between.append(text[end : line.start() + first])
                    self.segments.append(Segment(sentence))
                    end = line.start() + last
        self.between.append(text[end:])

    def render(self, translations: Sequence[SegmentTranslation]) -> str:
        return self._join([item.text for item in translations])

    def render_alternatives(self, translations: Sequence[SegmentTranslation], count: int) -> list[str]:
        texts = [[item.text, *item.alternatives] for item in translations]
        most = max(map(len, texts), default=1)
        rendered = dict.fromkeys(self._join([item[min(n, len(item) - 1)] for item in texts]) for n in range(most))
        return list(rendered)[1 : count + 1]

    def _join(self, texts: Sequence[str]) -> str:
        between = iter(self.between)
        return "".join(part for text in texts for part in (next(between), text)) + next(between)
