"""Odd files of each text format: what is read as text, and that everything else stays, with any line ends."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.documents.translators import anything, identity, translated

from regard.documents.document import open_file

XLIFF = '<xliff version="1.2"><file><body>{}</body></file></xliff>'
ODD: list[tuple[str, str, list[str]]] = [
    # ---- text and pages
    ("a.txt", "", []),
    ("a.txt", " \t \n\n\u3000\n", []),
    ("a.txt", "One two\n", ["One two"]),
    ("a.txt", "  1. First.\n\tSecond {x}\u00a0!\n", ["First.", "Second {x}\u00a0!"]),
    ("a.txt", "\x00\x0b\x1f\u2028\nOne\x0ctwo\n", ["One\x0ctwo"]),
    ("a.html", "", []),
    ("a.html", " \n ", []),
    ("a.html", "<p>One <b>two <i>three</b> four</i> five", ["One", "two", "three", "four", "five"]),
    ("a.html", "<ul><li>One<ul><li>Two</ul><li>Three</ul>\n", ["One", "Two", "Three"]),
    ("a.html", "<p>One<!-- a > b <i> -->two</p><!-- no end", ["Onetwo"]),
    ("a.html", "<p>One</p><![CDATA[ two </p> ]]>\n", ["One"]),
    ("a.html", "<p>1&nbsp;Caf&eacute; &copy; &amp;lt; &quot;it&quot;</p>\n", ['1 Café © &lt; "it"']),
    ("a.html", '<a href="{% url "x" %}" title="{{ t }}" {% if a %}class=b{% endif %}>One two</a>\n', ["One two"]),
    ("a.html", "<p>{% if x %}One two{% else %}Three{% endif %}</p>\n", ["One two", "Three"]),
    ("a.html", "<img alt='One two' title=\"\"><input type=submit value='Send'><input value=x>\n", ["One two", "Send"]),
    ("a.html", '<p lang="fr">Non</p><p translate=no>No</p><p>Yes <bdi>Ann</bdi></p>\n', ["Yes Ann"]),
    # ---- Markdown
    ("a.md", "", []),
    ("a.md", "\n \n", []),
    ("a.md", "---\ntitle: One\n", ["title: One"]),
    ("a.md", "- One\n  - Two\n    1. Three\n\n          code\n", ["One", "Two", "Three"]),
    ("a.md", "One[^1] `two three`\n\n[^1]: Note *four*\n", ["One^1 two three", "Note four"]),
    ("a.md", "```\nOne\n", []),
    ("a.md", "| One | `a|b` |\n|--|--|\n| Two | 3 |\n", ["One", "Two"]),
    ("a.md", "un**believ**able\n", ["unbelievable"]),
    ("a.md", "<div>\nOne <b>two\n\nThree</b>\n</div>\n", ["One", "two", "Three</b>"]),
    ("a.md", "One two\n<table>\n<tr><td>Three\n</table>\n", ["One two", "Three"]),
    # ---- JSON
    ("a.json", '"One two"', ["One two"]),
    ("a.json", '{ "One two" :  "" , "a":[ ] }\n', []),
    ("a.json", '{"a":"<b>One</b> \\u007bname\\u007d","b":"One\\ttwo"}\n', ["One {name}", "One two"]),
    ("a.json", '["{n, plural, one {file} other {files}}", "https://x.org", "en-US", "#fff"]\n', []),
    # ---- messages
    ("a.po", "", []),
    ("a.po", "# One two\n\n", []),
    ("a.po", '#, fuzzy\nmsgid "One two"\nmsgstr "Eins"\n', []),
    ("a.po", '#~ msgctxt "x"\n#~ msgid "One two"\n#~ msgstr ""\n', []),
    ("a.po", '#| msgid "Old"\nmsgctxt "menu"\nmsgid "One"\nmsgstr "Eins"\n', []),
    # ---- subtitles
    ("a.srt", "", []),
    ("a.srt", " \n\n", []),
    ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\n<i>One\ntwo</i>\n", ["One two"]),
    ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\n{\\an8}<font color='red'>One</font> <b>two\n", ["One two"]),
    ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\n\n\n2\n00:00:03,000 --> 00:00:04,000\n...\n", []),
    ("a.vtt", "WEBVTT\n", []),
    ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ann>One</v> <c.x>&lt;two&gt;</c>\n", ["One &lt;two&gt;"]),
    ("a.vtt", "WEBVTT\n\nNOTE\nOne two\n\nSTYLE\n::cue(b) {}\n\nREGION\nid:One\n", []),
    # ---- XLIFF
    ("a.xliff", XLIFF.format(""), []),
    ("a.xliff", XLIFF.format("<trans-unit id='1'><source>One</source><target>Eins</target></trans-unit>\n"), []),
    ("a.xliff", XLIFF.format("<trans-unit id='1' translate='no'><source>One</source></trans-unit>"), []),
    ("a.xliff", XLIFF.format("<trans-unit id='1'><source> \n </source><target/></trans-unit>"), []),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "expected"), ODD)
def test_what_is_text_in_an_odd_file(name: str, text: str, expected: list[str]) -> None:
    assert [segment.text for segment in open_file(name, text.encode(), language="en").segments] == expected


@pytest.mark.parametrize(("name", "text", "expected"), ODD)
def test_odd_files_stay_with_any_line_ends_and_byte_order_mark(name: str, text: str, expected: list[str]) -> None:
    for end in ("\n", "\r\n"):
        for bom, encoding in ((b"", "utf-8"), (b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le")):
            for part in (text, text.rstrip("\n")):
                content = bom + part.replace("\n", end).encode(encoding)
                assert translated(name, content, identity) == content
                count = len(open_file(name, content, language="en").segments)
                assert count == len(expected)


def test_a_page_writes_special_characters_as_entities() -> None:
    """Also where the page did not: a reader sees the same."""
    page = "<p>R&D &copy 1 < 2 > 1 &notit;<img alt=Cat title='\"a\"'> it <"
    expected = '<p>R&amp;D © 1 &lt; 2 > 1 ¬it;<img alt="Cat" title=\'"a"\'> it &lt;'
    assert translated("a.html", page.encode(), identity).decode() == expected
    assert translated("a.html", expected.encode(), identity).decode() == expected


@settings(max_examples=80)
@given(st.sampled_from(ODD), st.integers(0, 1000), st.integers(0, 60))
def test_any_translation_of_any_beginning_of_an_odd_file(odd: tuple[str, str, list[str]], seed: int, cut: int) -> None:
    """A page or a text that ends anywhere is still a page: its tags stay, and its bytes if its text does."""
    name, text, _ = odd
    content = text[: cut if name in ("a.txt", "a.html", "a.md") else None].encode()
    same = translated(name, content, identity)
    assert translated(name, same, identity) == same and (same == content or name == "a.html")
    result = translated(name, content, anything(seed, ("x", "Yy", "你")))
    for mark in (b"<", b">", b"{%", b"\x00", b"-->", b'"', b"\n"):
        assert result.count(mark) >= content.count(mark) or name == "a.md"
