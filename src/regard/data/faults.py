"""Faults of a translation that a program can find. Each check is a pure function of a case.

    check       a translation fails if                                                            example
    numbers     its numbers are not those of the source                            in 1994         im Jahr 1949
    names       a name is missing                                                  Anna is here.   Sie ist hier.
    negation    it denies what the source does not, or the other way round         I can't.        Ich kann.
    copy        more than half of its source's words are there as they were        the old house   the old Haus
    loop        a part of it is repeated three times or more in a row              he said         er er er sagte
    script      most of its letters are in a script of another language            Hello           Привет
    language    it is surely in another language (long texts only)                 ...
    phrase      it is none of the known translations (phrases only)                Good morning    Gutes Morgen

A result is True (kept), False (a fault) or None (nothing to check: the source has no number, no negation ...). `regard
clean` and the repairs of `regard translate` use the same functions for numbers and scripts.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from regard.data.cleaning import is_other_script
from regard.documents.numbers import count_numbers, numbers_agree
from regard.documents.sentences import IDEOGRAPH, WIDE, WORD
from regard.documents.tables import TABLES

MIN_LANGUAGE_CHARACTERS = 20
"""Shorter texts may be in several languages: "Hotel Berlin"."""
CERTAIN = 0.9
"""The probability from which a text counts as one in another language."""
MIN_COPIED = 3
"""Without a reference, so many words must be copied: names and loan words stay as they are."""
_REPEATED = re.compile(r"(.{1,100}?)\1{2,}", re.DOTALL)
_NEGATION, _OTHERWISE = (
    {language: re.compile(pattern, re.IGNORECASE) for language, pattern in TABLES[name].items()}
    for name in ("negation", "not_negation")
)
_HAN = re.compile(rf"[{IDEOGRAPH}]")


@dataclass(frozen=True)
class Case:
    """A sentence, its translation, and what is known about them.

    languages       codes of source and target, "" if they are not named
    references      right translations; the first one is written by a person for this sentence
    names           for each name in the source, the ways to write it; None: those that source and reference share
    probabilities   of each language that the translation may be in
    is_phrase       True: its translation must be one of the references
    """

    source: str
    output: str
    languages: tuple[str, str] = ("", "")
    references: Sequence[str] = ()
    names: Sequence[Sequence[str]] | None = None
    probabilities: Mapping[str, float] | None = None
    is_phrase: bool = False


def keeps_numbers(case: Case) -> bool | None:
    """True if a translation has the numbers of its source, or those of a reference: 10:45 may be 10 h 45."""
    if not count_numbers(case.source):
        return None
    return any(numbers_agree(text, case.output) for text in (case.source, *case.references))


def keeps_names(case: Case) -> bool | None:
    """True if a translation has every name, in one of the ways to write it."""
    names = shared_names(case) if case.names is None else case.names
    output = case.output.casefold()
    return all(any(form.casefold() in output for form in forms) for forms in names) if names else None


def shared_names(case: Case) -> list[list[str]]:
    """Words with a capital that are not the first of their source, and that the reference has too: names, mostly."""
    words = [word for word in WORD.findall(case.source)[1:] if word[0].isupper()]
    kept = {word for text in case.references[:1] for word in WORD.findall(text)}
    return [[word] for word in dict.fromkeys(words) if word in kept]


def keeps_negation(case: Case) -> bool | None:
    """True if source and translation both deny something; None if neither does, or if the reference says it otherwise.

    German "Es ist falsch" may well be "It is not true", so a pair whose reference disagrees is not judged.
    """
    source, target = case.languages
    if source not in _NEGATION or target not in _NEGATION:
        return None
    expected, found = has_negation(case.source, source), has_negation(case.output, target)
    if any(has_negation(text, target) != expected for text in case.references[:1]):
        return None
    return expected == found if expected or found else None


def has_negation(text: str, language: str) -> bool:
    """True if a text has a word that denies, e.g. not, nobody, kein, ne, 不."""
    return bool(_NEGATION[language].search(_OTHERWISE[language].sub("", text)))


def is_translated(case: Case) -> bool | None:
    """False if more than half of the words that a translation must change are in it unchanged."""
    same = {word for text in case.references for word in source_words(text)}
    words = source_words(case.source) - same
    if not words or (not case.references and len(words) < MIN_COPIED):
        return None
    return 2 * len(words & source_words(case.output)) <= len(words)


def source_words(text: str) -> set[str]:
    """The words of a text that are not so short that many languages have them."""
    words = (word.casefold() for word in WORD.findall(text) if any(map(str.isalpha, word)))
    return {word for word in words if len(word) >= MIN_COPIED or _HAN.match(word)}


def ends_loops(case: Case) -> bool:
    """False if a part with letters is repeated in a row, in a translation only."""
    return count_loops(case.output) <= count_loops(case.source)


def count_loops(text: str) -> int:
    """How many parts of a text are repeated three times or more in a row: "er er er", "FolFolFol"; not "www". A Chinese
    character is as long as two letters."""
    found = (match for match in _REPEATED.finditer(f"{text} ") if any(map(str.isalpha, match[1])))
    return sum(len(match[0]) + len(_HAN.findall(match[0])) >= (6 if len(set(match[1])) > 1 else 8) for match in found)


def has_script(case: Case) -> bool | None:
    """True if at least half of the letters are in the script of the target language, as those of the reference are."""
    target, output = case.languages[1], case.output
    for name in (form for forms in case.names or () for form in forms):  # a Chinese sentence may have Latin names
        output = output.replace(name, "")
    if not target or not any(map(str.isalpha, output)):
        return None
    if any(is_other_script(text, target, 0.5) for text in case.references[:1]):
        return None
    return not is_other_script(output, target, 0.5)


def has_language(case: Case) -> bool | None:
    """False if a long translation is surely in another language than the target."""
    found, target = case.probabilities or {}, case.languages[1]
    if target not in found or len(case.output.encode()) <= MIN_LANGUAGE_CHARACTERS:
        return None
    best = max(found, key=lambda language: found[language])
    return best == target or found[best] < CERTAIN


def is_known_phrase(case: Case) -> bool | None:
    """True if the translation of a phrase is one of the references, whatever its capitals and marks."""
    return plain(case.output) in set(map(plain, case.references)) if case.is_phrase else None


def plain(text: str) -> str:
    """A text in lowercase without spaces and punctuation."""
    return "".join(
        word.casefold() for word in WORD.findall(text.translate(WIDE).replace("’", "'")) if word[0].isalnum()
    )


CHECKS: dict[str, Callable[[Case], bool | None]] = {
    "numbers": keeps_numbers,
    "names": keeps_names,
    "negation": keeps_negation,
    "copy": is_translated,
    "loop": ends_loops,
    "script": has_script,
    "language": has_language,
    "phrase": is_known_phrase,
}
"""Every check, in the order of the table."""
