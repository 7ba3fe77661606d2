"""Texts that are surely in a language, by their most frequent words: much faster than to identify it.

    we should not forget that this is new         en: own words in both halves, no foreign ones
    we should not vergessen, dass das neu ist     in doubt: the second half has foreign words

A word is own if it is frequent in the language and in no other one, and foreign if it is frequent in another language
and not in this one. Chinese needs no words: its characters suffice, if no Japanese or Korean letter is among them.
"""

import re
from functools import cache
from pathlib import Path

from regard.documents.scripts import count_scripts
from regard.reading import read_toml

WORD = re.compile(r"(?<!\w)[^\W\d_]+(?!\w)")
MIN_OWN, FOREIGN = 4, -2
"""The sum of a text that is surely in its language, in which an own word counts 1, and what a foreign word counts. The
ledger compares the decisions with those of the classifier, also for texts of two languages (Scale: cleaning)."""
_CHINESE, _LATIN_WORD = "zh", re.compile(r"[A-Za-zÀ-ɏ]+")


def is_surely(text: str, language: str) -> bool:
    """True if both halves of a text have words of its language and few of others; False if that is in doubt."""
    if language == _CHINESE:
        scripts, latin = count_scripts(text), len(_LATIN_WORD.findall(text))
        return scripts["CJK"] > latin and not scripts.keys() & {"HIRAGANA", "KATAKANA", "HANGUL"}
    weights = word_weights(language)
    words = [weights.get(word, 0) for word in WORD.findall(text.lower())] if weights else []
    first, second = sum(words[: len(words) // 2]), sum(words[len(words) // 2 :])
    return first > 0 and second > 0 and first + second >= MIN_OWN


@cache
def word_weights(language: str) -> dict[str, int]:
    """1 for each own word of a language, and less than 0 for each foreign one; empty for a language without a list."""
    lists = {name: set(words.split()) for name, words in read_toml(Path(__file__).with_suffix(".toml")).items()}
    own = lists.pop(language, set())
    others = set().union(*lists.values())
    return dict.fromkeys(own - others, 1) | dict.fromkeys(others - own, FOREIGN) if own else {}
