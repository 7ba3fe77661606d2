"""Numbers that a sentence and its translation must share.

    3,277,917   3.277.917   3 277 917       one number in several languages
    10:45       10.45                       one time
    3.27.917    37044 for 3704 0044         not the same numbers

A translation with other numbers is searched again with simple ones in their places, which a model copies, or with
placeholders; then the numbers of the source are written there.

Languages write some numbers with other digits, and these are not compared: 5 pm is 17 Uhr, 5月 is May.
"""

import re
from collections import Counter
from collections.abc import Sequence

from regard.documents.protecting import Protected
from regard.documents.restoring import MaskedSentence
from regard.documents.sentences import IDEOGRAPH
from regard.documents.tables import TABLES

_NUMBER = re.compile(
    r"⦅\d+⦆|(?<![A-Za-z\d])\d{1,3}(?:['’ \u00a0\u202f]\d{3})+(?!\.?\d)(?:,\d+)?"  # 3 277 917,5
    r"|\d+(?:[.,:]\d+)*"  # 3,277,917.5
)
_SEPARATOR = re.compile(r"\D")
_SCALED = re.compile(
    r"(\d[\d.,]*)[ -]?(?:[月十百千万亿]|hundred|thousand|tausend|mil(?:le)?\b|mill?i(?:on|ón|ard)|[bt]rilli)",
    re.IGNORECASE,
)
_AFTERNOON = re.compile(
    r"(?<!\d)(\d{1,2})((?:[:.]\d\d)?)(?=\s?p\.?\s?m\b)|(?<=下午)\s?(\d{1,2})((?:[:.]\d\d)?)", re.IGNORECASE
)
_HAN = re.compile(rf"[{IDEOGRAPH}]")
_WORD = r"(?:v|[A-Z]{1,4})?\d+(?:[A-Z]{1,3}(?![a-z]))?"
_PROTECTED = re.compile(
    rf"⦅\d+⦆|(?:(?<![\w+])\+|(?<![\w−-])[−-])?(?<![A-Za-z]){_WORD}"
    rf"(?:[ .,:/'’\u00a0\u202f–-]{_WORD}|\s\(\d+\)\s?{_WORD})*"
)
EXTRA_DIGITS = 3
"""A number with as many digits that only the translation has is wrong; a smaller one may be a word: two, May."""


STAND_INS = ("387", "462", "594", "638", "746", "859", "273", "915")
"""Numbers that a model copies: sentences with them have the same grammar."""
SEPARATORS: dict[str, str] = TABLES["separators"]
"""The thousands and the decimal separator of languages."""


def mask_numbers(text: str, symbols: Sequence[str], language: str) -> MaskedSentence:
    """A sentence with symbols for its numbers, as many as there are, to be translated to a language."""
    found = (match for match in _PROTECTED.finditer(text) if match[0][0] != "⦅")
    parts = [Protected(*match.span(), localised(match[0], language)) for match in found]
    return MaskedSentence.of(text, parts, [symbol for symbol in symbols if symbol not in text])


def localised(number: str, language: str) -> str:
    """A number with the separators of a language, if those that it has leave no doubt: 3,277,917 or 5,812.25."""
    normal, separators = normal_form(number), SEPARATORS.get(language)
    if separators is None or len(_SEPARATOR.findall(number)) < 2 or normal == number:
        return number
    whole, _, fraction = normal.partition(".")
    return f"{int(whole):,}".replace(",", separators[0]) + (separators[1] + fraction if fraction else "")


def normal_form(number: str) -> str:
    """A number without its thousands separators and with a decimal point; as it is if its separators make no sense."""
    groups, marks = _SEPARATOR.split(number), _SEPARATOR.findall(number)
    is_grouped = len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:-1]) and len(set(marks[:-1])) <= 1
    if not marks or not is_grouped:
        return number
    if len(groups[-1]) == 3 and marks[-1] == marks[0]:
        return "".join(groups)
    return number if marks[-1] in marks[:-1] else f"{''.join(groups[:-1])}.{groups[-1]}"


def count_numbers(text: str) -> Counter[str]:
    """How often a text has each number; placeholders are none."""
    return Counter(normal_form(match[0]) for match in _NUMBER.finditer(text) if match[0][0] != "⦅")


def numbers_agree(source: str, target: str) -> bool:
    """True if a translation has every number of its source, and no long number that is not there."""
    expected = count_numbers(source)
    if not expected:
        return True
    found = count_numbers(target)
    missing, extra = expected - found, found - expected
    if _HAN.search(source + target):
        missing -= Counter(normal_form(match[1].strip(".,")) for match in _SCALED.finditer(source))
        extra -= Counter(normal_form(match[1].strip(".,")) for match in _SCALED.finditer(target))
    for text, shorter, longer in ((source, missing, extra), (target, extra, missing)):
        for match in _AFTERNOON.finditer(text):
            hour, minutes = match[1] or match[3], match[2] or match[4] or ""
            if longer[later := normal_form(f"{int(hour) + 12}{minutes}")]:
                shorter.subtract([normal_form(hour + minutes)])
                longer.subtract([later])
    missing, extra = +missing, +extra
    return not missing and not any(len(number) >= EXTRA_DIGITS for number in extra)
