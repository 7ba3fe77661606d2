"""Scripts of texts: a model does not know the letters of other scripts than those of its languages."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache

from regard.documents.tables import TABLES

LANGUAGES = {name: frozenset(codes.split()) for name, codes in TABLES["scripts"].items()}
"""The languages of each script, by the first word of its letters' Unicode names."""
MAX_CHARACTERS = 1000
"""The beginning of a text that is read."""


def count_scripts(text: str) -> Counter[str]:
    """How many letters of each script a text has."""
    counts = Counter[str]()
    for letter, count in Counter(text[:MAX_CHARACTERS]).items():  # a text has few different letters
        if script := script_of(letter):
            counts[script] += count
    return counts


@cache
def script_of(character: str) -> str:
    """The script of a letter; "" for a character that is no letter, or in no script of the table."""
    script = unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""
    return script if script in LANGUAGES else ""


def is_unknown(text: str, languages: Iterable[str]) -> bool:
    """True if most letters of a text are in scripts of none of the languages; False if the table lacks a language."""
    if text.isascii():
        return False
    codes, counts = {code.split("-")[0].lower() for code in languages}, count_scripts(text)
    foreign = sum(count for script, count in counts.items() if not LANGUAGES[script] & codes)
    return 2 * foreign > counts.total() and codes <= frozenset[str]().union(*LANGUAGES.values())
