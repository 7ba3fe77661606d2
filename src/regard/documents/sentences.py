"""Spans of sentences and words: what a model translates, and what links connect and tags enclose.

The package `sentencex` of Wikimedia finds the ends of sentences if it is installed; it knows the abbreviations of many
languages. Otherwise `simple_spans` splits after final punctuation. The spans have no blank space around them, and
between two spans there is blank space only, so that a text can be put together again exactly.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

Span = tuple[int, int]

WINDOW = 4096
"""Characters that sentencex reads at a time."""
_ABBREVIATIONS = (
    "a.m p.m e.g i.e etc vs cf al fig no nos vol pp mr mrs ms dr prof sr jr st co inc ltd corp gen col sgt rev hon "
    "jan feb mar apr jun jul aug sep sept oct nov dec approx dept est ext min max "
    "z.b d.h u.a u.s.w usw bzw ca evtl ggf inkl nr s str tel vgl z.t bspw abs art bd hr fr "
    "m mm mme mlle me p.ex c.-à-d env chap éd "
    "sra srta dra ud uds p.ej pág núm"
)
ABBREVIATIONS = frozenset(re.findall(r"\S+", _ABBREVIATIONS))
_END = re.compile(
    r"""(?P<wide>[。！？｡]+[”’」』）】"')]*)"""  # no blank needs to follow
    r"""|(?P<narrow>(?<![.!?…])[.!?…]++(?:[”’»"')\]]|[ \u00a0\u202f]»)*)(?=\s)"""  # a long row of marks is read once
)
_WORD_BEFORE = re.compile(r"[^\s(\[\"'“«]*$")
_VISIBLE = re.compile(r"\S")


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
