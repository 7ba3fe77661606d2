"""Data of the bundled translator: corpora split by English sentence, one file for each corpus, language and split.

    python -m benchmarks.translator_data DATA FOLDER [--general]

DATA holds the folders tatoeba, tatoeba-zh, msdocs, pydocs and mlqe-pe-en-de (see docs/models/translator.md). FOLDER
gets train.CORPUS.LANGUAGE.tsv.xz, valid... and test..., English first. A sentence is assigned by the hash of its
English text, so no English sentence of valid or test is in train, in any corpus or language.

Two more files are made of the training sentences of tatoeba. train.words.LANGUAGE.tsv.xz is a dictionary, since people
also translate single words. train.tatoeba.en.txt.xz has the English sentences and words without a Chinese translation:
there are few everyday sentences in Chinese, so the teacher translates them (recipes/translator.toml).

--general adds the corpora of the recipes translator-general-teacher and translator-general: the European Parliament,
laws, a game, guides, names and CC-CEDICT, cleaned with the filters of `regard clean`. Its other files: valid.news.*,
newstest2013 and newstest2019 from Chinese, for development only; and train.europarl.en.txt.xz, English sentences for
the teacher to translate into Chinese.
"""

import argparse
import lzma
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.word_pairs import word_pairs

from regard.config import build
from regard.data.settings import PairDataSettings
from regard.data.split import hash_sentence
from regard.run.cleaning import clean, file_corpus

TEST, VALID = 0.02, 0.005
"""Shares of the English sentences that are held out."""
MAX_TEST, MAX_VALID = 1000, 250
"""Sentences of one file; the other held-out ones are not used."""
SEED = 1
CORPORA = {
    ("tatoeba", "de"): "tatoeba/deu-eng.tsv.xz",
    ("tatoeba", "fr"): "tatoeba/fra-eng.tsv.xz",
    ("tatoeba", "es"): "tatoeba/spa-eng.tsv.xz",
    ("tatoeba", "zh"): "tatoeba-zh/eng-zh-Hans.tsv.xz",
    ("tatoeba", "zh-Hant"): "tatoeba-zh/eng-zh-Hant.tsv.xz",
    **{("msdocs", language): f"msdocs/en-{language}.tsv.xz" for language in ("de", "fr", "es", "zh")},
    **{("pydocs", language): f"pydocs/en-{language}.tsv.xz" for language in ("fr", "es", "zh")},
}
POST_EDITS = "mlqe-pe-en-de"
PARLIAMENT = "europarl"
GUIDES = ("debian-handbook", "gnome-help", "mozilla-www", "bitcoin-org", "ethereum", "debian-news")
GENERAL = {
    "everyday": {"zh": ["tatoeba-zh-extra/en-zh.tsv.xz", "3am-en-zh/train.tsv.xz"]},
    "game": {language: [f"cdda/en-{language}.tsv.xz"] for language in ("de", "fr", "es", "zh")},
    "guides": {language: [f"{name}/en-{language}.tsv.xz" for name in GUIDES] for language in ("de", "fr", "es", "zh")},
    "paws": {language: [f"paws-x/en-{language}.tsv.xz"] for language in ("de", "fr", "es", "zh")},
    "mlqe": {"zh": ["mlqe-pe-en-zh/train.tsv.xz", "mlqe-pe-en-zh/dev.tsv.xz"]},
    "law": {"zh": ["taiwan-law/en-zh.tsv.xz"]},
    "names": {language: [f"names/en-{language}.tsv.xz"] for language in ("de", "fr", "es", "zh")},
}
"""Files by corpus and language."""
NEWS = {
    "fr": "wmt-dev/newstest2013.en-fr.tsv.xz",
    "es": "wmt-dev/newstest2013.en-es.tsv.xz",
    "zh": "wmt-dev/newstest2019-zhen.en-zh.tsv.xz",
}
GERMAN_NEWS = "wmt-newstest-de-en/newstest2013"
GLOSSES, MIN_GLOSS_COUNT = "cc-cedict/en-zh.tsv.xz", 5
"""Chinese sentences that have a word of the dictionary."""
MIN_CONFIRMED = 0.2
"""Share of the sentences with the Chinese word whose translation has the English one."""
MAX_GLOSS = 24
"""Characters of an English gloss: longer ones explain a word and do not translate it."""
TO_CHINESE = 0.4
"""Share of the English sentences of Parliament for the teacher to translate into Chinese."""


def read_tsv(path: Path) -> Iterator[tuple[str, str]]:
    """Pairs of a table, English first."""
    with lzma.open(path, "rt", encoding="utf-8", newline="") as stream:
        for line in stream:
            cells = line.rstrip("\r\n").split("\t")
            if len(cells) >= 2 and cells[0].strip() and cells[1].strip():
                yield cells[0].strip(), cells[1].strip()


def read_lines(english: Path, other: Path) -> Iterator[tuple[str, str]]:
    """Pairs of two files, line by line."""
    with lzma.open(english, "rt", encoding="utf-8") as first, lzma.open(other, "rt", encoding="utf-8") as second:
        for source, target in zip(first, second, strict=True):
            if source.strip() and target.strip():
                yield source.strip().replace("\t", " "), target.strip().replace("\t", " ")


def read_post_edits(folder: Path) -> Iterator[tuple[str, str]]:
    """Pairs of MLQE-PE, without the spaces that its tokenizer put around punctuation."""
    for split in ("train", "dev"):
        for source, target in read_lines(folder / f"{split}.en.xz", folder / f"{split}.de.xz"):
            yield detokenize(source), detokenize(target)


def detokenize(text: str) -> str:
    """A sentence without spaces before commas, inside of brackets and quotes."""
    text = re.sub(r" ([,.;:!?%)\]}“])", r"\1", text)
    text = re.sub(r"([(\[{„]) ", r"\1", text)
    text = re.sub(r" (n't|'(?:s|re|ve|ll|d|m)\b)", r"\1", text)
    text = re.sub(r'" ([^"]*?) "', r'"\1"', text)
    return re.sub(r" (@-@|/) ", lambda match: match[1].strip("@"), text).strip()


def split_pairs(pairs: Iterator[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """Different pairs of train; of valid and test the first translation of each sentence, and not too many."""
    train, held = dict[tuple[str, str], None](), {"valid": dict[str, tuple[float, str]](), "test": {}}
    for english, other in pairs:
        place = hash_sentence(english, SEED) / 2**64
        if place < TEST:
            held["test"].setdefault(english, (place, other))
        elif place >= 1 - VALID:
            held["valid"].setdefault(english, (-place, other))
        else:
            train[english, other] = None
    chosen = {
        split: [(english, other) for english, (_, other) in sorted(items.items(), key=lambda item: item[1][0])[:limit]]
        for (split, items), limit in zip(held.items(), (MAX_VALID, MAX_TEST), strict=True)
    }
    return {"train": list(train), **chosen}


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write a compressed text file."""
    with lzma.open(path, "wt", encoding="utf-8", preset=6) as stream:
        stream.writelines(f"{line}\n" for line in lines)
    print(f"{path.name}: {len(lines):,} lines", flush=True)


def write_words(folder: Path, everyday: dict[str, list[tuple[str, str]]]) -> None:
    """Write the dictionaries, and the English text without a Chinese translation."""
    dictionaries = {language: word_pairs(pairs) for language, pairs in everyday.items() if language != "zh"}
    for language, pairs in dictionaries.items():
        write_lines(folder / f"train.words.{language}.tsv.xz", list(map("\t".join, pairs)))
    known = {english for english, _ in everyday["zh"]}
    english = {pair[0]: None for source in (everyday, dictionaries) for pairs in source.values() for pair in pairs}
    write_lines(folder / "train.tatoeba.en.txt.xz", [text for text in english if text not in known])


def write_splits(folder: Path, corpus: str, language: str, splits: dict[str, list[tuple[str, str]]]) -> None:
    """Write the files of one corpus."""
    for split, chosen in splits.items():
        if chosen:
            write_lines(folder / f"{split}.{corpus}.{language}.tsv.xz", list(map("\t".join, chosen)))


def write_general(data: Path, folder: Path) -> None:
    """Write the corpora of --general."""
    chinese: list[tuple[str, str]] = []
    for corpus, languages in GENERAL.items():
        for language, names in languages.items():
            paths = [data / name for name in names if (data / name).exists()]  # not all guides are in all languages
            splits = split_pairs(chain.from_iterable(map(read_tsv, paths)))
            splits["train"] = cleaned(splits["train"], language)
            write_splits(folder, corpus, language, splits)
            chinese += splits["train"] if language == "zh" and corpus != "names" else []
    english: list[tuple[str, str]] = []
    for language in ("de", "fr", "es"):
        splits = {
            name: list(read_lines(data / PARLIAMENT / f"{part}.en.xz", data / PARLIAMENT / f"{part}.{language}.xz"))
            for name, part in (("valid", "dev"), ("test", "test"))
        }
        pairs = read_lines(data / PARLIAMENT / "train.en.xz", data / PARLIAMENT / f"train.{language}.xz")
        english = split_pairs(pairs)["train"]
        # the corpus has been identified by its stop words, and has no equal English sentences
        train = cleaned(english, language, {"language": 0, "near_duplicates": 0})
        write_splits(
            folder,
            PARLIAMENT,
            language,
            {"train": train, "valid": splits["valid"][:MAX_VALID], "test": splits["test"][:MAX_TEST]},
        )
    texts = dict.fromkeys(text for text, _ in english if hash_sentence(text, SEED + 1) / 2**64 < TO_CHINESE)
    write_lines(folder / f"train.{PARLIAMENT}.en.txt.xz", list(texts))
    write_splits(folder, "words", "zh", {"train": glosses(read_tsv(data / GLOSSES), chinese)})
    news = {language: read_tsv(data / path) for language, path in NEWS.items()}
    news["de"] = read_lines(data / f"{GERMAN_NEWS}.en.xz", data / f"{GERMAN_NEWS}.de.xz")
    for language, pairs in news.items():
        write_splits(folder, "news", language, {"valid": list(pairs)})


def cleaned(
    pairs: list[tuple[str, str]], language: str, changes: dict[str, object] | None = None
) -> list[tuple[str, str]]:
    """The pairs that the filters of `regard clean` keep."""
    with TemporaryDirectory() as temporary:
        files = {side: str(Path(temporary) / f"pairs.{side}") for side in ("src", "tgt")}
        for path, texts in zip(files.values(), zip(*pairs, strict=True), strict=True):
            Path(path).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        values = {"train": [files], "src_lang": "en", "tgt_lang": language, "clean": changes or {}}
        result = clean(file_corpus(build(PairDataSettings, values, "the filters")))
        print(result.account.table(), flush=True)
        return [(pair["src"], pair["tgt"]) for pair, reason in result.results() if reason is None]


def glosses(entries: Iterable[tuple[str, str]], pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Entries of a dictionary that the pairs confirm: the English is in enough of the sentences with the Chinese."""
    words = {word: english for english, word in entries if len(english) <= MAX_GLOSS and "(" not in english}
    counts, confirmed = Counter[str](), Counter[str]()
    for english, text in pairs:
        lower = english.lower()
        found = {text[start : start + size] for size in (2, 3, 4) for start in range(len(text) - size + 1)}
        for word in found & words.keys():
            counts[word] += 1
            confirmed[word] += words[word].lower().removeprefix("to ") in lower
    return [(words[word], word) for word, count in counts.most_common()
            if count >= MIN_GLOSS_COUNT and confirmed[word] >= MIN_CONFIRMED * count]  # fmt: skip


def main() -> None:
    """Write all files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with the corpora")
    parser.add_argument("folder", type=Path, help="folder for the files")
    parser.add_argument("--general", action="store_true", help="also the corpora of translator-general")
    options = parser.parse_args()
    data, folder = options.data, options.folder
    folder.mkdir(parents=True, exist_ok=True)
    corpora = {name: read_tsv(data / path) for name, path in CORPORA.items()}
    corpora["mlqe", "de"] = read_post_edits(data / POST_EDITS)
    everyday = {}
    for (corpus, language), pairs in corpora.items():
        splits = split_pairs(pairs)
        if corpus == "tatoeba" and language != "zh-Hant":
            everyday[language] = splits["train"]
        write_splits(folder, corpus, language, splits)
    write_words(folder, everyday)
    if options.general:
        write_general(data, folder)


if __name__ == "__main__":
    main()
