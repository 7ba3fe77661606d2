"""How many generated sentences keep their numbers in translation, with and without the repair; scores of plain text.

    python -m benchmarks.numbers_kept                                        144 sentences per direction
    python -m benchmarks.numbers_kept --plain de valid.en valid.de           BLEU and chrF of lines, also .xz
    python -m benchmarks.numbers_kept RUN --seed 2 --show 5

Sentences are English patterns with seeded numbers: amounts, large numbers, decimals, times, dates, versions, phone
numbers, account numbers, addresses, ranges. Digits are compared in two ways: all digits of a sentence in any order (a
rule that knows no formats), and the rule of the repair. Choose patterns and rules on one seed, report another one.
"""

import argparse
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

from benchmarks.translator_scores import read_lines, score

from regard.documents.numbers import numbers_agree
from regard.run.model import Translator
from regard.run.translating import SegmentTask

Numbers = Callable[[random.Random], str]
LIMIT = 300


def digits(count: int) -> Numbers:
    """A number with a given number of digits."""
    return lambda rng: str(rng.randrange(10 ** (count - 1), 10**count))


KINDS: dict[str, tuple[Numbers, tuple[str, ...]]] = {
    "small": (digits(2), ("The answer is {}.", "She is {} years old.", "There are {} people in the room.")),
    "year": (lambda rng: str(rng.randrange(1700, 2030)), ("He was born in {}.", "The house was built in {}.")),
    "large": (
        lambda rng: f"{rng.randrange(10_000, 9_999_999):,}",
        ("The town has {} inhabitants.", "They sold {} books last year.", "The ship weighs {} tons."),
    ),
    "amount": (
        lambda rng: f"${rng.randrange(1000, 99_999):,}.{rng.randrange(10, 100)}",
        ("It costs {} today.", "The bill is {}.", "We paid {} for the car."),
    ),
    "decimal": (
        lambda rng: f"{rng.randrange(1, 400)}.{rng.randrange(1, 999):03}",
        ("The box weighs {} kilograms.", "The river is {} kilometres long."),
    ),
    "percent": (lambda rng: f"{rng.randrange(1, 99)}.{rng.randrange(1, 9)}%", ("Prices rose by {} in May.",)),
    "time": (
        lambda rng: f"{rng.randrange(1, 24)}:{rng.randrange(10, 60)}",
        ("The train leaves at {}.", "The meeting begins at {} in room 7."),
    ),
    "date": (
        lambda rng: f"{rng.randrange(1990, 2030)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
        ("The contract ends on {}.",),
    ),
    "version": (
        lambda rng: ".".join(str(rng.randrange(0, 30)) for _ in range(3)),
        ("Install version {} of the program.",),
    ),
    "address": (
        lambda rng: ".".join(str(rng.randrange(1, 255)) for _ in range(4)),
        ("The server has the address {}.",),
    ),
    "phone": (
        lambda rng: f"+49 {rng.randrange(30, 999)} {rng.randrange(100_000, 9_999_999)}",
        ("Please call {} tomorrow.", "My number is {}."),
    ),
    "account": (
        lambda rng: f"DE{rng.randrange(10, 99)} " + " ".join(f"{rng.randrange(10_000):04}" for _ in range(4)) + " 00",
        ("Send the money to {}.", "My account is {}."),
    ),
    "range": (
        lambda rng: f"{(n := rng.randrange(10, 90))}-{n + rng.randrange(2, 9)}",
        ("Read pages {} at home.",),
    ),
    "two": (
        lambda rng: f"{rng.randrange(2, 99)} apples and {rng.randrange(100, 999)} nuts",
        ("I bought {}.", "There are {} on the table."),
    ),
}


def make_sentences(count: int, seed: int) -> list[tuple[str, str]]:
    """Kinds and sentences; every kind as often as the others."""
    rng, kinds = random.Random(seed), list(KINDS)
    sentences = []
    for n in range(count):
        numbers, patterns = KINDS[kinds[n % len(kinds)]]
        sentences.append((kinds[n % len(kinds)], patterns[n // len(kinds) % len(patterns)].format(numbers(rng))))
    return sentences


def same_digits(source: str, target: str) -> bool:
    """True if both texts have the same digits in any order."""
    first, second = (Counter(filter(str.isdigit, text)) for text in (source, target))
    return first == second


def translate(translator: Translator, texts: Sequence[str], source: str, target: str, repair: bool) -> list[str]:
    """Translations with or without the repair."""
    if repair:
        return translator.translate(texts, source=source, target=target)
    with patch.object(SegmentTask, "has_numbers", lambda *_: True):
        return translator.translate(texts, source=source, target=target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", default="translator")
    parser.add_argument("--sentences", type=int, default=144)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--to", nargs="*", default=["de", "fr", "es", "zh"])
    parser.add_argument("--show", type=int, default=0, metavar="N", help="Print the first N repaired sentences.")
    parser.add_argument("--plain", nargs=3, action="append", default=[], metavar=("CODE", "EN", "OTHER"))
    arguments = parser.parse_args()
    translator = Translator.load(arguments.run, device="cpu")
    sentences = make_sentences(arguments.sentences, arguments.seed)
    texts = [text for _, text in sentences]
    print(
        "| to | same digits before | after | numbers kept before | after | wrong after, by kind |\n" + 6 * "|---" + "|"
    )
    for target in arguments.to:
        before, after = (translate(translator, texts, "en", target, repair) for repair in (False, True))
        cells = [
            f"{sum(map(rule, texts, side))} of {len(texts)}"
            for rule in (same_digits, numbers_agree)
            for side in (before, after)
        ]
        wrong = Counter(
            kind for (kind, text), new in zip(sentences, after, strict=True) if not numbers_agree(text, new)
        )
        print(f"| {target} | {' | '.join(cells)} | {dict(wrong) or ''} |", flush=True)
        changed = [item for item in zip(texts, before, after, strict=True) if item[1] != item[2]]
        for text, old, new in changed[: arguments.show]:
            print(f"    {text}\n      before {old}\n      after  {new}")
    for target, english, other in arguments.plain:
        sources, references = (read_lines(Path(name))[:LIMIT] for name in (english, other))
        for source, to, first, second in (("en", target, sources, references), (target, "en", references, sources)):
            before, after = (translate(translator, first, source, to, repair) for repair in (False, True))
            same = sum(map(str.__eq__, before, after))
            values = ["{:.2f} BLEU, {:.2f} chrF".format(*score(side, second)) for side in (before, after)]
            print(f"plain {source}-{to}: {values[0]} before, {values[1]} after; {same} of {len(first)} equal")
            for text, old, new in zip(first, before, after, strict=True):
                if old != new and arguments.show:
                    print(f"    {text}\n      before {old}\n      after  {new}")


if __name__ == "__main__":
    main()
