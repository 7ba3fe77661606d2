"""Text in terminal cells: a Latin letter takes one cell, 注 two, a combining mark none.

Columns line up only if text is measured in cells and is never cut inside a grapheme, which is shown as one
character. The rules are those of East Asian Width (UAX #11) and the parts of text segmentation (UAX #29) that terminals
draw as one glyph: combining marks, variation selectors, joined emoji, skin tones, flags and Hangul syllables in jamo.
(rich.cells splits flags, and drops the letter after a joiner, which Indic scripts use.)
"""

import unicodedata

ELLIPSIS = "…"
JOINER = "\u200d"
EMOJI_STYLE = "\ufe0f"


def visible(text: str) -> str:
    """Show spaces and control characters as signs, e.g. ␣, and remove invisible formatting characters.

    Spaces and control characters become visible signs; invisible formatting (other than the joiner of emoji) is
    removed. So untrusted text cannot break the output that it is shown in.
    """
    characters = []
    for char in text:
        category = unicodedata.category(char)
        if char == " " or category in ("Zs", "Zl", "Zp"):
            characters.append("␣")
        elif category == "Cc":
            code = ord(char)
            characters.append(chr(0x2400 + code) if code < 32 else "␡" if code == 127 else "\ufffd")
        elif category in ("Cs", "Cn", "Co"):
            characters.append("\ufffd")
        elif category != "Cf" or char == JOINER:
            characters.append(char)
    return "".join(characters)


def graphemes(text: str) -> list[str]:
    """Split `text` into graphemes."""
    result: list[str] = []
    for char in text:
        if result and _extends(char, result[-1]):
            result[-1] += char
        else:
            result.append(char)
    return result


def width(text: str) -> int:
    """Return the number of terminal cells of `text`."""
    return sum(_grapheme_width(grapheme) for grapheme in graphemes(text))


def cut(text: str, limit: int) -> str:
    """Cut `text` to at most `limit` cells; if something is cut off, it ends in …"""
    if width(text) <= limit:
        return text
    start, available = "", limit - 1
    for grapheme in graphemes(text):
        available -= _grapheme_width(grapheme)
        if available < 0:
            break
        start += grapheme
    return start + ELLIPSIS if limit > 0 else ""


def pad_left(text: str, cells: int) -> str:
    """Right-align `text` in a column of `cells`."""
    return " " * (cells - width(text)) + text


def pad_right(text: str, cells: int) -> str:
    """Left-align `text` in a column of `cells`."""
    return text + " " * (cells - width(text))


def _extends(char: str, grapheme: str) -> bool:
    """True if `char` belongs to the grapheme before it."""
    if _is_zero_width(char):
        return True
    if grapheme.endswith(JOINER):
        return unicodedata.category(char) == "So" and unicodedata.category(grapheme[0]) == "So"
    if "\U0001f3fb" <= char <= "\U0001f3ff":  # skin tones
        return unicodedata.east_asian_width(grapheme[0]) == "W" and unicodedata.category(grapheme[0]) == "So"
    return _is_flag_letter(char) and len(grapheme) == 1 and _is_flag_letter(grapheme)


def _is_zero_width(char: str) -> bool:
    jamo = "\u1160" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7ff"  # vowels and finals of a Hangul syllable
    return jamo or char == JOINER or unicodedata.category(char) in ("Mn", "Me", "Mc")


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _grapheme_width(grapheme: str) -> int:
    if _is_zero_width(grapheme[0]):  # a combining mark without a base
        return 0
    wide = unicodedata.east_asian_width(grapheme[0]) in ("W", "F")
    flag = len(grapheme) == 2 and _is_flag_letter(grapheme[0]) and _is_flag_letter(grapheme[1])
    return 2 if wide or flag or EMOJI_STYLE in grapheme else 1
