"""Protected parts: copied exactly, whatever the model makes of them; glossary terms become what is given."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.documents.translators import anything, backwards, html, text

from regard.documents.document import SegmentTranslation, open_document
from regard.documents.protecting import Glossary, Protected, capitalised, find_code, is_word_end
from regard.documents.sentences import WORD, Rewriting, remaining
from regard.errors import UserError

SYMBOLS = tuple(f"⦅{number}⦆" for number in range(3))
CODE = [
    "%s", "%d", "%1$s", "%2$5.2f", "%(name)s", "%-5d", "%@", "%%", "{name}", "{0}", "{}", "{0:.2f}", "{user.name}",
    "{{ x }}", "${HOME}", "#{x}", "&amp;", "&#39;", "https://a.org/b?c=1&d=2#e", "www.a.org/x", "me@a-b.co.uk", "@ada",
    "<0/>", "<1>", "</1>", '<x id="1"/>', "`a b`", "👍🏽", "👩‍💻", "🇫🇷", "⦅7⦆", "%{count}", "#topic",
]  # fmt: skip


@pytest.mark.parametrize("code", CODE)
def test_code_is_found_whole(code: str) -> None:
    for sentence in (f"See {code} now.", f"See ({code}), now.", code):
        found = [sentence[start:end] for start, end in find_code(sentence)]
        assert found == [code]


@pytest.mark.parametrize("code", ["https://a.org/b?c=1&d=2", "www.a.org/x", "me@a-b.co.uk", "@ada", "#topic"])
def test_an_address_ends_before_chinese_text(code: str) -> None:
    for sentence in (f"请看{code}上的照片", f"{code}，谢谢", f"（{code}）"):
        assert [sentence[start:end] for start, end in find_code(sentence)] == [code]


def test_an_address_may_contain_chinese() -> None:
    sentence = "见https://zh.example.org/wiki/注意力_机制。"
    assert [sentence[start:end] for start, end in find_code(sentence)] == ["https://zh.example.org/wiki/注意力_机制"]


@pytest.mark.parametrize("plain", ["100% sure", "5 %", "a < b and c > d", "{ }", "A&B; C", "3 # 4", "50%.", "a@b"])
def test_plain_text_is_not_code(plain: str) -> None:
    assert not list(find_code(plain))


@settings(max_examples=100)
@given(st.lists(st.sampled_from([*CODE, "One", "two,", "Three."]), max_size=12), st.integers(0, 50), st.booleans())
def test_code_survives_any_translation(words: list[str], seed: int, has_symbols: bool) -> None:
    source = " ".join(words)
    translate = anything(seed, ("x", "Yy.", "你", "⦅0⦆", "⦅1⦆", "⦅1⦆", "⦅2⦆"))
    result = text(source, translate, placeholders=SYMBOLS if has_symbols else ())
    for code in set(words) & set(CODE):
        assert result.count(code) >= words.count(code)
    if has_symbols:
        expected = {symbol for symbol in SYMBOLS if symbol in words}
        assert {symbol for symbol in SYMBOLS if symbol in result} == expected


@pytest.mark.parametrize(
    ("translation", "links", "expected"),
    [
        ("Löschen %s Dateien.", (), "Löschen %s Dateien."),
        ("Löschen % s Dateien.", ((7, 9, 8, 11),), "Löschen %s Dateien."),  # changed: replaced
        ("Dateien löschen.", ((0, 6, 8, 15), (10, 15, 0, 7)), "%s Dateien löschen."),  # missing: before its next word
        ("Löschen%sDateien.", (), "Löschen %s Dateien."),  # blanks as in the source
        ("Dateien %s löschen %s.", (), "Dateien %s löschen %s."),  # a second copy may be meant
    ],
)
def test_a_model_without_placeholders_is_repaired(
    translation: str, links: tuple[tuple[int, int, int, int], ...], expected: str
) -> None:
    document = open_document("Delete %s files.")
    assert document.segments[0].text == "Delete %s files."
    assert document.segments[0].needs_links
    assert document.render([SegmentTranslation(translation, links=links)]) == expected


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("⦅0⦆ löschen, ⦅1⦆.", "%s löschen, {x}."),
        ("⦅1⦆ löschen, ⦅0⦆.", "{x} löschen, %s."),
        ("⦅1⦆ ⦅1⦆ löschen ⦅2⦆ ⦅0⦆.", "{x} löschen %s."),
        ("löschen ⦅1⦆.", "löschen %s {x}."),
    ],
)
def test_a_model_with_placeholders_copies_them(translation: str, expected: str) -> None:
    document = open_document("Delete %s or {x}.", placeholders=SYMBOLS)
    assert document.segments[0].text == "Delete ⦅0⦆ or ⦅1⦆."
    assert document.render([SegmentTranslation(translation)]) == expected


PLACES = st.integers(0, 20)
GLOSSARY = {"red button": "roter Knopf", "button": "Taste", "Ada": "ADA", "注意力": "attention"}


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["the", *GLOSSARY, "Button", "buttons", "now.", "%s"]), max_size=8), st.integers(0, 50))
def test_a_term_is_always_in_the_output(words: list[str], seed: int) -> None:
    source = " ".join(words)
    for translate in (backwards, anything(seed)):
        for placeholders in ((), SYMBOLS):
            result = text(source, translate, glossary=GLOSSARY, placeholders=placeholders)
            for term, target in GLOSSARY.items():
                assert result.count(target) >= words.count(term)


def test_terms_are_whole_words_and_the_longest_first() -> None:
    source = "The red button, a button and buttons. Button up: 自注意力机制。"
    document = open_document(source, glossary=GLOSSARY, placeholders=tuple(f"⦅{n}⦆" for n in range(8)))
    assert [segment.text for segment in document.segments] == [
        "The red button, a button and buttons.",
        "Button up: 自注意力机制。",
    ]
    assert text(source, backwards, glossary=GLOSSARY).count("Taste") == 2
    assert html("<p>Press <b>button</b></p>", glossary=GLOSSARY) == "<p><b>Taste</b> PRESS</p>"
    assert text("button", glossary=GLOSSARY) == "Taste"


@pytest.mark.parametrize(
    ("translation", "links", "expected"),
    [
        ("Die Ordner des Buches.", ((4, 11, 4, 10), (19, 23, 15, 21)), "Die Ordner des Buches."),  # inflected: kept
        ("Die Buchordner.", ((4, 11, 4, 14), (19, 23, 4, 14)), "Die Buchordner."),  # a compound
        ("Die Ordner der Buchung.", ((4, 11, 4, 10),), "Die Ordner Buch der Buchung."),  # not read from the term
        ("Die Mappen des Buch.", ((4, 11, 4, 10), (19, 23, 15, 19)), "Die Ordner des Buch."),  # another word: replaced
    ],
)
def test_longer_words_with_a_term_are_kept(
    translation: str, links: tuple[tuple[int, int, int, int], ...], expected: str
) -> None:
    document = open_document("The folders of the book.", glossary={"folders": "Ordner", "book": "Buch"})
    assert [segment.text for segment in document.segments] == ["The folders of the book."]
    assert document.render([SegmentTranslation(translation, links=links)]) == expected


def test_names_in_a_glossary_are_hidden_from_the_model() -> None:
    document = open_document("Ask Carpenter.", glossary={"Carpenter": "Carpenter"}, placeholders=SYMBOLS)
    assert [segment.text for segment in document.segments] == ["Ask ⦅0⦆."]


def find_one_by_one(terms: dict[str, str], source: str) -> list[Protected]:
    """The terms in a text, by comparing each word with each term that begins with it."""
    by_word: dict[str, list[tuple[str, str]]] = {}
    for name, target in sorted(terms.items(), key=lambda item: -len(item[0])):
        for term, output in {capitalised(name): capitalised(target), name: target}.items():
            if match := WORD.search(term):
                by_word.setdefault(match[0], []).append((term, terms.get(term, output)))
    found: list[Protected] = []
    for word in WORD.finditer(source):
        start = word.start()
        if found and start < found[-1].end:
            continue
        for term, output in by_word.get(word[0], ()):
            if source.startswith(term, start) and is_word_end(source, start + len(term)):
                found.append(Protected(start, start + len(term), output, is_term=True))
                break
    return found


PIECES = st.lists(st.sampled_from([*"abAB注意 .-'_ßıİ", "ab", "the ", "⦅0⦆", "a b", "注 "]), max_size=8).map("".join)


@settings(max_examples=500)
@given(st.dictionaries(PIECES, st.sampled_from(["x", "y", "éz"]), max_size=8), st.lists(PIECES, max_size=6))
def test_a_glossary_finds_what_a_comparison_with_each_term_finds(terms: dict[str, str], parts: list[str]) -> None:
    usable = {term.strip(): output for term, output in terms.items() if WORD.match(term.strip())}
    for source in (" ".join([*parts, *usable]), "".join([*usable, *parts]), " ".join(parts)):
        assert list(Glossary(usable).find(source)) == find_one_by_one(usable, source)


def test_the_work_of_a_glossary_does_not_grow_with_its_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting(dict[str, str]):
        asked = 0

        def get(self, key: str, default: Any = None) -> Any:
            self.asked += 1
            return super().get(key, default)

    counts = []
    for size in (10, 1000):
        glossary = Glossary({f"one {number:04d}": "x" for number in range(size)})
        outputs = Counting(glossary._outputs)
        monkeypatch.setattr(glossary, "_outputs", outputs)
        assert len(list(glossary.find("one two " * 50 + "one 0007"))) == 1
        counts.append(outputs.asked)
    assert counts == [51, 51]


@pytest.mark.parametrize("glossary", [{"": "x"}, {"a": ""}, {" a": "b"}, {"a\nb": "c"}, {"a": "b" * 1000}])
def test_terms_that_cannot_be_used_are_refused(glossary: dict[str, str]) -> None:
    with pytest.raises(UserError) as error:
        open_document("a", glossary=glossary)
    assert error.value.code in ("bad-glossary", "too-large")


@settings(max_examples=60)
@given(
    st.text("ab ", max_size=20),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.text("XY", max_size=3)), max_size=4),
)
def test_a_rewriting_knows_where_characters_come_from(source: str, parts: list[tuple[int, int, str]]) -> None:
    edits: list[tuple[int, int, str]] = []
    for first, last, new in sorted((min(a, b), max(a, b), new) for a, b, new in parts):
        if last <= len(source) and first >= (edits[-1][1] if edits else 0) and first < last:
            edits.append((first, last, new))
    rewriting = Rewriting.of(source, edits)
    kept = [
        span for place in range(len(source)) for span in remaining((place, place + 1), [edit[:2] for edit in edits])
    ]
    assert [source[slice(*span)] for span in kept] == [rewriting.text[slice(*rewriting.after(span))] for span in kept]
    assert all(rewriting.before(rewriting.after(span)) == span for span in kept)
    for (start, end, new), (before, after) in zip(edits, rewriting.parts, strict=True):
        assert (before, rewriting.text[slice(*after)]) == ((start, end), new)
        if new:
            assert rewriting.before((after[0], after[0] + 1)) == before
