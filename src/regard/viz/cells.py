"""How much room text takes in a terminal: a letter one cell, 注 two, a combining mark none.

Columns line up only when text is measured in cells and never cut inside what a reader sees as one character. The rules
are those of Unicode's East Asian Width (UAX #11) and the parts of its text segmentation (UAX #29) that terminals draw
as one glyph: combining marks, variation selectors, joined emoji, skin tones, flags and Hangul syllables in jamo.
"""

import unicodedata

ELLIPSIS = "…"
JOINER = "\u200d"
EMOJI_STYLE = "\ufe0f"


def visible(text: str) -> str:
    """`text` with nothing in it that moves the cursor, changes colours or reverses the line.

    Spaces and control characters get a visible stand-in; invisible formatting (other than the joiner that holds emoji
    together) goes. So a piece read from a stranger's file cannot break, or take over, the picture it stands in.
    """
    shown = []
    for char in text:
        category = unicodedata.category(char)
        if char == " " or category in ("Zs", "Zl", "Zp"):
            shown.append("␣")
        elif category == "Cc":
            code = ord(char)
            shown.append(chr(0x2400 + code) if code < 32 else "␡" if code == 127 else "\ufffd")
        elif category in ("Cs", "Cn", "Co"):
            shown.append("\ufffd")
        elif category != "Cf" or char == JOINER:
            shown.append(char)
    return "".join(shown)


def clusters(text: str) -> list[str]:
    """Split `text` into what a reader sees as single characters."""
    found: list[str] = []
    for char in text:
        if found and _belongs(char, found[-1]):
            found[-1] += char
        else:
            found.append(char)
    return found


def width(text: str) -> int:
    """The number of terminal cells `text` takes."""
    return sum(_cluster_width(cluster) for cluster in clusters(text))


def cut(text: str, limit: int) -> str:
    """`text` in at most `limit` cells, ending in … where something was left off."""
    if width(text) <= limit:
        return text
    kept, room = "", limit - 1
    for cluster in clusters(text):
        room -= _cluster_width(cluster)
        if room < 0:
            break
        kept += cluster
    return kept + ELLIPSIS if limit > 0 else ""


def pad_left(text: str, cells: int) -> str:
    """`text` pushed to the right edge of a column of `cells`."""
    return " " * (cells - width(text)) + text


def pad_right(text: str, cells: int) -> str:
    """`text` at the left edge of a column of `cells`."""
    return text + " " * (cells - width(text))


def _belongs(char: str, cluster: str) -> bool:
    """Whether `char` is drawn onto the glyph that `cluster` has begun."""
    if _is_zero_width(char):
        return True
    if cluster.endswith(JOINER):
        return unicodedata.category(char) == "So" and unicodedata.category(cluster[0]) == "So"
    if "\U0001f3fb" <= char <= "\U0001f3ff":  # skin tones
        return unicodedata.east_asian_width(cluster[0]) == "W" and unicodedata.category(cluster[0]) == "So"
    return _is_flag_letter(char) and len(cluster) == 1 and _is_flag_letter(cluster)


def _is_zero_width(char: str) -> bool:
    jamo = "\u1160" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7ff"  # vowels and finals of a Hangul syllable
    return jamo or char == JOINER or unicodedata.category(char) in ("Mn", "Me", "Mc")


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _cluster_width(cluster: str) -> int:
    if _is_zero_width(cluster[0]):  # a mark with nothing to stand on
        return 0
    wide = unicodedata.east_asian_width(cluster[0]) in ("W", "F")
    flag = len(cluster) == 2 and _is_flag_letter(cluster[0]) and _is_flag_letter(cluster[1])
    return 2 if wide or flag or EMOJI_STYLE in cluster else 1
