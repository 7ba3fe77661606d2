"""A translation with the case and the final mark of its source, as LibreTranslate writes it.

    source             translation       result
    Hello              hallo Welt.       Hallo Welt      the first letter and the final mark follow the source
    HELLO              Hallo             HALLO
    hello              Hola              hola            but not in a language that writes its nouns with a capital

Clients of LibreTranslate translate labels, names and headings, and rely on it. The rules were found by experiments with
LibreTranslate 1.9.6.
"""

WIDE = {".": "。", "!": "！", "?": "？", ",": "，", ";": "；"}
"""Marks, and the same marks in Chinese and Japanese."""
SAME = {**{mark: mark for mark in WIDE}, **{wide: mark for mark, wide in WIDE.items()}}
IDEOGRAPHIC = frozenset({"zh", "zt", "ja"})
CAPITAL_NOUNS = frozenset({"de", "lb"})
"""Languages in which lower case would misspell nouns; their translations of a lower-case source stay as they are."""


def match_source_style(source: str, translation: str, target: str = "") -> str:
    """The translation with the final mark and the case of the source; `target` is the code of its language."""
    source, body = source.strip(), translation.strip()
    if not source or not body:
        return translation
    before, _, after = translation.partition(body)  # whitespace around the text stay
    return before + match_case(source, match_mark(source, body, target), target) + after


def match_mark(source: str, translation: str, target: str = "") -> str:
    """The translation with the final mark of the source as its language writes it, or without one."""
    mark = SAME.get(source[-1], "")
    if mark and SAME.get(translation[-1]) == mark:
        return translation
    written = WIDE.get(mark, "") if target.partition("-")[0] in IDEOGRAPHIC else mark
    return (translation[:-1] if translation[-1] in SAME else translation) + written


def match_case(source: str, translation: str, target: str) -> str:
    """The translation in upper case, in lower case, or with a first letter like that of the source."""
    if source.isupper():
        return translation.upper()
    if source.islower():
        return translation if target in CAPITAL_NOUNS else translation.lower()
    if source[0].isupper():
        return translation[:1].upper() + translation[1:]
    return translation[:1].lower() + translation[1:] if source[0].islower() else translation
