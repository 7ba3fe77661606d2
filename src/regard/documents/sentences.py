"""Spans of a text: sentences, words, and parts that are replaced.

The package `sentencex` of Wikimedia finds the ends of sentences if it is installed; it knows the abbreviations of many
languages. Otherwise `simple_spans` splits after final punctuation. The spans have no blank space around them, and
between two spans there is blank space only, so that a text can be put together again exactly.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from regard.documents.tables import TABLES

Span = tuple[int, int]

WINDOW = 4096
"""Characters that sentencex reads at a time."""
ABBREVIATIONS = frozenset(TABLES["abbreviations"].split())
_END = re.compile(
    r"""(?P<wide>[。！？｡]+[”’」』）】"')]*)"""  # no blank needs to follow
    r"""|(?P<narrow>(?<![.!?…])[.!?…]++(?:[”’»"')\]]|[ \u00a0\u202f]»)*)(?=\s)"""  # a long row of marks is read once
)
_WORD_BEFORE = re.compile(r"[^\s(\[\"'“«]*$")
_VISIBLE = re.compile(r"\S")
_MARKER = re.compile(r"(?:[-–—*+•·‣▪◦]\s+|\(?\w\)\s+|\d{1,3}\)\s+|[-–—](?=[\"“«¿¡]?[A-ZÀ-Þ]))(?=\S)")
"""What begins an item of a list, or a line of a dialogue."""
_TABS = re.compile(r"\t+")
_LAST_MARKS = ".!?:;…。！？：；"


def sentence_spans(text: str, language: str = "") -> list[Span]:
    """The (start, end) of every sentence, in order."""
    try:
        from sentencex import get_sentence_boundaries  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return simple_spans(text)
    code = language.split("-")[0].lower() or "en"
    spans: list[Span] = []
    for start, end in windows(text):
        found = get_sentence_boundaries(code, text[start:end])
        cuts = ((start + item["start_index"], start + item["end_index"]) for item in found)
        spans += without_blanks(text, cuts)
    return spans


def line_spans(text: str, language: str, breaks: Iterable[int] = ()) -> list[Span]:
    """The sentences of a text; one ends at each of some places, and none has the marker of a list item."""
    spans: list[Span] = []
    for start, end in pairwise([0, *breaks, len(text)]):
        found = sentence_spans(text[start:end], language)
        for number, (first, last) in enumerate(found):
            marker = None if number else _MARKER.match(text, start + first, start + last)
            spans.append((marker.end() if marker else start + first, start + last))
    return spans


def tab_ends(line: str) -> list[int]:
    """The places in a line after its tabs, which are between the cells of a table; not after that of a list item."""
    marker = _MARKER.match(line, len(line) - len(line.lstrip()))
    return [match.end() for match in _TABS.finditer(line, marker.end() if marker else 0)]


def ends_line(text: str, place: int, is_wrapped: bool = False) -> bool:
    """True if a sentence ends at a line break: before a list item, after a final mark, or if no small letter follows.

    If lines are wrapped, as those of subtitles are, only list items and dialogues begin at a break.
    """
    following = _VISIBLE.search(text, place)
    if following is None or _MARKER.match(text, following.start()):
        return True
    before = text[max(0, place - 20) : place].rstrip()
    return not is_wrapped and (before[-1:] in _LAST_MARKS or not following[0].islower())


def windows(text: str) -> Iterator[Span]:
    """The spans of parts of a long text, cut where a sentence certainly ends, else at a blank.

    The time that sentencex needs grows with the square of the length of some texts.
    """
    start = 0
    while len(text) - start > WINDOW:
        half, end = start + WINDOW // 2, start + WINDOW
        ends = [match.end() for match in _END.finditer(text, half, end) if _ends_sentence(text, match)]
        blank = max(text.rfind(" ", half, end), text.rfind("\n", half, end)) + 1
        cut = ends[-1] if ends else blank or end
        yield start, cut
        start = cut
    yield start, len(text)


def simple_spans(text: str) -> list[Span]:
    """Spans that end at 。！？, or at . ! ? … before blank space, but not after an abbreviation or initial."""
    cuts = [0, *(match.end() for match in _END.finditer(text) if _ends_sentence(text, match)), len(text)]
    return without_blanks(text, pairwise(cuts))


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    if match["wide"] or match["narrow"] != ".":
        return True
    following = _VISIBLE.search(text, match.end())
    if following and following[0].islower():
        return False
    word = _WORD_BEFORE.search(text[max(0, match.start() - 20) : match.start()])
    before = word[0] if word else ""
    ordinal = before.isdigit() and len(before) <= 2  # "am 3. Mai"
    initial = len(before) == 1 and before.isupper()
    return not (before.lower() in ABBREVIATIONS or ordinal or initial)


def without_blanks(text: str, spans: Iterable[Span]) -> list[Span]:
    """The spans without the blank space around them; spans of blank space only are left out."""
    kept = []
    for start, end in spans:
        part = text[start:end]
        if stripped := part.strip():
            first = start + len(part) - len(part.lstrip())
            kept.append((first, first + len(stripped)))
    return kept


# ---- words ----------------------------------------------------------------------------------------------------------

IDEOGRAPH = (
    r"\u2e80-\u2fff\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Characters of Chinese and Japanese, which are written without spaces."""
WORD = re.compile(rf"⦅\d+⦆|[{IDEOGRAPH}]|[^\W_{IDEOGRAPH}]+(?:['’][^\W_{IDEOGRAPH}]+)*|[^\w\s]|_")
"""A placeholder, a word with its apostrophes, a character of Chinese or Japanese, or a punctuation mark."""
WIDE = str.maketrans("。，！？：；（）【】％", ".,!?:;()[]%")
"""Punctuation of Chinese as that of Latin scripts."""
_WIDE_CHARACTER = re.compile(rf"[{IDEOGRAPH}\u3000-\u303f\uff00-\uff65”’…—]")


def word_spans(text: str) -> list[Span]:
    """The span of every word."""
    return [match.span() for match in WORD.finditer(text)]


def is_wide(character: str) -> bool:
    """True for a character of Chinese or Japanese, also punctuation: no space is written beside it."""
    return bool(_WIDE_CHARACTER.match(character))


def equal_words(source: str, target: str) -> list[tuple[Span, Span]]:
    """The spans of words and punctuation marks that each of two texts has once: they translate each other."""
    sides = []
    for text in (source, target):
        spans: dict[str, list[Span]] = {}
        for match in WORD.finditer(text):
            spans.setdefault(match[0].translate(WIDE), []).append(match.span())
        sides.append({word: found[0] for word, found in spans.items() if len(found) == 1})
    return [(span, sides[1][word]) for word, span in sides[0].items() if word in sides[1]]


# ---- replaced parts --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rewriting:
    """The new text, and the spans of every replaced part: (before, after), in order."""

    text: str
    parts: tuple[tuple[Span, Span], ...]

    @classmethod
    def of(cls, text: str, parts: Iterable[tuple[int, int, str]]) -> "Rewriting":
        """Replace parts (start, end, new text), which are in order and do not overlap."""
        pieces: list[str] = []
        spans: list[tuple[Span, Span]] = []
        copied = length = 0
        for start, end, new in parts:
            pieces += [text[copied:start], new]
            length += start - copied
            spans.append(((start, end), (length, length + len(new))))
            length, copied = length + len(new), end
        return cls("".join([*pieces, text[copied:]]), tuple(spans))

    def before(self, span: Span) -> Span:
        """The span of the old text for one of the new text; a replaced part is one unit."""
        return self._other(span, 1, 0)

    def after(self, span: Span) -> Span:
        """The span of the new text for one of the old text."""
        return self._other(span, 0, 1)

    def _other(self, span: Span, this: int, other: int) -> Span:
        start, end = span
        first = self._part(start, this)
        if first is not None and first[this][0] <= start < first[this][1]:
            new_start = first[other][0]
        else:
            new_start = start + (first[other][1] - first[this][1] if first else 0)
        last = self._part(max(start, end - 1), this)
        if last is not None and last[this][0] < end <= last[this][1]:
            new_end = last[other][1]
        else:
            new_end = end + (last[other][1] - last[this][1] if last else 0)
        return new_start, max(new_start, new_end)

    def _part(self, place: int, this: int) -> tuple[Span, Span] | None:
        """The last part that begins at a place or before it."""
        index = bisect_right(self.parts, place, key=lambda part: part[this][0])
        return self.parts[index - 1] if index else None


def remaining(span: Span, replaced: Sequence[Span]) -> Iterator[Span]:
    """What is left of a span without the replaced spans, which are in order."""
    start, end = span
    index = max(0, bisect_left(replaced, start, key=lambda item: item[0]) - 1)
    while index < len(replaced) and replaced[index][0] < end:
        first, last = replaced[index]
        if start < first:
            yield start, first
        start, index = max(start, last), index + 1
    if start < end:
        yield start, end


def is_replaced(span: Span, replaced: Sequence[Span]) -> bool:
    """True if a span overlaps with one of the replaced spans, which are in order."""
    index = bisect_left(replaced, span[1], key=lambda item: item[0])
    return any(start < span[1] and span[0] < end for start, end in replaced[max(0, index - 2) : index])
