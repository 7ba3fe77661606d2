"""Subtitles (.srt, .vtt): read back by other libraries; all but the text stays, and damaged files are refused."""

import re

import pytest
import srt  # type: ignore[import-not-found, import-untyped, unused-ignore]
import webvtt  # type: ignore[import-not-found, import-untyped, unused-ignore]
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.documents.translators import anything, identity, refused, translated

SUBTITLES = """1
00:00:01,000 --> 00:00:02,500
Hello <i>my dear</i>
friend.

2
00:00:03,000 --> 00:00:04,000 X1:10
{\\an8}- Who? - Tom & Jerry.
- Hi!

3
00:00:05,000 --> 00:00:06,000
♪ 12 ♪
"""


def test_subtitles_keep_numbers_and_times() -> None:
    assert translated("a.srt", SUBTITLES.encode(), identity) == SUBTITLES.encode()
    result = list(srt.parse(translated("a.srt", SUBTITLES.encode()).decode()))
    before = list(srt.parse(SUBTITLES))
    assert [(item.index, item.start, item.end) for item in result] == [(i.index, i.start, i.end) for i in before]
    assert result[0].content == ".\nFRIEND <i>DEAR MY</i> HELLO"
    assert result[2].content == before[2].content


@settings(max_examples=40)
@given(st.integers(0, 1000))
def test_no_translation_breaks_subtitles(seed: int) -> None:
    translate = anything(seed)
    crlf = SUBTITLES.replace("\n", "\r\n")
    assert translated("a.srt", crlf.encode(), identity) == crlf.encode()
    for text in (SUBTITLES, crlf):
        result = list(srt.parse(translated("a.srt", text.encode(), translate).decode()))
        assert [item.index for item in result] == [1, 2, 3]


def test_an_empty_cue_does_not_take_the_next_one() -> None:
    cues = ["1\n00:00:01,000 --> 00:00:02,000\n", "2\n00:00:03,000 --> 00:00:04,000\none two\n"]
    for gap in ("", "\n", " \n\n"):
        result = translated("a.srt", gap.join(cues).encode())
        assert result.decode() == gap.join(cues).replace("one two", "TWO ONE")
    assert list(srt.parse(result.decode()))[1].content == "TWO ONE"


def test_text_after_a_blank_line_belongs_to_its_cue() -> None:
    text = "1\n00:00:01,000 --> 00:00:02,000\none\n\ntwo words\n\n2\n00:00:03,000 --> 00:00:04,000\nthree\n"
    result = translated("a.srt", text.encode()).decode()
    assert [item.content for item in srt.parse(result)] == ["ONE\n\nWORDS TWO", "THREE"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_odd_subtitles_stay_as_they_are(end: str, bom: bytes) -> None:
    odd = (
        "\n\n7\n00:00:01,000-->00:00:02,000\n  one\n\n00:00:03.0 --> 00:00:04.5\n\n9\n0:00:05 --> 0:00:06\n-- Go --> on"
    )
    for text in (odd, odd + "\n", "", "\n \n"):
        content = bom + text.replace("\n", end).encode()
        assert translated("a.srt", content, identity) == content
        assert re.findall(rb"\d[^\r\n]*-->[^\r\n]*", translated("a.srt", content)) == re.findall(
            rb"\d[^\r\n]*-->[^\r\n]*", content
        )


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("one two\n", "line 1"),
        ("1\n00:00:01,000 -> 00:00:02,000\none\n", "line 1"),
        ("1\n00:00:01,000 --> 00:00:02,000\none\n\n2\n00:00:x3,000 --> 00:00:04,000\ntwo\n", "line 6"),
        ("1\r\n00:00:01,000 --> never\r\none\r\n", "line 2"),
    ],
)
def test_subtitles_without_valid_times_are_refused(text: str, where: str) -> None:
    assert refused("a.srt", text.encode(), where) == "bad-line"


# ---- WebVTT ----------------------------------------------------------------------------------------------------------

VTT = """WEBVTT - A title
Kind: captions

STYLE
::cue(b) { color: red }

NOTE This is a note
in two lines

intro
00:01.000 --> 00:02.500 align:start position:10%
<v.loud Ann Bee>Hello <i.x>my dear</i>
friend.</v>

00:00:03.000 --> 00:00:04.000
<v Bob>Who &amp; what? <00:00:03.500>Tell <c.yellow>me</c> & them

NOTE one more

4
00:05.000 --> 00:06.000

00:06.000 --> 00:07.000
&lt;12&gt;"""


def vtt_blocks(text: str) -> list[str]:
    """All lines but the text of cues."""
    is_text, kept = False, []
    for line in text.splitlines():
        is_text = line != "" and (is_text or "-->" in line)
        if not is_text or "-->" in line:
            kept.append(line)
    return kept


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_vtt_keeps_everything_but_the_text_of_cues(end: str) -> None:
    text = VTT.replace("\n", end)
    for content in (text.encode(), b"\xef\xbb\xbf" + text.encode(), (text + end).encode(), b"WEBVTT"):
        assert translated("a.vtt", content, identity) == content
    result = translated("a.vtt", VTT.encode()).decode()
    assert vtt_blocks(result) == vtt_blocks(VTT)
    assert "<v.loud Ann Bee>.\nFRIEND <i.x>DEAR MY</i> HELLO</v>" in result
    assert result.endswith("&lt;12&gt;")


@settings(max_examples=40)
@given(st.integers(0, 1000))
def test_no_translation_breaks_vtt(seed: int) -> None:
    translate = anything(seed, ("x", "Yy", "zzz.", "你", "<b", "-->", "&", "\n\n", "⦅0⦆"))
    result = translated("a.vtt", VTT.encode(), translate).decode()
    assert vtt_blocks(result) == vtt_blocks(VTT)
    before, after = (webvtt.from_string(text).captions for text in (VTT, result))
    assert [(cue.start, cue.end, cue.identifier) for cue in after] == [(c.start, c.end, c.identifier) for c in before]
    for tag in ("<v.loud Ann Bee>", "<i.x>", "</i>", "</v>", "<v Bob>", "<00:00:03.500>", "<c.yellow>", "</c>"):
        assert result.count(tag) == 1
    assert result.count("&amp;") == 1  # copied exactly once


def test_files_that_are_not_vtt_are_refused() -> None:
    assert refused("a.vtt", b"00:01.000 --> 00:02.000\none\n", "line 1") == "bad-line"
    assert refused("a.vtt", b"WEBVTTX\n\none\n", "line 1") == "bad-line"
    assert refused("a.vtt", b"WEBVTT\n\n00:01.000 --> \none\n", "line 3") == "bad-line"
