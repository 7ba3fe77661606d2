"""Translators for tests: the same text, words in reverse order and capitals, and anything with any links."""

import random
from collections.abc import Callable, Sequence

import pytest

from regard.documents.document import Segment, SegmentTranslation, open_document, open_file
from regard.documents.passage import TemplateDocument
from regard.documents.sentences import word_spans
from regard.errors import UserError

Translate = Callable[[Segment], SegmentTranslation]


def identity(segment: Segment) -> SegmentTranslation:
    return SegmentTranslation(segment.text, links=tuple((*span, *span) for span in word_spans(segment.text)))


def backwards(segment: Segment) -> SegmentTranslation:
    """The words in capitals from last to first, each linked to its source; placeholders stay as they are."""
    text, links = "", []
    for start, end in reversed(word_spans(segment.text)):
        text += " " * bool(text)
        word = segment.text[start:end].upper()
        links.append((start, end, len(text), len(text) + len(word)))
        text += word
    return SegmentTranslation(text, links=tuple(links))


def anything(seed: int, words: Sequence[str] = ("x", "Yy", "zzz.", "你", "<", "&", "%s", "⦅0⦆", "⦅1⦆")) -> Translate:
    """Random words with random links, some of which are outside of the texts."""
    rng = random.Random(seed)

    def translate(segment: Segment) -> SegmentTranslation:
        text = " ".join(rng.choices(words, k=rng.randrange(8)))
        most = (len(segment.text) + 1, len(text) + 1)
        links = []
        for _ in range(rng.randrange(10)):
            (start, end), (begin, finish) = (sorted((rng.randrange(n), rng.randrange(n + 1))) for n in most)
            links.append((start, end, begin, finish))
        return SegmentTranslation(text, links=tuple(links))

    return translate


def run(document: TemplateDocument, translate: Translate) -> str:
    return document.render([translate(segment) for segment in document.segments])


def html(page: str, translate: Translate = backwards, **options: object) -> str:
    return run(open_document(page, "html", language="en", **options), translate)  # type: ignore[arg-type]


def text(value: str, translate: Translate = backwards, **options: object) -> str:
    return run(open_document(value, language="en", **options), translate)  # type: ignore[arg-type]


def translated(name: str, content: bytes, translate: Translate = backwards, **options: object) -> bytes:
    document = open_file(name, content, language="en", **options)  # type: ignore[arg-type]
    return document.render([translate(segment) for segment in document.segments])


def refused(name: str, content: bytes, where: str | None = None, **options: object) -> str:
    """The code of the error that opening a file raises, at this place if one is given."""
    with pytest.raises(UserError) as error:
        open_file(name, content, **options)  # type: ignore[arg-type]
    assert where is None or str(error.value.where) == where
    return error.value.code
