"""Training, validation and test texts of the language classifier that comes with regard.

    python -m benchmarks.language_data --data DATA --output data/languages

DATA holds the folders tatoeba, tatoeba-zh, msdocs, pydocs and mlqe-pe-en-de, each with the files that FILES names. The
output is train.tsv, valid.tsv and test.tsv with the columns text, label, domain, form and variation. A sentence is in
one split only, by a hash of its text; words and parts of sentences are cut afterwards. Languages have equal shares.

    form        word, few (2 or 3 words), part (4 to 8 words), sentence
    variation   none, lower, upper, title, ascii (without accents), bare (without punctuation), markup (with
                tags or placeholders)
    label       de, en, es, fr, zh, other

A quarter of the single words are drawn from sentences; the others (domain words) from the list of all words, each with
the square root of its frequency, or from the COMMON_WORDS most frequent ones, all alike. So words that people type
alone, such as greetings, are seen often enough.

The texts of `other` are made at random, from letters of other scripts, or without words. Text in other languages with
Latin letters is not among them: the data sets have none.
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
DOMAIN_SHARES = {"tatoeba": 0.5, "msdocs": 0.25, "pydocs": 0.15, "mlqe-pe": 0.1}
WORD_SOURCES = {"sentences": 0.25, "all": 0.25, "common": 0.5}
"""Shares of the single words that are drawn from sentences, from the list of words, and from its beginning."""
COMMON_WORDS = 3000
COUNTED_SENTENCES = 30_000
"""Sentences of each domain whose words are counted."""
WORD = re.compile(r"(?<![^\s(«“„\"'¿¡])[^\W\d_]+(?=[\s.,;:!?…)»”\"']|$)")
"""Letters between blanks or punctuation: no parts of identifiers."""
SIZES = {"train": 110_000, "valid": 1_500, "test": 4_000}
"""Texts of each language in a split; `other` has half as many."""
FORMS = {"word": 0.42, "few": 0.23, "part": 0.13, "sentence": 0.22}
WORDS = {"word": (1, 1), "few": (2, 3), "part": (4, 8)}
VARIATIONS = {
    "none": 0.53, "lower": 0.17, "upper": 0.04, "title": 0.04, "ascii": 0.1, "bare": 0.08, "markup": 0.04,
}  # fmt: skip
VALID_SHARE, TEST_SHARE = 0.02, 0.04
MAX_CHARACTERS = 220
SEED = 7

SCRIPTS = {
    "Arabic": "0627-063A 0641-064A", "Armenian": "0561-0586", "Bengali": "0985-09B9 09BE-09CD",
    "Cyrillic": "0430-044F 0451-045F 0490-0491", "Devanagari": "0905-0939 093E-094D", "Ethiopic": "1200-1240",
    "Georgian": "10D0-10F0", "Greek": "03B1-03C9 03AC-03AF 03CC-03CE", "Hangul": "AC00-D7A3", "Hebrew": "05D0-05EA",
    "Hiragana": "3042-3093", "Katakana": "30A2-30F3", "Khmer": "1780-17B3",
    "Persian": "0627-063A 0641-064A 067E 0686 0698 06AF", "Tamil": "0B85-0BB9 0BBE-0BCD", "Telugu": "0C05-0C39",
    "Thai": "0E01-0E2E 0E30-0E39 0E40-0E49",
}  # fmt: skip
"""Letters of other scripts, as ranges of code points."""
FOREIGN_LATIN = "ăąåãāćčďđěęėğģıīķļłňńőõřśšșşťțţůűūźżžøþðŵŷ"
"""Letters of Latin alphabets that the five languages do not use."""


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


def is_chinese(letter: str) -> bool:
    return "\u3400" <= letter <= "\u9fff"


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


def list_words(pools: Pools, split: str, language: str, domains: Sequence[str]) -> tuple[list[str], list[float]]:
    """All words of a language, the most frequent first, and the sums of the square roots of their frequencies.

    A word is written as it is in most sentences, and in small letters if it often is: "the", not "The", but "Haus".
    """
    texts = (text for domain in domains for text in pools[split, language, domain][:COUNTED_SENTENCES])
    counts = Counter(word for text in texts for word in WORD.findall(text))
    small = {word: count for word, count in counts.items() if word.islower() or count > 2 * counts[word.lower()]}
    ordered = sorted(small, key=lambda word: (-small[word], word))
    return ordered, list(accumulate(math.sqrt(small[word]) for word in ordered))


# ---- text in none of the languages -----------------------------------------------------------------------------------


def letters_of(script: str) -> str:
    ranges = [part.split("-") for part in SCRIPTS[script].split()]
    codes = [code for ends in ranges for code in range(int(ends[0], 16), int(ends[-1], 16) + 1)]
    return "".join(letter for letter in map(chr, codes) if unicodedata.category(letter)[0] in "LM")


LETTERS = {script: letters_of(script) for script in SCRIPTS}


def random_word(rng: random.Random, letters: str, longest: int = 9) -> str:
    return "".join(rng.choices(letters, k=rng.randint(1, longest)))


def script_text(rng: random.Random, pools: Pools, split: str) -> str:
    """Random letters of another script, sometimes with a Latin word or in capitals."""
    script = rng.choice(list(LETTERS))
    words = [random_word(rng, LETTERS[script]) for _ in range(rng.choice([1, 1, 2, 3, rng.randint(4, 8)]))]
    if len(words) > 3 and rng.random() < 0.25:
        words[rng.randrange(len(words))] = rng.choice(["Tom", "SQL", "Windows", "Python", "COVID-19", "OK", "API"])
    text = "".join(words) if script in ("Thai", "Khmer") else " ".join(words)
    return text.upper() if rng.random() < 0.1 else text.capitalize() if rng.random() < 0.3 else text


def japanese_text(rng: random.Random, pools: Pools, split: str) -> str:
    """Kana with Chinese characters between them."""
    chinese = [letter for letter in rng.choice(pools[split, "zh", "tatoeba"]) if is_chinese(letter)] or ["日"]
    kana = LETTERS["Hiragana"] if rng.random() < 0.8 else LETTERS["Katakana"]
    parts = [
        "".join(rng.choices(chinese, k=rng.randint(0, 2))) + "".join(rng.choices(kana, k=rng.randint(1, 4)))
        for _ in range(rng.randint(1, 10))
    ]
    return "".join(parts) + rng.choice(["", "。", "！"])


def foreign_latin_text(rng: random.Random, pools: Pools, split: str) -> str:
    """Words of the five languages with letters exchanged, some of them for letters that none of the languages has."""
    language = rng.choice([name for name in LANGUAGES if name != "zh"])
    part = cut(rng, rng.choice(pools[split, language, "tatoeba"]), language, rng.choice(list(WORDS)))
    changed = []
    for word in part.split():
        letters = list(word)
        rng.shuffle(letters)
        if rng.random() < 0.6:
            letters[rng.randrange(len(letters))] = rng.choice(FOREIGN_LATIN)
        changed.append("".join(letters))
    return " ".join(changed)


def symbol_text(rng: random.Random, pools: Pools, split: str) -> str:
    """Numbers, dates, punctuation, emoji and hexadecimal numbers."""
    number = str(rng.randint(0, 10 ** rng.randint(1, 9)))
    emoji = "".join(rng.choices("😀🎉👍❤🚀🙂", k=rng.randint(1, 4)))
    choices = [
        number, f"{number[:2]}.{number[-2:]}.{rng.randint(1990, 2030)}", "".join(rng.choices("!?.,;:-…()/*#=+", k=5)),
        emoji, f"{number} {emoji}", hashlib.md5(number.encode()).hexdigest()[: rng.randint(6, 32)],
    ]  # fmt: skip
    return rng.choice(choices)


OTHERS = {script_text: 0.6, japanese_text: 0.15, foreign_latin_text: 0.17, symbol_text: 0.08}


def sample_other(rng: random.Random, pools: Pools, split: str, count: int) -> Iterator[Text]:
    """Texts in none of the languages."""
    for _ in range(count):
        make = rng.choices(list(OTHERS), list(OTHERS.values()))[0]
        yield Text(make(rng, pools, split), "other", make.__name__.removesuffix("_text"), "other", "none")


def make_split(pools: Pools, split: str) -> list[Text]:
    """All texts of a split, in random order."""
    rng = random.Random(f"{SEED} {split}")
    texts = [text for name in LANGUAGES for text in sample_language(rng, pools, split, name, SIZES[split])]
    texts += sample_other(rng, pools, split, SIZES[split] // 2)
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
        lines = ["text\tlabel\tdomain\tform\tvariation", *(text.line() for text in make_split(pools, split))]
        content = "\n".join(lines).encode() + b"\n"
        (arguments.output / f"{split}.tsv").write_bytes(content)
        print(f"{split}: {len(lines) - 1:,} texts, sha256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
