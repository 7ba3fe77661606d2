"""Three small corpora made on the spot, for a first run without any download.

dates: a day written out in fifteen languages -> ISO 8601, "Donnerstag, 5. November 2026" -> "2026-11-05".
numbers: English number words -> German, "forty-two" -> "zweiundvierzig".
trees: sentences of a small grammar -> their trees, "Ada slept ." -> "(S (NP XX )NP (VP XX )VP XX )S".

A day, number or sentence is in one part alone, by a hash of it, so the test asks for what was never seen. Everything
follows from fixed seeds.
"""

import datetime
import hashlib
import inspect
import random
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Literal

from regard.data import grammar
from regard.trees import Tree, as_pair, spoken, words

Name = Literal["dates", "numbers", "trees"]
Part = Literal["train", "valid", "test"]
Pairs = Iterator[tuple[str, str]]

# Forms that write the month as a word or name its unit; those of digits alone would not say which is the month.
ABBREVIATING = ("en_US", "en_GB", "fr", "es", "it", "pt", "nl", "sv", "da", "pl", "ru", "tr")
STYLES = [(locale, form) for locale in (*ABBREVIATING, "de", "zh", "ja", "ko") for form in ("full", "long")]
STYLES += [(locale, "medium") for locale in ABBREVIATING]
FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)
DATES: dict[Part, int] = {"train": 30_000, "valid": 1_000, "test": 2_000}
NUMBERS: dict[Part, int] = {"train": 20_000, "valid": 500, "test": 2_000}
TREES: dict[Part, int] = {"train": 10_000, "valid": 300, "test": 1_000}
LARGEST_DIGITS, MOST_WORDS = 6, 12


def part_of(key: str) -> Part:
    """The part a day, number or sentence belongs to: one in ten is for the test, one in ten to validate."""
    slot = hashlib.blake2b(key.encode(), digest_size=8).digest()[0] % 10
    return "test" if slot == 0 else "valid" if slot == 1 else "train"


def days(part: Part) -> Iterator[tuple[datetime.date, str, str]]:
    """Random days of `part`, each with a random language and form to be written in."""
    rng = random.Random(f"dates {part}")
    span = (LAST - FIRST).days + 1
    made = 0
    while made < DATES[part]:
        day = FIRST + datetime.timedelta(rng.randrange(span))
        locale, form = rng.choice(STYLES)
        if part_of(day.isoformat()) == part:
            made += 1
            yield day, locale, form


def quantities(part: Part) -> Iterator[int]:
    """Random numbers of `part`, none twice, of every magnitude: the count of digits is drawn before the digits."""
    rng = random.Random(f"numbers {part}")
    seen: set[int] = set()
    while len(seen) < NUMBERS[part]:
        number = rng.randrange(10 ** rng.randint(1, LARGEST_DIGITS))
        if number not in seen and part_of(str(number)) == part:
            seen.add(number)
            yield number


def dates(part: Part) -> Pairs:
    """The days of `part`, written out and as ISO 8601."""
    from babel.dates import format_date

    return ((format_date(day, form, locale=locale), day.isoformat()) for day, locale, form in days(part))


def numbers(part: Part) -> Pairs:
    """The numbers of `part` in English and German words."""
    from num2words import num2words

    return ((num2words(number, lang="en"), num2words(number, lang="de")) for number in quantities(part))


def trees(part: Part) -> Iterator[Tree]:
    """Trees of `part`, none of a long sentence and no sentence twice."""
    seen: set[str] = set()
    for tree in grammar.trees(f"trees {part}"):
        sentence = spoken(words(tree))
        if sentence.count(" ") < MOST_WORDS and sentence not in seen and part_of(sentence) == part:
            seen.add(sentence)
            yield tree
        if len(seen) == TREES[part]:
            return


MAKERS: dict[Name, Callable[[Part], Pairs]] = {
    "dates": dates,
    "numbers": numbers,
    "trees": lambda part: map(as_pair, trees(part)),
}


def pairs(name: Name, part: Part) -> Pairs:
    """The pairs of a builtin corpus."""
    return MAKERS[name](part)


def fingerprint(name: Name, part: Part) -> str:
    """What the pairs depend on: these files and the library that writes the words."""
    library = {"dates": "babel", "numbers": "num2words"}.get(name)
    files = (sys.modules[__name__], *((grammar, sys.modules[Tree.__module__]) if name == "trees" else ()))
    source = hashlib.sha256("".join(map(inspect.getsource, files)).encode()).hexdigest()
    return f"{name} {part} {f'{library} {version(library)} ' if library else ''}{source}"
