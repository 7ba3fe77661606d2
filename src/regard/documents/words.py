"""Words of a text and their spans: what links connect and tags enclose."""

import re

from regard.documents.sentences import Span

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
