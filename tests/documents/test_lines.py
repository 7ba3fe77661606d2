"""Where sentences end in lines: breaks, list items, dialogues; templates, controls and languages of a page."""

import pytest
from tests.documents.translators import backwards, html, identity, run, text

from regard.documents.document import open_document, open_file


def sentences(page: str, format: str = "html", **options: str) -> list[str]:
    return [item.text for item in open_document(page, format, language="en", **options).segments]  # type: ignore[arg-type]


def file_sentences(name: str, content: str) -> list[str]:
    return [item.text for item in open_file(name, content.encode(), language="en").segments]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("testing :x:<br />What do you think?", ["testing :x:", "What do you think?"]),
        ("one two,<br>three four", ["one two, three four"]),
        ("Ends here. <br>goes on", ["Ends here.", "goes on"]),
        ("a sentence <b>in bold.<br>Another</b> one", ["a sentence in bold.", "Another one"]),
        ("Address:<br>Main Street 5<br>New York", ["Address:", "Main Street 5", "New York"]),
        ("<p>to buy:<br>- pears<br>- plums</p>", ["to buy:", "pears", "plums"]),
        ("我很好。<br>你呢", ["我很好。", "你呢"]),
    ],
)
def test_a_line_break_ends_a_sentence(page: str, expected: list[str]) -> None:
    assert sentences(page) == expected
    assert html(page, identity) == page


def test_breaks_stay_between_their_sentences() -> None:
    assert html("<b>one two.<br>Three</b> four") == "<b>. TWO ONE<br>FOUR THREE</b>"
    assert html("one two:<br />Three four") == ": TWO ONE<br />FOUR THREE"
    assert html("one two: <br> Three four") == ": TWO ONE <br> FOUR THREE"


@pytest.mark.parametrize("marker", ["- ", "* ", "+ ", "• ", "– ", "  - ", "1) ", "(a) ", "b)\t", "-"])
def test_list_markers_stay(marker: str) -> None:
    line = f"{marker}Ripe pears"
    assert sentences(line, "text") == ["Ripe pears"]
    assert text(line) == f"{marker}PEARS RIPE"
    assert html(f"<p>{line}</p>") == f"<p>{marker}PEARS RIPE</p>"


@pytest.mark.parametrize("line", ["-5 degrees", "well-known", "A - B", "-", "- ", "-- x"])
def test_what_is_no_list_marker(line: str) -> None:
    assert text(line, identity) == line
    assert "".join(sentences(line, "text")).startswith(line[:2].strip()[:1]) or not sentences(line, "text")


def test_dialogues_of_subtitles() -> None:
    cue = "1\n00:00:01,000 --> 00:00:02,000\n- Who is there?\n- It is me\nand the dog.\n"
    assert file_sentences("a.srt", cue) == ["Who is there?", "It is me and the dog."]
    rendered = open_file("a.srt", cue.encode(), language="en")
    translated = rendered.render([backwards(item) for item in rendered.segments]).decode()
    assert "\n- ? THERE IS WHO\n- " in translated


def test_template_tags_end_a_sentence_and_stay() -> None:
    page = "<p>{% if user %}Hello {{ user.name }}, welcome{% else %}Log in{% endif %} {# note #}</p>"
    assert sentences(page) == ["Hello {{ user.name }}, welcome", "Log in"]
    assert html(page) == "<p>{% if user %}WELCOME , {{ user.name }} HELLO{% else %}IN LOG{% endif %} {# note #}</p>"
    page = '<a {% if a > b %}hidden{% endif %} title="{% trans \'x\' %} one two" href="{{ x }}">Go on</a>'
    assert html(page, identity) == page
    assert sentences(page)[-1] == "Go on" and "hidden" not in " ".join(sentences(page))


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>Press <button>OK</button> to continue.</p>", ["Press OK to continue."]),
        ("<p><button>Save all</button><button>Cancel</button></p>", ["Save all", "Cancel"]),
        ("<button type=submit>Send it</button>", ["Send it"]),
        ("<p>Click <svg><path d='x'/></svg> to go.</p>", ["Click to go."]),
    ],
)
def test_controls_in_a_sentence(page: str, expected: list[str]) -> None:
    assert sentences(page) == expected
    assert html(page, identity) == page


def test_no_break_spaces_are_kept() -> None:
    assert html("<p>about 10&nbsp;km long</p>") == "<p>LONG KM&nbsp;10 ABOUT</p>"
    assert html("<p>10&nbsp;km &nbsp; away</p>", identity) == "<p>10&nbsp;km &nbsp; away</p>"
    assert "&nbsp;" in html("<p>about 10&nbsp;km long</p>")


def test_the_language_of_a_page_becomes_the_target() -> None:
    page = '<html lang="en" dir="ltr"><body><p lang="en-GB">Hello you</p><p lang=fr>Bonjour toi</p></body></html>'
    german = run(open_document(page, "html", language="en", target="de"), backwards)
    assert german == (
        '<html lang="de" dir="ltr"><body><p lang="de">YOU HELLO</p><p lang=fr>Bonjour toi</p></body></html>'
    )
    arabic = run(open_document(page, "html", target="ar"), backwards)
    assert arabic.startswith('<html lang="ar" dir="rtl">')
    assert run(open_document("<html lang=en>Hi", "html", target="ar"), identity) == '<html dir="rtl" lang=ar>Hi'
    assert html(page, identity) == page
    assert sentences("<p lang=de>Hallo Welt</p>one") == ["one"]
    assert sentences("Call <bdi>Ann Lee</bdi> now") == ["Call Ann Lee now"]
    assert html("Call <bdi>Ann Lee</bdi> now") == "NOW <bdi>Ann Lee</bdi> CALL"
