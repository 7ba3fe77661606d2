"""Plain text: all but the words of sentences stays as it is."""

from regard.documents.document import Document, Segment, SegmentTranslation, open_document

TEXT = "  One two.  Three!\r\n\r\n\tFour\n12 / 3\n👍\n你好。再见。"


def translations(document: Document) -> list[SegmentTranslation]:
    return [SegmentTranslation(item.text.upper(), (item.text.title(),)) for item in document.segments]


def test_every_sentence_is_a_segment_and_the_rest_stays() -> None:
    document = open_document(TEXT, language="en")
    assert list(document.segments) == [Segment(text) for text in ("One two.", "Three!", "Four", "你好。", "再见。")]
    assert document.render(translations(document)) == TEXT.upper()


def test_alternatives_differ_from_the_best_translation_and_each_other() -> None:
    document = open_document("one two. THREE.")
    assert document.render_alternatives(translations(document), 3) == ["One Two. Three."]
