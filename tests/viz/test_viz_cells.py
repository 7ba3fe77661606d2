"""Room in terminal cells: what a width is, and that cutting and padding keep to it."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from regard.viz.cells import cut, graphemes, pad_left, pad_right, visible, width

MODEST = settings(max_examples=150)
LETTERS = st.sampled_from("aé中文한カＡ。ßжשع½")
MARKS = st.sampled_from("\u0301\u0308\u0323\u0591\u064b")
EMOJI = st.sampled_from(["🎉", "👍🏽", "👨\u200d👩\u200d👧", "❤\ufe0f", "🇨🇳"])
GLYPHS = st.one_of(LETTERS, st.builds(str.__add__, LETTERS, MARKS), EMOJI)


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("", 0),
        ("cat", 3),
        ("注意", 4),
        ("ﾊﾛ", 2),
        ("Ａ", 2),
        ("e\u0301", 1),
        ("한국", 4),
        ("\u1112\u1161\u11ab", 2),
        ("👍🏽", 2),
        ("👍\ufe0f🏽", 2),
        ("👨\u200d👩\u200d👧", 2),
        ("🇨🇳🇫🇷", 4),
        ("❤\ufe0f", 2),
        ("\u0301", 0),
        ("हिन्दी", 3),
    ],
)
def test_known_widths(text: str, cells: int) -> None:
    assert width(text) == cells


@MODEST
@given(st.lists(GLYPHS, max_size=12))
def test_one_glyph_is_one_grapheme(glyphs: list[str]) -> None:
    text = " ".join(glyphs)
    assert [c for c in graphemes(text) if c != " "] == glyphs
    assert width(text) == sum(map(width, glyphs)) + text.count(" ")


@MODEST
@given(st.lists(st.one_of(LETTERS, st.builds(str.__add__, LETTERS, MARKS)), max_size=12))
def test_widths_agree_with_rich(glyphs: list[str]) -> None:
    assert width("".join(glyphs)) == cell_len("".join(glyphs))


@MODEST
@given(st.text(max_size=30))
def test_graphemes_contain_all_characters(text: str) -> None:
    assert "".join(graphemes(text)) == text


@MODEST
@given(st.lists(GLYPHS, max_size=12), st.integers(0, 12))
def test_cut_fits_and_ends_at_a_whole_glyph(glyphs: list[str], limit: int) -> None:
    text = "".join(glyphs)
    short = cut(text, limit)
    assert width(short) <= limit
    if width(text) <= limit:
        assert short == text
    elif limit:
        kept = graphemes(short.removesuffix("…"))
        assert short.endswith("…")
        assert kept == graphemes(text)[: len(kept)]


@MODEST
@given(st.lists(GLYPHS, max_size=6))
def test_padding_fills_the_column(glyphs: list[str]) -> None:
    text = "".join(glyphs)
    assert width(pad_left(text, 20)) == width(pad_right(text, 20)) == 20


@MODEST
@given(st.text(max_size=30))
def test_visible_text_cannot_move_the_cursor(text: str) -> None:
    categories = {unicodedata.category(c) for c in visible(text) if c != "\u200d"}
    assert not categories & {"Cc", "Cf", "Cs", "Cn", "Zs", "Zl", "Zp"}


def test_stand_ins_for_what_cannot_be_seen() -> None:
    assert visible("a b\tc\x1b[31m\x7f") == "a␣b␉c␛[31m␡"
    assert visible("\u202eabc\u200b") == "abc"
