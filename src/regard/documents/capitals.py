"""Lowers sentences in capitals, of which models have seen few, and writes their translations in capitals again.

DO NOT ENTER  ->  Do not enter  ->  Nicht betreten  ->  NICHT BETRETEN
"""

import re

_LETTERS = re.compile(r"[^\W\d_]+")
_I = re.compile(r"\bi\b")
LONG_WORD = 5
"""A single word with fewer letters may be an abbreviation, which means something else in lowercase: US, IT, WHO."""


def is_upper(text: str) -> bool:
    """True if all letters are capitals; "我用USB" has letters that could not be."""
    return text.isupper() and all(letter.isupper() for letter in text if letter.isalpha())


def in_capitals(text: str) -> bool:
    """True if a text is written in capitals, and is not one short word."""
    if not is_upper(text):
        return False
    words = _LETTERS.findall(text)
    return len(words) > 1 or len(words[0]) >= LONG_WORD


def without_capitals(text: str, language: str | None) -> str:
    """A sentence in lowercase with a capital at its beginning; as many characters as before."""
    small = "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)
    first = _LETTERS.search(small)
    if first is not None:
        start = first.start()
        small = small[:start] + text[start] + small[start + 1 :]
    return _I.sub("I", small) if language in (None, "en") else small
