"""Five small corpora that are generated, for a first run without any download.

dates: a day written out in fifteen languages -> ISO 8601, "Donnerstag, 5. November 2026" -> "2026-11-05".
numbers: English number words -> German, "forty-two" -> "zweiundvierzig".
trees: sentences of a small grammar -> their trees, "Ada slept ." -> "(S (NP XX )NP (VP XX )VP XX )S".
dependencies: the same sentences -> the head of each word and its relation, "Ada slept ." -> nsubj(2) root(0) punct(2).
tones: recordings of digits, each a pair of tones (tones.py) -> words, "three zero".

A day, number or sentence is in one split only, by a hash of it, so the test set has none of the training set. The
seeds are fixed.
"""

import datetime
import random
from collections.abc import Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Literal

from regard.data.examples import Example
from regard.data.sources import Split
from regard.data.split import hash_text
from regard.data.tones import tone_names, transcript
from regard.reading import read_toml
from regard.trees import ROOT, Tree, leaves, sentence_text, tree_example, words

VERSION = 1
"""Increase it whenever the examples of a corpus change: stores made from it are built again."""

Name = Literal["dates", "numbers", "trees", "dependencies", "tones"]
Pairs = Iterator[tuple[str, str]]

# Only forms that write the month as a word or name its unit: digits alone do not tell which one is the month.
ABBREVIATING = ("en_US", "en_GB", "fr", "es", "it", "pt", "nl", "sv", "da", "pl", "ru", "tr")
STYLES = [(locale, form) for locale in (*ABBREVIATING, "de", "zh", "ja", "ko") for form in ("full", "long")]
STYLES += [(locale, "medium") for locale in ABBREVIATING]
FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)
DATES: dict[Split, int] = {"train": 30_000, "valid": 1_000, "test": 2_000}
NUMBERS: dict[Split, int] = {"train": 20_000, "valid": 500, "test": 2_000}
TREES: dict[Split, int] = {"train": 10_000, "valid": 300, "test": 1_000}
TONES: dict[Split, int] = {"train": 3_000, "valid": 200, "test": 500}
MAX_DIGITS, MAX_WORDS = 6, 12


def split_of_key(key: str) -> Split:
    """The split of a day, number or sentence: one in ten is for test, one in ten for valid."""
    slot = (hash_text(key) >> 56) % 10
    return "test" if slot == 0 else "valid" if slot == 1 else "train"


def days(split: Split) -> Iterator[tuple[datetime.date, str, str]]:
    """Random days of the split, each with a random language and style."""
    rng = random.Random(f"dates {split}")
    span = (LAST - FIRST).days + 1
    made = 0
    while made < DATES[split]:
        day = FIRST + datetime.timedelta(rng.randrange(span))
        locale, form = rng.choice(STYLES)
        if split_of_key(day.isoformat()) == split:
            made += 1
            yield day, locale, form


def quantities(split: Split) -> Iterator[int]:
    """Distinct random numbers of the split, of every magnitude: first the number of digits is sampled."""
    rng = random.Random(f"numbers {split}")
    seen: set[int] = set()
    while len(seen) < NUMBERS[split]:
        number = rng.randrange(10 ** rng.randint(1, MAX_DIGITS))
        if number not in seen and split_of_key(str(number)) == split:
            seen.add(number)
            yield number


def dates(split: Split) -> Pairs:
    """The days of the split in words and as ISO 8601."""
    from babel.dates import format_date

    return ((format_date(day, form, locale=locale), day.isoformat()) for day, locale, form in days(split))


def numbers(split: Split) -> Pairs:
    """The numbers of the split in English and German words."""
    from num2words import num2words

    return ((num2words(number, lang="en"), num2words(number, lang="de")) for number in quantities(split))


def tones(split: Split) -> Pairs:
    """Digits and the names of their recordings, in the order of the random choices."""
    chosen = ((digits, name) for digits, name in tone_names(split) if split_of_key(digits) == split)
    return islice(chosen, TONES[split])


# ---- trees

_GRAMMAR = read_toml(Path(__file__).with_name("grammar.toml"))
RULES: dict[str, list[tuple[float, str]]] = _GRAMMAR["rules"]
TERMINALS: dict[str, str] = _GRAMMAR["terminals"]
HEADS: dict[str, list[str]] = _GRAMMAR["heads"]
RELATIONS: dict[str, dict[str, str]] = _GRAMMAR["relations"]


def sample_trees(seed: str) -> Iterator[Tree]:
    """Infinitely many trees of the grammar, the same for the same seed."""
    rng = random.Random(seed)
    while True:
        yield Tree(ROOT, (expand("S", rng),))


def expand(symbol: str, rng: random.Random) -> Tree:
    """A random tree of a symbol."""
    label = symbol.split("_")[0]
    if symbol in TERMINALS:
        return Tree(label, (), rng.choice(TERMINALS[symbol].split()))
    weights, sides = zip(*RULES[symbol], strict=True)
    (side,) = rng.choices(sides, weights)
    return Tree(label, tuple(expand(child, rng) for child in side.split()))


def trees(split: Split) -> Iterator[Tree]:
    """Trees of the split, without long sentences, and no sentence twice."""
    seen: set[str] = set()
    for tree in sample_trees(f"trees {split}"):
        sentence = sentence_text(words(tree))
        if sentence.count(" ") < MAX_WORDS and sentence not in seen and split_of_key(sentence) == split:
            seen.add(sentence)
            yield tree
        if len(seen) == TREES[split]:
            return


# ---- dependencies


def dependency_example(tree: Tree) -> Example:
    """A tree of the grammar as dependencies: the head of a phrase is the head of one of its children."""
    sentence = words(tree)
    heads, relations = [0] * len(sentence), ["root"] * len(sentence)
    first = 0

    def attach(phrase: Tree) -> int:
        """The index of the head word of a phrase; the other words of the phrase get their heads."""
        nonlocal first
        if not phrase.children:
            first += 1
            return first - 1
        head_words = [attach(child) for child in phrase.children]
        labels = [child.label for child in phrase.children]
        label = next(label for label in HEADS[phrase.label] if label in labels)
        chosen = labels.index(label) if label == "NNP" else len(labels) - 1 - labels[::-1].index(label)
        for index, (word, child) in enumerate(zip(head_words, labels, strict=True)):
            if index != chosen:
                heads[word] = 1 + (head_words[index + 1] if child == "CC" else head_words[chosen])
                relations[word] = RELATIONS[phrase.label][child]
        return head_words[chosen]

    attach(tree)
    return {"words": sentence, "heads": heads, "relations": relations}


# ---- the corpora as examples


def pairs(name: Name, split: Split) -> Pairs:
    """The pairs of a built-in corpus; the target of a sentence is its linearised tree."""
    if name == "trees":
        return ((str(example["src"]), str(example["tgt"])) for example in map(tree_example, trees(split)))
    return dates(split) if name == "dates" else numbers(split)


def examples(name: Name, split: Split) -> Iterator[Example]:
    """The examples of a built-in corpus: {"src", "tgt"}, for trees also {"tree", "words", "tags"}; dependencies;
    recordings {"audio", "text"}."""
    if name == "tones":
        return ({"audio": audio, "text": transcript(digits)} for digits, audio in tones(split))
    if name == "dependencies":
        return map(dependency_example, trees(split))
    if name == "trees":
        return (tree_example(tree) | {"tags": [leaf.label for leaf in leaves(tree)]} for tree in trees(split))
    return ({"src": src, "tgt": tgt} for src, tgt in pairs(name, split))


def fingerprint(name: Name, split: Split) -> str:
    """A string that changes when the examples do: the version, and that of the library that writes the words."""
    library = {"dates": "babel", "numbers": "num2words"}.get(name)
    return f"{name} {split} {VERSION}{f' {library} {version(library)}' if library else ''}"
