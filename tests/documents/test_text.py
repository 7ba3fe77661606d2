"""Plain text: all but the words of sentences stays as it is."""

from tests.documents.translators import backwards

from regard.documents.document import Segment, SegmentTranslation, open_document
from regard.documents.passage import TemplateDocument
from regard.documents.protecting import Glossary
from regard.documents.segment import join_steps

TEXT = "  One two.  Three!\r\n\r\n\tFour\n12 / 3\n👍\n你好。再见。"


def translations(document: TemplateDocument) -> list[SegmentTranslation]:
    return [SegmentTranslation(item.text.upper(), (item.text.title(),)) for item in document.segments]


def test_every_sentence_is_a_segment_and_the_rest_stays() -> None:
    document = open_document(TEXT, language="en")
    assert list(document.segments) == [Segment(text) for text in ("One two.", "Three!", "Four", "你好。", "再见。")]
    assert document.render(translations(document)) == TEXT.upper()


def test_a_tab_ends_a_sentence() -> None:
    """The model reads no tabs: the words beside them were written as one word."""
    document = open_document("Name\tAge\tCity\none\t2\t- three\n1)\tfour", language="en")
    assert [item.text for item in document.segments] == ["Name", "Age", "City", "one", "three", "four"]
    assert document.sentence_spans() == [(0, 4), (5, 8), (9, 13), (14, 17), (22, 27), (31, 35)]
    chinese = [SegmentTranslation(text) for text in ["名", "年", "市", "一", "三", "四"]]
    assert document.render(chinese) == "名\t年\t市\n一\t2\t- 三\n1)\t四"
    assert [item.text for item in open_document("one\ttwo", split=False).segments] == ["one\ttwo"]


def test_links_are_places_in_the_whole_text() -> None:
    """A sentence with code moved the links of the next one to equal words in it."""
    source = "If {x} is on, I go.\r\n12\n\nI go. {x} {y}!"
    document = open_document(source, language="en", glossary=Glossary({"on": "an"}))
    done = [backwards(segment) for segment in document.segments]
    target, links = document.render(done), document.word_links(done)
    assert all(source[a:b].upper() in (target[c:d].upper(), "ON") for a, b, c, d in links)
    assert [link for link in links if link[0] >= source.rindex("I")] != []
    assert all((a < source.index("\r")) == (c < target.index("\r")) for a, _, c, _ in links)


def test_alternatives_differ_from_the_best_translation_and_each_other() -> None:
    document = open_document("one two. THREE.")
    assert document.render_alternatives(translations(document), 3) == ["One Two. Three."]


def test_blanks_between_sentences_fit_the_script_of_the_translation() -> None:
    chinese, english = "你好。再见！\n好。", "Hello. Bye!\nFine."
    into_english = dict(zip(("你好。", "再见！", "好。"), ("Hello.", "Bye!", "Fine."), strict=True))
    into_chinese = {value: key for key, value in into_english.items()}
    for source, target, words in ((chinese, english, into_english), (english, chinese, into_chinese)):
        document = open_document(source)
        assert document.render([SegmentTranslation(words[item.text]) for item in document.segments]) == target
    page = open_document("<p>Hello. <b>Bye!</b></p>", "html")
    assert page.render([SegmentTranslation("你好。"), SegmentTranslation("再见！")]) == "<p>你好。<b>再见！</b></p>"


def test_characters_of_chinese_are_enclosed_one_by_one() -> None:
    document = open_document("<p>I have a <b>red</b> <i>dog</i>.</p>", "html")
    links = ((0, 1, 0, 1), (2, 6, 1, 2), (7, 8, 2, 4), (9, 12, 4, 6), (13, 16, 7, 8), (16, 17, 8, 9))
    page = document.render([SegmentTranslation("我有一条红色的狗。", links=links)])
    assert page == "<p>我有一条<b>红色</b>的<i>狗</i>。</p>"


def test_a_sentence_is_not_cut_inside_of_code() -> None:
    for text, expected in (
        ("Use `one. Two` here.", ["Use `one. Two` here."]),
        ("Use it. `one. Two` is good. Go on.", ["Use it.", "`one. Two` is good.", "Go on."]),
    ):
        assert [item.text for item in open_document(text, language="en").segments] == expected
    page = open_document("Go home. Press <kbd>Stop it. Then</kbd> now. Yes.", "html", language="en")
    assert [item.text for item in page.segments] == ["Go home.", "Press Stop it. Then now.", "Yes."]
    term = open_document("We like Stop now. Go again today.", language="en", glossary={"Stop now. Go again": "Halt"})
    assert [item.text for item in term.segments] == ["We like Stop now. Go again today."]


def test_links_through_a_pivot_language_lead_to_the_source() -> None:
    before = SegmentTranslation("two words", links=((0, 3, 0, 3), (4, 9, 4, 9)), problem="changed-numbers")
    after = SegmentTranslation("w t", ("alt",), links=((4, 9, 0, 1), (0, 2, 2, 3), (9, 9, 0, 1)))
    expected = SegmentTranslation("w t", ("alt",), ((4, 9, 0, 1), (0, 3, 2, 3)), problem="changed-numbers")
    assert join_steps(before, after) == expected
