"""How many inline tags enclose the right words, by word alignment and without it.

    python -m benchmarks.markup RUN                    a run of the builtin corpus `dates`: exact alignments
    python -m benchmarks.markup translator --to de     a translator from English to de, fr, es, zh or pt

For dates, one field of a date (year, month or day) is bold; right is the same field of the translation, exactly.
Otherwise sentences are made of patterns with words whose translations are known ("The <b>red</b> <i>dog</i> ..."). A
tag is judged if a translation of its word is in the sentence. It is right if it encloses this word and at most one
more, for example its article; in Chinese at most four characters. The table has the share of right tags by the links of
the run's head, and by position only (every word linked to the one at the same share of the sentence).
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from regard.data.alignments import gold
from regard.documents.document import open_document
from regard.documents.sentences import is_wide
from regard.run.model import Translator
from regard.run.translating import translate_segments

PATTERNS = (
    "The {color} {noun} is very old.",
    "I saw a {color} {noun} on {weekday}.",
    "On {weekday} I will buy a new {noun}.",
    "There are {number} people in the room.",
    "My brother has {number} children and a {noun}.",
    "Where is the {noun}?",
    "The {noun} is {color}.",
    "We meet every {weekday} in the city.",
    "She has lived here for {number} years.",
    "Did you see the {color} {noun} yesterday?",
    "If you want the {noun}, come on {weekday}.",
    "He sold his {noun} to {number} friends.",
)
WORDS: dict[str, dict[str, tuple[str, str, str, str, str]]] = {
    "color": {
        "red": ("rot", "rouge", "roj", "红", "vermelh"),
        "green": ("grün", "vert", "verde", "绿", "verde"),
        "black": ("schwarz", "noir", "negr", "黑", "pret/negr"),
        "white": ("weiß", "blanc", "blanc", "白", "branc"),
        "blue": ("blau", "bleu", "azul", "蓝", "azul"),
        "yellow": ("gelb", "jaune", "amarill", "黄", "amarel"),
    },
    "noun": {
        "dog": ("hund", "chien", "perr", "狗", "cachorr/cão/cães/cadela"),
        "cat": ("katze", "chat", "gat", "猫", "gat"),
        "house": ("haus", "maison", "casa", "房/屋/家", "casa"),
        "car": ("auto/wagen", "voiture", "coche/auto/carro", "车", "carro/automóvel"),
        "book": ("buch", "livre", "libro", "书", "livro"),
        "table": ("tisch", "table", "mesa", "桌", "mesa"),
        "door": ("tür", "porte", "puerta", "门", "porta"),
        "bird": ("vogel", "oiseau", "pájaro/ave", "鸟", "pássaro/ave"),
    },
    "weekday": {
        "Monday": ("montag", "lundi", "lunes", "一", "segunda"),
        "Tuesday": ("dienstag", "mardi", "martes", "二", "terça"),
        "Wednesday": ("mittwoch", "mercredi", "miércoles", "三", "quarta"),
        "Thursday": ("donnerstag", "jeudi", "jueves", "四", "quinta"),
        "Friday": ("freitag", "vendredi", "viernes", "五", "sexta"),
        "Sunday": ("sonntag", "dimanche", "domingo", "天/日", "domingo"),
    },
    "number": {
        "three": ("drei", "trois", "tres", "三/3", "três"),
        "four": ("vier", "quatre", "cuatro", "四/4", "quatro"),
        "five": ("fünf", "cinq", "cinco", "五/5", "cinco"),
        "seven": ("sieben", "sept", "siete", "七/7", "sete"),
        "ten": ("zehn", "dix", "diez", "十/10", "dez"),
    },
}
LANGUAGES = ("de", "fr", "es", "zh", "pt")
TAGS = ("b", "i", "u")


@dataclass(frozen=True)
class Case:
    """A sentence with tags; of every tag, what it must enclose: exactly, or the beginning of one of its words."""

    page: str
    expected: tuple[tuple[str, ...], ...]
    translation: str | None = None
    exact: bool = False


def pattern_cases(language: str, count: int, seed: int = 1) -> Iterator[Case]:
    """Sentences of patterns with random words, every word in its own tag."""
    rng, column = random.Random(seed), LANGUAGES.index(language)
    for number in range(count):
        parts = PATTERNS[number % len(PATTERNS)].replace("{", "\0{").replace("}", "}\0").split("\0")
        expected: list[tuple[str, ...]] = []
        page = ""
        for part in parts:
            if part.startswith("{"):
                word = rng.choice(list(WORDS[part[1:-1]]))
                tag = TAGS[len(expected)]
                page += f"<{tag}>{word}</{tag}>"
                expected.append(tuple(WORDS[part[1:-1]][word][column].split("/")))
            else:
                page += part
        yield Case(page, tuple(expected))


def date_cases(count: int, seed: int = 1) -> Iterator[Case]:
    """Dates in many languages with one field bold; the right translation is given."""
    rng = random.Random(seed)
    for pair in islice(gold("dates", "test"), count):
        number = rng.choice([n for n, item in enumerate(pair.src_segments) if item.meaning in ("year", "month", "day")])
        texts = [item.text for item in pair.src_segments]
        texts[number] = f"<b>{texts[number]}</b>"
        field = next(item.text for item in pair.tgt_segments if item.meaning == pair.src_segments[number].meaning)
        yield Case("".join(texts), ((field,),), pair.tgt, exact=True)


def judge(case: Case, page: str, text: str) -> Iterator[bool]:
    """For each tag that can be judged, whether it encloses the right words."""
    for tag, stems in zip(TAGS, case.expected, strict=False):
        inside = page.split(f"<{tag}>")[1].split(f"</{tag}>")[0].lower()
        if any(stem in text.lower() for stem in stems):
            few = len(inside.split()) <= 2 and (len(inside) <= 4 or not is_wide(inside[0]))
            yield inside in stems if case.exact else few and any(stem in inside for stem in stems)


def measure(translator: Translator, cases: Sequence[Case], target: str | None) -> tuple[int, int, int]:
    """Tags that can be judged; right ones by links, and by position."""
    documents = [open_document(case.page, "html", language="en") for case in cases]
    segments = [segment for document in documents for segment in document.segments]
    remaining = iter(translate_segments(translator, segments, target=target))
    totals = [0, 0, 0]
    for case, document in zip(cases, documents, strict=True):
        translations = [next(remaining) for _ in document.segments]
        text = " ".join(item.text for item in translations)
        if case.translation not in (None, text):
            continue
        by_position = [replace(item, links=()) for item in translations]
        linked = list(judge(case, document.render(translations), text))
        placed = list(judge(case, document.render(by_position), text))
        totals = [a + b for a, b in zip(totals, (len(linked), sum(linked), sum(placed)), strict=True)]
    return totals[0], totals[1], totals[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--to", choices=LANGUAGES)
    parser.add_argument("--sentences", type=int, default=240)
    arguments = parser.parse_args()
    translator = Translator.load(arguments.run)
    cases = (
        date_cases(arguments.sentences) if arguments.to is None else pattern_cases(arguments.to, arguments.sentences)
    )
    judged, linked, placed = measure(translator, list(cases), arguments.to)
    print(f"| {arguments.to or 'dates'} | {judged} | {linked / judged:.1%} | {placed / judged:.1%} |")


if __name__ == "__main__":
    main()
