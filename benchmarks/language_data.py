"""Training, validation and test texts of the language classifier that comes with regard.

    python -m benchmarks.language_data --data DATA --output data/languages

DATA holds the folders tatoeba, tatoeba-zh, msdocs, pydocs and mlqe-pe-en-de, each with the files that FILES names. The
output is train.tsv, valid.tsv and test.tsv with the columns text, label, domain, form and variation, and two more files
of the same kind, valid-short.tsv and test-short.tsv. A sentence is in one split only, by a hash of its text; words and
parts of sentences are cut afterwards. Languages have equal shares.

    form        word, few (2 or 3 words), part (4 to 8 words), sentence
    variation   none, lower, upper, title, ascii (without accents), bare (without punctuation), markup (with
                tags or placeholders)
    label       de, en, es, fr, zh, other

A quarter of the single words are drawn from sentences; the others (domain words) from the list of all words, each with
the square root of its frequency, or from the COMMON_WORDS most frequent ones, all alike.

Train has more texts that people type alone (domain alone), from Tatoeba: sentences of one to three words, beginnings of
sentences before a comma ("Hello, Tom"), and the EVERYDAY_WORDS most frequent words, with and without punctuation and in
small letters. The files -short have whole sentences of one or two words, as they are and bare in small letters.

The texts of `other` are made by language_others.py.

With the folders europarl, wmt-newstest-de-en, wmt-dev and mlqe-pe-en-zh, of which nothing is in train, DATA also gives
valid-prose.tsv and test-prose.tsv: lines of debates and news, each whole (form sentence) and as a beginning of 21 to 60
characters (form part).
"""

import argparse
import hashlib
import lzma
import math
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from benchmarks.language_others import Source, is_chinese, make_others

from regard.data.split import hash_sentence, split_of

LANGUAGES = ("de", "en", "es", "fr", "zh")
FILES: dict[str, dict[str, tuple[str, ...]]] = {
    "tatoeba": {
        "tatoeba/deu-eng.tsv.xz": ("en", "de"),
        "tatoeba/fra-eng.tsv.xz": ("en", "fr"),
        "tatoeba/spa-eng.tsv.xz": ("en", "es"),
        "tatoeba-zh/eng-zh-Hans.tsv.xz": ("en", "zh"),
        "tatoeba-zh/eng-zh-Hant.tsv.xz": ("en", "zh"),
    },
    "msdocs": {f"msdocs/en-{code}.tsv.xz": ("en", code) for code in ("de", "fr", "es", "zh")},
    "pydocs": {f"pydocs/en-{code}.tsv.xz": ("en", code) for code in ("zh", "es", "fr")},
    "mlqe-pe": {
        f"mlqe-pe-en-de/{split}.{code}.xz": (code,) for split in ("train", "dev") for code in ("de", "en")
    },
}  # fmt: skip
"""The files of each domain, and the language of each column."""
PROSE = {
    split: {
        "debates": {f"europarl/{folder}.{code}.xz": code for code in ("de", "en", "es", "fr")},
        "news": {
            **{f"wmt-newstest-de-en/newstest{year}.{code}.xz": code for code in ("de", "en")},
            **{f"wmt-dev/newstest{year}.en-{code}.tsv.xz": code for code in ("es", "fr")},
            chinese: "zh",
        },
    }
    for split, folder, year, chinese in (
        ("valid", "dev", 2012, "mlqe-pe-en-zh/dev.tsv.xz"),
        ("test", "test", 2013, "wmt-dev/newstest2019-zhen.en-zh.tsv.xz"),
    )
}
"""The files of texts that are in no training, by split and domain, and the language of their last column."""
PROSE_LINES, BEGINNING = 1_000, (21, 60)
"""Lines of each file, and characters of their beginnings."""
DOMAIN_SHARES = {"tatoeba": 0.5, "msdocs": 0.25, "pydocs": 0.15, "mlqe-pe": 0.1}
WORD_SOURCES = {"sentences": 0.25, "all": 0.25, "common": 0.5}
"""Shares of the single words that are drawn from sentences, from the list of words, and from its beginning."""
COMMON_WORDS = 3000
COUNTED_SENTENCES = 30_000
"""Sentences of each domain whose words are counted."""
WORD = re.compile(r"(?<![^\s(«“„\"'¿¡])[^\W\d_]+(?=[\s.,;:!?…)»”\"']|$)")
"""Letters between blanks or punctuation: no parts of identifiers."""
SIZES = {"train": 110_000, "valid": 1_500, "test": 4_000}
"""Texts of each language in a split."""
OTHER_SIZES = {"train": 100_000, "valid": 750, "test": 2_000}
ALONE_SIZE = 50_000
"""More texts of each language in train, which people type alone."""
ALONE = {"single": 0.15, "several": 0.15, "openings": 0.2, "words": 0.5}
"""Shares of sentences of one word, of two or three, of beginnings before a comma, and of frequent words."""
EVERYDAY_WORDS = 6000
OPENING = re.compile(r"[¿¡]?([^\W\d_][^,.!?，。！？¿¡\"]{0,24})[,!，！]")
"""The beginning of a sentence before a comma: Hello, Tom."""
FORMS = {"word": 0.42, "few": 0.23, "part": 0.13, "sentence": 0.22}
WORDS = {"word": (1, 1), "few": (2, 3), "part": (4, 8)}
VARIATIONS = {
    "none": 0.53, "lower": 0.17, "upper": 0.04, "title": 0.04, "ascii": 0.1, "bare": 0.08, "markup": 0.04,
}  # fmt: skip
VALID_SHARE, TEST_SHARE = 0.02, 0.04
MAX_CHARACTERS = 220
SEED = 7


@dataclass(frozen=True)
class Text:
    """One example."""

    text: str
    label: str
    domain: str
    form: str
    variation: str

    def line(self) -> str:
        return "\t".join((self.text, self.label, self.domain, self.form, self.variation))


Pools = dict[tuple[str, str, str], list[str]]
"""The sentences of each split, language and domain."""


def read_pools(data: Path) -> Pools:
    """The sentences of all files, each once, without those that are equal in both languages."""
    pools: Pools = {}
    seen: set[tuple[str, int]] = set()
    for domain, files in FILES.items():
        for name, languages in files.items():
            with lzma.open(data / name, "rt", encoding="utf-8", newline="") as stream:
                for line in stream:
                    cells = [clean(cell) for cell in line.rstrip("\n").split("\t")[: len(languages)]]
                    if len(set(cells)) < len(languages):
                        continue
                    for language, text in zip(languages, cells, strict=True):
                        key = language, hash_sentence(text, SEED)
                        if key not in seen and fits(text, language):
                            seen.add(key)
                            split = split_of(key[1], VALID_SHARE, TEST_SHARE)
                            pools.setdefault((split, language, domain), []).append(text)
    return pools


def clean(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def fits(text: str, language: str) -> bool:
    """False for text without letters, and for text in another script than that of its language."""
    letters = [letter for letter in text if letter.isalpha()]
    chinese = sum(is_chinese(letter) for letter in letters)
    return bool(letters) and (chinese >= 0.4 * len(letters) if language == "zh" else chinese == 0)


# ---- parts of sentences ----------------------------------------------------------------------------------------------


def cut(rng: random.Random, text: str, language: str, form: str) -> str:
    """A part of a sentence."""
    if form == "sentence":
        return shorten(rng, text)
    if language == "zh":
        return cut_chinese(rng, text, form)
    units = [unit for unit in text.split() if has_letter(unit)]
    number = rng.randint(*WORDS[form])
    start = rng.randint(0, max(0, len(units) - number))
    if form == "word":  # the longer one of two: words that stand alone are seldom short
        start = max(rng.choices(range(len(units)), k=2), key=lambda place: len(units[place]))
    return " ".join(units[start : start + number]).strip(" ,.;:!?…«»“”„\"'()[]")


def cut_chinese(rng: random.Random, text: str, form: str) -> str:
    """A part of a Chinese sentence: 1 to 3 characters for each word; the longest parts may contain Latin letters."""
    places = [place for place, letter in enumerate(text) if is_chinese(letter)]
    length = rng.randint(*WORDS[form]) * rng.randint(1, 3)
    start = places[rng.randint(0, max(0, len(places) - length))]
    part = text[start : start + length]
    return part if form == "part" else "".join(filter(is_chinese, part))


def shorten(rng: random.Random, text: str) -> str:
    """A text of at most MAX_CHARACTERS, from its beginning or from the start of a word."""
    if len(text) <= MAX_CHARACTERS:
        return text
    length = rng.randint(MAX_CHARACTERS // 4, MAX_CHARACTERS)
    start = rng.choice([0, rng.randint(0, len(text) - length)])
    part = text[start : start + length]
    words = part.split(" ")
    return " ".join(words[1 if start else 0 : -1]) if len(words) > 4 else part  # without a part of a word at its ends


def has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))


def with_markup(text: str) -> str:
    """The text between tags, or with a placeholder; which of them depends on the text."""
    return MARKUP[hash_sentence(text, SEED) % len(MARKUP)].replace("TEXT", text)


def without_accents(text: str) -> str:
    for letter, plain in (("ß", "ss"), ("æ", "ae"), ("œ", "oe"), ("Œ", "OE"), ("¿", ""), ("¡", "")):
        text = text.replace(letter, plain)
    return "".join(letter for letter in unicodedata.normalize("NFD", text) if not unicodedata.combining(letter))


def without_punctuation(text: str) -> str:
    kept = "".join(letter if letter.isalnum() or letter in "'’-" else " " for letter in text)
    return " ".join(kept.split())


MARKUP = (
    "<b>TEXT</b>", "<p>TEXT</p>", "%s TEXT", "%1$s TEXT", "{name}: TEXT", "TEXT {0}", '<a href="#">TEXT</a>',
    "**TEXT**", "- TEXT", "# TEXT", "`TEXT`", "TEXT (%d)",
)  # fmt: skip
CHANGES: dict[str, Callable[[str], str]] = {
    "none": str, "lower": str.lower, "upper": str.upper, "title": str.title, "ascii": without_accents,
    "bare": without_punctuation, "markup": with_markup,
}  # fmt: skip


def sample_language(rng: random.Random, pools: Pools, split: str, language: str, count: int) -> Iterator[Text]:
    """Texts of one language: sentences of all domains, parts of them, with variations."""
    domains = [name for name in DOMAIN_SHARES if (split, language, name) in pools]
    shares = [DOMAIN_SHARES[name] for name in domains]
    words, weights = list_words(pools, split, language, domains)
    common = words[:COMMON_WORDS]
    while count:
        domain = rng.choices(domains, shares)[0]
        form = rng.choices(list(FORMS), list(FORMS.values()))[0]
        variation = rng.choices(list(VARIATIONS), list(VARIATIONS.values()))[0]
        source = rng.choices(list(WORD_SOURCES), list(WORD_SOURCES.values()))[0]
        if form == "word" and language != "zh" and source != "sentences":
            domain = "words"
            text = rng.choice(common) if source == "common" else rng.choices(words, cum_weights=weights)[0]
        else:
            text = cut(rng, rng.choice(pools[split, language, domain]), language, form)
        text = CHANGES[variation](text).strip()
        if has_letter(text):
            count -= 1
            yield Text(text, language, domain, form, variation)


def list_words(
    pools: Pools, split: str, language: str, domains: Sequence[str], counted: int | None = COUNTED_SENTENCES
) -> tuple[list[str], list[float]]:
    """All words of a language, the most frequent first, and the sums of the square roots of their frequencies.

    A word is written as it is in most sentences, and in small letters if it often is: "the", not "The", but "Haus".
    """
    texts = (text for domain in domains for text in pools[split, language, domain][:counted])
    counts = Counter(word for text in texts for word in WORD.findall(text))
    small = {word: count for word, count in counts.items() if word.islower() or count > 2 * counts[word.lower()]}
    ordered = sorted(small, key=lambda word: (-small[word], word))
    return ordered, list(accumulate(math.sqrt(small[word]) for word in ordered))


# ---- texts that people type alone ------------------------------------------------------------------------------------


def sample_alone(rng: random.Random, pools: Pools, split: str, language: str, count: int) -> Iterator[Text]:
    """Words and short sentences that people type alone: greetings, answers, exclamations, everyday words."""
    sentences = pools[split, language, "tatoeba"]
    single = [text for text in sentences if number_of_words(text, language) == 1]
    several = [text for text in sentences if number_of_words(text, language) in (2, 3)]
    openings = Counter(found[1] for text in sentences if (found := OPENING.match(text)))
    words, _ = list_words(pools, split, language, ["tatoeba"], None)
    sources: dict[str, tuple[Sequence[str], Sequence[float] | None]] = {
        "single": (single, None),
        "several": (several, None),
        "openings": (list(openings), [math.sqrt(number) for number in openings.values()]),
        "words": (words[:EVERYDAY_WORDS] if language != "zh" else several, None),
    }
    for name in rng.choices(list(ALONE), list(ALONE.values()), k=count):
        texts, weights = sources[name]
        text = rng.choices(texts, weights)[0]
        if rng.random() < 0.6:
            text = without_punctuation(text) + rng.choice(["", "", "", ".", "!", "?"])
        text = text.lower() if rng.random() < 0.4 else text
        yield Text(text, language, "alone", "word" if number_of_words(text, language) == 1 else "few", "none")


def make_short(pools: Pools, split: str) -> list[Text]:
    """All sentences of one or two words with Latin letters, as they are and bare in small letters."""
    texts = []
    for language in LANGUAGES[:-1]:
        for text in pools[split, language, "tatoeba"]:
            if (number := number_of_words(text, language)) < 3:
                form, bare = "word" if number == 1 else "few", without_punctuation(text).lower()
                texts.append(Text(text, language, "short", form, "none"))
                texts.append(Text(bare, language, "short", form, "bare"))
    return texts


def number_of_words(text: str, language: str) -> int:
    """Words of a text; two Chinese characters count as one."""
    return (sum(map(is_chinese, text)) + 1) // 2 if language == "zh" else len(text.split())


def make_prose(data: Path, split: str) -> list[Text]:
    """Lines of files that are in no training, each whole and as a short beginning."""
    rng, texts = random.Random(f"{SEED} {split} prose"), list[Text]()
    for domain, files in PROSE[split].items():
        for name, language in files.items():
            with lzma.open(data / name, "rt", encoding="utf-8", newline="") as stream:
                lines = [clean(line.rpartition("\t")[2]) for line in stream]
            kept = [line for line in lines if len(line) > BEGINNING[1] and fits(line, language)]
            for line in rng.sample(kept, min(PROSE_LINES, len(kept))):
                beginning = line[: rng.randint(*BEGINNING)]
                words = beginning.rpartition(" ")[0]  # without a part of a word
                beginning = words if language != "zh" and len(words) >= BEGINNING[0] else beginning
                texts += [Text(line, language, domain, "sentence", "none")]
                texts += [Text(beginning, language, domain, "part", "none")]
    return texts


# ---- all texts -------------------------------------------------------------------------------------------------------


def sample_other(rng: random.Random, pools: Pools, split: str, count: int) -> Iterator[Text]:
    """Texts in none of the languages."""
    known: set[str] = set()
    for language in LANGUAGES[:-1]:
        known.update(word.lower() for word in list_words(pools, split, language, ["tatoeba"], None)[0])
    source = Source(lambda language: rng.choice(pools[split, language, "tatoeba"]), known)
    for text, made in make_others(rng, source, count):
        yield Text(text, "other", made, "other", "none")


def make_split(pools: Pools, split: str) -> list[Text]:
    """All texts of a split, in random order."""
    rng = random.Random(f"{SEED} {split}")
    texts = [text for name in LANGUAGES for text in sample_language(rng, pools, split, name, SIZES[split])]
    texts += sample_other(rng, pools, split, OTHER_SIZES[split])
    for name in LANGUAGES if split == "train" else ():
        texts += sample_alone(rng, pools, split, name, ALONE_SIZE)
    rng.shuffle(texts)
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data sets")
    parser.add_argument("--output", type=Path, default=Path("data/languages"), help="the folder to write to")
    arguments = parser.parse_args()
    pools = read_pools(arguments.data)
    arguments.output.mkdir(parents=True, exist_ok=True)
    for split in SIZES:
        write_texts(arguments.output / f"{split}.tsv", make_split(pools, split))
    for split in ("valid", "test"):
        write_texts(arguments.output / f"{split}-short.tsv", make_short(pools, split))
        if all((arguments.data / name).exists() for files in PROSE[split].values() for name in files):
            write_texts(arguments.output / f"{split}-prose.tsv", make_prose(arguments.data, split))


def write_texts(path: Path, texts: Sequence[Text]) -> None:
    lines = ["text\tlabel\tdomain\tform\tvariation", *(text.line() for text in texts)]
    content = "\n".join(lines).encode() + b"\n"
    path.write_bytes(content)
    print(f"{path.name}: {len(texts):,} texts, sha256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
