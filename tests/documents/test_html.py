"""HTML: tags move with their words, are never lost, doubled or crossed, and all that is no text stays."""

from collections import Counter
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.documents.translators import anything, backwards, html, identity

from regard.documents.document import SegmentTranslation, open_document
from regard.documents.markup import VOID, Token, tokenize
from regard.errors import UserError

UNBOUND = ("code", "span")


class Structure(HTMLParser):
    """The tree of a page by Python's own parser: the parent of every element and comment, by id; and visible text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.stack, self.parents, self.texts = ["root"], dict[str, str](), list[str]()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        name = f"{tag} {dict(attrs).get('id')}"
        assert name not in self.parents
        self.parents[name] = self.stack[-1]
        if tag not in VOID:
            self.stack.append(name)
        if tag == "br":
            self.texts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop().split()[0] == tag

    def handle_comment(self, data: str) -> None:
        assert data not in self.parents
        self.parents[data] = self.stack[-1]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def words(self) -> str:
        return " ".join("".join(self.texts).split())


@st.composite
def pages(draw: st.DrawFn) -> str:
    """Balanced HTML of inline and block elements with unique ids, words, entities, comments and code."""
    number = iter(range(1000))
    leaves = st.one_of(
        st.sampled_from(
            ["One ", "two", " three, ", "four. ", "Five", " ", "6", "&lt;", "&amp; ", "你好", "%s", "\n", "."]
        ),
        st.sampled_from(["<br id={}>", '<img id={} alt="a dog">', "<!--c{}-->", " <code id={}>a  b</code> "]),
        st.sampled_from(["<wbr id={}>", ' <span id={} translate="no">Do <i id="n{}">x</i></span> ', "<b id={}></b>"]),
    )

    def wrap(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        names = st.sampled_from(["b", "a", "u", "em", "p", "div", "li", "q", "td"])
        parts = st.lists(children, max_size=4)
        return st.builds(lambda name, inside: f"<{name} id={{}}>{''.join(inside)}</{name}>", names, parts)

    page = "".join(draw(st.lists(st.recursive(leaves, wrap, max_leaves=8), max_size=5)))
    while "{}" in page:
        page = page.replace("{}", str(next(number)), 1)
    return page


@settings(max_examples=80)
@given(pages(), st.integers(0, 100))
def test_no_tag_is_lost_doubled_or_crossed(page: str, seed: int) -> None:
    before = Structure(page)
    assert Structure(html(page, identity)).parents == before.parents
    for translate in (backwards, anything(seed)):
        parents = Structure(html(page, translate)).parents
        assert parents.keys() == before.parents.keys()
        # An element that is never translated may end up outside of another one; tags stay inside of theirs.
        assert all(parents[name] == parent for name, parent in before.parents.items() if name.split()[0] not in UNBOUND)
    assert Structure(html(page, identity)).words() == before.words()


@settings(max_examples=80)
@given(st.text(alphabet="<>/ab1\"'= &;!-\n.é", max_size=50), st.integers(0, 100))
def test_broken_markup_never_fails(page: str, seed: int) -> None:
    assert "".join(token.raw for token in tokenize(page)) == page
    tags = Counter(token.raw for token in tokenize(page) if token.kind != "text")
    written = Counter(token.raw for token in tokenize(html(page, anything(seed, ("x", "y")))) if token.kind != "text")
    assert written == tags


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("Click <b>the red button</b>.", ". <b>BUTTON RED THE</b> CLICK"),
        ("<b>one</b> <i>two</i>", "<i>TWO</i> <b>ONE</b>"),
        ("<a href=x>one <b>two</b></a> three", "THREE <a href=x><b>TWO</b> ONE</a>"),
        ("drink H<sub>2</sub>O now", "NOW H<sub>2</sub>O DRINK"),
        ("run <code>a &lt; b</code> now", "NOW <code>a &lt; b</code> RUN"),
        ('go <span translate="no">to it</span> now', 'NOW <span translate="no">to it</span> GO'),
        ("one<br>two three", "THREE<br>TWO ONE"),
        ("one. <br> Two three.", ". ONE <br> . THREE TWO"),
        ("one<br><br>two three", "ONE<br><br>THREE TWO"),
        ("<img alt='it&#39;s big' src=a> pic", "<img alt='BIG IT&#39;S' src=a> PIC"),
        ("a one\n  line", "LINE ONE A"),
        ("<a><p>one two</p></a>", "<a><p>TWO ONE</p></a>"),
        ("<b>open one <p>two three", "<b>ONE OPEN <p>THREE TWO"),
        ("<li>one two<li>three four", "<li>TWO ONE<li>FOUR THREE"),
        ("AT&amp;T &copy; &quot;x y&quot;", '&quot; Y X &quot; &copy; T &amp; AT'),
        ("One <!--c--> two", "<!--c-->TWO ONE"),
        ("One <wbr> two", "<wbr>TWO ONE"),
        ("One <img> two", "<img> TWO ONE"),
        ("Use <0>the thing</0> <1/> now", "<1/> NOW <0>THING THE</0> USE"),
    ],
)  # fmt: skip
def test_tags_move_with_their_words(page: str, expected: str) -> None:
    assert html(page) == expected


UNTOUCHED = """<!DOCTYPE html>
<html lang="en"><head><meta charset=utf-8><style>p > a {color: red}</style><!-- a > b -->
<script>if (a < b) document.write("<p>Hello</p>");</script></head><BODY  class = 'x y' >
<pre>  keep   this
 too</pre><textarea>A <b> C</textarea><svg><text>Hi</text></svg><div class="notranslate big">Not <b>this</b></div>
<p>12.50 &nbsp; </p><?php echo "x"; ?></BODY></html>
"""


def test_what_is_no_text_stays_to_the_letter() -> None:
    document = open_document(UNTOUCHED, "html")
    assert not document.segments
    assert document.render([]) == UNTOUCHED


def test_an_element_without_links_still_encloses_a_word() -> None:
    document = open_document("Click <a href=x>here</a> now.", "html")
    assert document.segments[0].needs_links
    for links in ((), ((0, 5, 0, 7), (11, 14, 8, 12))):
        page = document.render([SegmentTranslation("Jetzt klicken bitte.", links=links)])
        inside = page.split("<a href=x>")[1].split("</a>")[0]
        assert inside in ("Jetzt", "klicken", "bitte")


def test_attributes_and_text_are_escaped() -> None:
    document = open_document('<img alt="dog"><img alt=cat>', "html")
    translation = SegmentTranslation('"a" <b> & c')
    assert document.render([translation, translation]) == (
        '<img alt="&quot;a&quot; &lt;b> &amp; c"><img alt="&quot;a&quot; &lt;b> &amp; c">'
    )
    assert open_document("<p>x</p>", "html").render([translation]) == '<p>"a" &lt;b> &amp; c</p>'


def test_deep_and_large_pages_are_refused() -> None:
    for name in ("b", "div"):
        with pytest.raises(UserError) as error:
            open_document(f"<{name}>" * 100_000 + "x", "html")
        assert error.value.code == "too-deep"
    with pytest.raises(UserError) as error:
        open_document("x" * 10_000_001)
    assert error.value.code == "too-large"
    with pytest.raises(UserError) as error:
        open_document("x", "xml")
    assert error.value.code == "invalid-option"


def test_many_elements_take_time_in_proportion() -> None:
    """100 times the elements of a passage take few times more steps for each: no step looks at all elements."""
    count = 2_000
    page = "".join(f"<b>w{n}</b> <wbr>" for n in range(count)) + '<a "' * count + "<i>" * 500 + "x" + "</i>" * 500
    assert html(page, identity).count("<b>") == count
    assert html("<b>a </b>" * count, lambda segment: SegmentTranslation("a " * 50)).count("</b>") == count


@pytest.mark.parametrize(
    ("raw", "fixed"),
    [
        ("<!-- a -->", False), ("<!-- a --!>", False), ("<!DOCTYPE html>", False), ("<?php echo 1 ?>", False),
        ("<!-- a", True), ("<!-- a >", True), ("<!DOCTYPE", True), ("if (a > b) { c => d", True), ("a => b; c>", True),
    ],
)  # fmt: skip
def test_what_does_not_end_and_text_without_tags_cannot_move(raw: str, fixed: bool) -> None:
    assert Token("other", raw).is_fixed is fixed
    assert not Token("text", raw).is_fixed and not Token("open", raw).is_fixed
