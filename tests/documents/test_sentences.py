"""Sentence splitting: spans that hold all visible characters, and the ends of sentences in four languages."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.documents.sentences import is_replaced, sentence_spans, simple_spans

TEXTS = st.text(alphabet=list("aB1.!?。！ \t…”)\n¿é中👍"), max_size=60)
EXAMPLES = {
    "en": ["Dr. Smith paid 3.50 dollars.", "Did he?", "J. Doe (see fig. 3) did!"],
    "de": ["Das kostet ca. 3 Euro.", "Am 3. Mai kam er.", "Wirklich?"],
    "fr": ["Il dit : « Bonjour ! »", "Elle est partie."],
    "zh": ["你好。", "今天天气很好！", "你去吗？"],
}


@settings(deadline=None, derandomize=True, max_examples=60)
@given(TEXTS, st.sampled_from(["", "en", "zh-Hans"]))
def test_spans_hold_every_visible_character(text: str, language: str) -> None:
    for spans in (sentence_spans(text, language), simple_spans(text)):
        assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
        cuts = [0, *(place for span in spans for place in span), len(text)]
        assert cuts == sorted(cuts)
        assert all(text[start:end] == text[start:end].strip() for start, end in spans)


@pytest.mark.parametrize("language", EXAMPLES)
def test_ends_of_sentences_are_found(language: str) -> None:
    sentences = EXAMPLES[language]
    text = ("" if language == "zh" else " ").join(sentences)
    assert [text[start:end] for start, end in simple_spans(text)] == sentences
    if language != "fr":  # sentencex ends a sentence at "« Bonjour !"
        assert [text[start:end] for start, end in sentence_spans(text, language)] == sentences


def test_without_the_package_texts_are_split_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)
    assert sentence_spans("One. Two.", "en") == [(0, 4), (5, 9)]


def test_long_texts_are_read_in_windows() -> None:
    for sentence, blank in (("Mr. Smith paid 3.50 dollars to them.", " "), ("你好。", ""), ("word", " ")):
        text = blank.join([sentence] * 3000)
        spans = sentence_spans(text, "en")
        assert "".join(text[start:end] for start, end in spans).replace(" ", "") == text.replace(" ", "")
        if sentence != "word":
            assert [text[start:end] for start, end in spans] == [sentence] * 3000


@pytest.mark.parametrize(
    ("span", "expected"), [((0, 1), False), ((0, 2), True), ((2, 3), True), ((3, 4), False), ((3, 9), True)]
)
def test_spans_that_only_touch_do_not_overlap(span: tuple[int, int], expected: bool) -> None:
    assert is_replaced(span, [(1, 3), (5, 6)]) is expected
