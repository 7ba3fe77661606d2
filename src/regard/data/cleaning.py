"""Filters that clean parallel text, as pure functions of a pair.

    setting            leaves out pairs                                              example
    min_score          with a lower score (see `regard score`)                       0.02
    script             with too few letters in the script of their language         Привет as English
    max_word           with a very long word: encoded data, lost spaces              aGVsbG8gd29ybGQsIGhlbGxvIHdvcmxk...
    markup             whose tags and entities differ                                <b>Save</b>     Speichern
    placeholders       whose placeholders differ                                     Delete {name}?  {nom} löschen?
    urls               whose web and e-mail addresses have different hosts           www.a.org       www.b.org
    numbers            whose numbers differ                                          in 1994         im Jahr 1949
    language           in another language, by the bundled identifier                Das Haus        La maison

They are judged in this order, so the fast ones first; a pair is counted for the first that leaves it out. Target-side
duplicates and near-duplicates depend on other pairs: see duplicates.py. All of them are the settings [data.clean] of a
recipe, so that `regard clean` and `regard train` keep the same pairs.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from regard.config import Field, Settings
from regard.data.examples import Example
from regard.documents.frequent_words import is_surely
from regard.documents.numbers import count_numbers, numbers_agree
from regard.documents.protecting import find_code
from regard.documents.scripts import LANGUAGES, count_scripts
from regard.documents.sentences import WORD

Identify = Callable[[Sequence[str]], Sequence[Mapping[str, float]]]
"""The probability of each language for texts."""
MIN_LANGUAGE_BYTES = 40
"""Shorter texts, e.g. names, are in no particular language: 40 Latin letters, or 13 Chinese characters."""
LANGUAGE_CHARACTERS = 160
"""The beginning of a text from which its language is identified; more takes longer and changes almost nothing."""
MAX_QUICK_MINIMUM = 0.5
"""With a higher minimum probability, frequent words do not decide."""
MIN_DIGITS = 3
"""Numbers with fewer digits are often written as words: 12 and zwölf."""
_CODE = re.compile(r"[{%$#<&⦅@]|://|www\.|mailto:")
_ADDRESS = re.compile(r"[a-z]+://\S+|www\.\S+|(?:mailto:)?[\w.+%-]+@[\w-]+(?:\.[\w-]+)+")
_TAG = re.compile(r"<(/?[A-Za-z0-9][\w:.-]*)[^<>]*>|(&\#?\w+;)")
_PLACEHOLDER = re.compile(r"⦅\d+⦆|\{[^{}]*\}|[$#%]\{[^{}]*\}|%[^\s{}%]*[A-Za-z0-9@>]")
_DIGIT = re.compile(r"\d")


CLEAN_REASONS = (
    "score", "script", "long_word", "markup", "placeholders", "urls", "numbers", "language", "target_duplicate",
    "near_duplicate",
)  # fmt: skip
"""Why a pair is left out by one of these filters."""


class CleanSettings(Settings):
    """How to clean training pairs."""

    min_score: float | None = Field(
        None,
        description="only sources with a `score` column: leave out pairs with a lower score (see `regard score`)",
    )
    script: float = Field(
        0.5,
        ge=0,
        le=1,
        description="minimum share of letters in the script of the side's language, e.g. Latin for en; words on both "
        "sides, e.g. names, do not count; 0: any script",
    )
    max_word: int = Field(60, ge=0, description="maximum characters per word; 0: any length")
    markup: bool = Field(True, description="leave out pairs whose HTML tags or entities differ")
    placeholders: bool = Field(True, description="leave out pairs whose placeholders differ, e.g. {name} or %s")
    urls: bool = Field(True, description="leave out pairs whose web or e-mail addresses have different hosts")
    numbers: bool = Field(
        True, description=f"leave out pairs whose numbers with at least {MIN_DIGITS} digits differ, e.g. years"
    )
    language: float = Field(
        0.1,
        ge=0,
        le=1,
        description="minimum probability of the side's language, for languages that the bundled identifier knows (en, "
        "de, fr, es, zh); short texts are kept; 0: any language",
    )
    target_duplicates: bool = Field(
        False, description="of pairs with equal targets, keep the one with the best score, or the first without scores"
    )
    near_duplicates: float = Field(
        0.8,
        ge=0,
        le=1,
        description="leave out pairs that share at least this much of their word pairs with a better or earlier pair "
        "(Jaccard similarity, estimated by MinHash; digits and punctuation do not count); 0: keep all",
    )


def clean_reasons(
    examples: Sequence[Example], settings: CleanSettings, languages: tuple[str, str], identify: Identify | None
) -> list[str | None]:
    """The reason to leave out each pair, or None to keep it; `languages` are those of pairs that name none."""
    reasons = [check_pair(example, settings, languages) for example in examples]
    if settings.language and identify is not None:
        asked = [
            (index, text[:LANGUAGE_CHARACTERS], language)
            for index, example in enumerate(examples)
            if reasons[index] is None
            for text, language in sides(example, languages)
            if is_to_identify(text, language, settings.language)
        ]
        found = identify([text for _, text, _ in asked]) if asked else []
        for (index, _, language), probabilities in zip(asked, found, strict=True):
            if is_other_language(probabilities, language, settings.language):
                reasons[index] = "language"
    return reasons


def check_pair(example: Example, settings: CleanSettings, languages: tuple[str, str]) -> str | None:
    """The reason to leave out a pair, by its text and score alone; None to keep it."""
    src, tgt = example["src"], example["tgt"]
    if is_low_score(example.get("score"), settings.min_score):
        return "score"
    both = zip(sides(example, languages), (tgt, src), strict=True)
    if any(is_written_in_other_script(*side, other, settings.script) for side, other in both):
        return "script"
    if settings.max_word and (has_long_word(src, settings.max_word) or has_long_word(tgt, settings.max_word)):
        return "long_word"
    if _CODE.search(src) or _CODE.search(tgt):
        if settings.markup and markup_differs(src, tgt):
            return "markup"
        if settings.placeholders and placeholders_differ(src, tgt):
            return "placeholders"
        if settings.urls and urls_differ(src, tgt):
            return "urls"
    return "numbers" if settings.numbers and numbers_differ(src, tgt) else None


def sides(example: Example, languages: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Both texts of a pair, each with its language, without region; "" if that is not known."""
    for side, key, default in zip(("src", "tgt"), ("from", "to"), languages, strict=True):
        yield example[side], (example.get(key) or default).lower().partition("-")[0]


# ---- the filters


def is_low_score(score: float | None, minimum: float | None) -> bool:
    """True if a pair has a score, and one below the minimum."""
    return minimum is not None and score is not None and not score >= minimum


def is_other_script(text: str, language: str, share: float) -> bool:
    """True if fewer than a `share` of a text's letters are in a script of its language; False if that is unknown."""
    scripts = {script for script, codes in LANGUAGES.items() if language in codes}
    if not share or not scripts or (text.isascii() and "LATIN" in scripts):
        return False
    counts = count_scripts(text)
    return sum(counts[script] for script in scripts) < share * counts.total()


def is_written_in_other_script(text: str, language: str, other: str, share: float) -> bool:
    """As `is_other_script`; but if a text has letters of its script, words count, e.g. each Chinese character,
    and those of the other side do not count, e.g. the names and code in a Chinese manual."""
    if not is_other_script(text, language, share):
        return False
    shared = {*WORD.findall(other.casefold())}
    own = [word for word in WORD.findall(text.casefold()) if word not in shared and any(map(str.isalpha, word))]
    others = sum(is_other_script(word, language, share) for word in own)
    return is_other_script(text, language, 1e-9) or others > (1 - share) * len(own)


def has_long_word(text: str, limit: int) -> bool:
    """True if a text has a word of more than `limit` characters; every Chinese or Japanese character is a word."""
    longest = max(map(len, text.split()), default=0)
    return longest > limit and any(len(word) > limit for word in WORD.findall(text))


def markup_differs(src: str, tgt: str) -> bool:
    """True if the names of HTML tags or the entities of two texts differ, in any order."""
    first, second = (Counter(tag.lower() or entity for tag, entity in _TAG.findall(text)) for text in (src, tgt))
    return first != second


def placeholders_differ(src: str, tgt: str) -> bool:
    """True if the placeholders of two texts differ, in any order: {name}, %s, %1$s, ${x}, {{x}}, ⦅0⦆."""
    return count_placeholders(src) != count_placeholders(tgt)


def urls_differ(src: str, tgt: str) -> bool:
    """True if the web and e-mail addresses of two texts have different hosts: a page may have a localised path."""
    return count_hosts(src) != count_hosts(tgt)


def numbers_differ(src: str, tgt: str) -> bool:
    """True if a number with at least three digits is in only one of two texts, in any notation: 3,277 is 3.277."""
    if not _DIGIT.search(src) and not _DIGIT.search(tgt):
        return False
    first, second = (long_numbers(text) for text in (src, tgt))
    return first != second and not (numbers_agree(src, tgt) and numbers_agree(tgt, src))


def is_to_identify(text: str, language: str, minimum: float) -> bool:
    """True if a text is long enough to have a language, and not surely in the one that is expected."""
    if not language or len(text.encode()) < MIN_LANGUAGE_BYTES or not any(map(str.isalpha, text)):
        return False
    return minimum > MAX_QUICK_MINIMUM or not is_surely(text[:LANGUAGE_CHARACTERS], language)


def is_other_language(probabilities: Mapping[str, float], language: str, minimum: float) -> bool:
    """True if a text's probability of being in its language is below the minimum; False if that is not identified."""
    return language in probabilities and probabilities[language] < minimum


def count_placeholders(text: str) -> Counter[str]:
    """How often a text has each placeholder."""
    codes = (text[start:end] for start, end in find_code(text))
    return Counter(part for code in codes for part in _PLACEHOLDER.findall(code))


def count_hosts(text: str) -> Counter[str]:
    """How often a text has an address of each host, without www."""
    codes = (text[start:end] for start, end in find_code(text))
    found = (match[0] for code in codes for match in _ADDRESS.finditer(code))
    return Counter(host_of(address) for address in found)


def host_of(address: str) -> str:
    """The host of an address in lowercase: www.Example.org/page is example.org."""
    host = address.rpartition("@")[2] if "@" in address and "://" not in address else address
    if "://" in host:
        with suppress(ValueError):  # not a valid address
            host = urlsplit(host).hostname or host
    return re.split(r"[/?#:]", host.lower(), maxsplit=1)[0].removeprefix("www.")


def long_numbers(text: str) -> frozenset[str]:
    """The different numbers with at least `MIN_DIGITS` digits; 13.11.2019 and 2019/11/13 have one, 11.30 has none."""
    parts = (part for number in count_numbers(text) for part in re.split(r"\D", number))
    return frozenset(part for part in parts if len(part) >= MIN_DIGITS)
