"""Data of the bundled translator: corpora split by English sentence, one file for each corpus, language and split.

    python -m benchmarks.translator_data DATA FOLDER [--general] [--processes 2]

DATA holds the folders tatoeba, tatoeba-zh, msdocs, pydocs and mlqe-pe-en-de (see docs/models/translator.md). FOLDER
gets train.CORPUS.LANGUAGE.tsv.xz, valid... and test..., English first. A sentence is assigned by the hash of its
English text, so no English sentence of valid or test is in train, in any corpus or language; only dictionaries (words,
wordlist) are train alone.

Two more files are made of the training sentences of tatoeba. train.words.LANGUAGE.tsv.xz is a dictionary, since people
also translate single words. train.tatoeba.en.txt.xz has the English sentences and words without a Chinese translation:
there are few everyday sentences in Chinese, so a model translates them.

--general adds the other corpora of the bundled translator (recipes/translator-corpora.toml): the European Parliament,
laws, a game, guides, messages of programs in German, names and CC-CEDICT, cleaned with the filters of `regard clean`;
and our own texts and word lists (translator_text.py). Its other files: valid.news.*, newstest2013 and newstest2019 from
Chinese, for development only; train.europarl.en.txt.xz, English sentences for a model to translate into Chinese; and
train.mono.en.txt.xz, English sentences for a model to translate into all languages.

Corpora are made by several processes at once. --limit reads only so many pairs of each file, to try the commands.
"""

import argparse
import lzma
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.translator_text import LANGUAGES, SEED, detokenize, english_sentences, written_pairs
from benchmarks.word_pairs import word_pairs

from regard.config import build
from regard.data.settings import PairDataSettings
from regard.data.split import hash_sentence
from regard.processes import count_workers
from regard.run.cleaning import clean, file_corpus

TEST, VALID = 0.02, 0.005
"""Shares of the English sentences that are held out."""
MAX_TEST, MAX_VALID = 1000, 250
"""Sentences of one file; the other held-out ones are not used."""
PRESET = 1
"""Of xz: 6 takes twelve times as long, for two thirds of the size."""
HELD = (MAX_VALID, MAX_TEST)
Pairs = list[tuple[str, str]]
Splits = dict[str, Pairs]
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
SOFTWARE = "po-de-en"
MARKUP = re.compile(r"[<>{}$%_~\\|=\[\]@#*^&]")
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


@dataclass(frozen=True)
class Files:
    """The files of a corpus in one language, and how they are read: all are pairs, English first."""

    tables: tuple[Path, ...] = ()
    lines: tuple[tuple[Path, Path], ...] = ()
    """Two files each, English first."""
    tokenized: bool = False
    """True for lines with spaces around punctuation."""
    plain: bool = False
    """True to leave out lines with markup or placeholders."""
    limit: int | None = None
    """Pairs of each file; None for all."""

    def pairs(self) -> Iterator[tuple[str, str]]:
        """All pairs without empty sides."""
        yield from chain.from_iterable(islice(read_tsv(path), self.limit) for path in self.tables)
        for english, other in self.lines:
            for pair in islice(read_lines(english, other), self.limit):
                if self.plain and any(map(MARKUP.search, pair)):
                    continue
                yield (detokenize(pair[0]), detokenize(pair[1])) if self.tokenized else pair


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


def split_pairs(pairs: Iterable[tuple[str, str]]) -> Splits:
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
        for (split, items), limit in zip(held.items(), HELD, strict=True)
    }
    return {"train": list(train), **chosen}


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write a compressed text file."""
    with lzma.open(path, "wt", encoding="utf-8", preset=PRESET) as stream:
        stream.writelines(f"{line}\n" for line in lines)
    print(f"{path.name}: {len(lines):,} lines", flush=True)


def write_splits(folder: Path, corpus: str, language: str, splits: Splits) -> None:
    """Write the files of one corpus."""
    for split, chosen in splits.items():
        if chosen:
            write_lines(folder / f"{split}.{corpus}.{language}.tsv.xz", list(map("\t".join, chosen)))


def write_corpus(folder: Path, corpus: str, language: str, files: Files, clean: bool, returned: bool) -> Pairs:
    """Write a corpus, cleaned or as it is; return its training pairs if they are needed."""
    splits = split_pairs(files.pairs())
    if clean:
        splits["train"] = cleaned(splits["train"], language)
    write_splits(folder, corpus, language, splits)
    return splits["train"] if returned else []


def write_words(folder: Path, language: str, everyday: Pairs) -> Pairs:
    """Write and return the dictionary of everyday sentences."""
    words = word_pairs(everyday)
    write_splits(folder, "words", language, {"train": words})
    return words


def write_untranslated(folder: Path, everyday: Mapping[str, Pairs], dictionaries: Iterable[Pairs]) -> None:
    """Write the everyday sentences and words without a Chinese translation."""
    known = {english for english, _ in everyday["zh"]}
    english = {pair[0]: None for pairs in (*everyday.values(), *dictionaries) for pair in pairs}
    write_lines(folder / "train.tatoeba.en.txt.xz", [text for text in english if text not in known])


def write_parliament(folder: Path, language: str, train: Files, held: Mapping[str, Files]) -> None:
    """Write the European Parliament of a language with its own splits, and English sentences beside the Spanish one."""
    pairs = split_pairs(train.pairs())["train"]
    # the corpus has been identified by its stop words, and has no equal English sentences
    splits = {"train": cleaned(pairs, language, {"language": 0, "near_duplicates": 0})}
    splits |= {name: list(islice(files.pairs(), size)) for (name, files), size in zip(held.items(), HELD, strict=True)}
    write_splits(folder, PARLIAMENT, language, splits)
    if language == "es":
        texts = dict.fromkeys(text for text, _ in pairs if hash_sentence(text, SEED + 1) / 2**64 < TO_CHINESE)
        write_lines(folder / f"train.{PARLIAMENT}.en.txt.xz", list(texts))


def write_written(folder: Path, language: str, limit: int | None) -> None:
    """Write our own texts, and our word lists without held-out words; they need no cleaning."""
    texts, words = (islice(written_pairs(language, word_list), limit) for word_list in (False, True))
    write_splits(folder, "written", language, split_pairs(texts))
    write_splits(folder, "wordlist", language, {"train": split_pairs(words)["train"]})


def write_mono(data: Path, folder: Path, limit: int | None) -> None:
    """Write the English sentences that the teacher translates into all languages, without held-out ones."""
    texts = split_pairs((text, "") for text in english_sentences(data, limit))["train"]
    write_lines(folder / "train.mono.en.txt.xz", [text for text, _ in texts])


def write_glosses(folder: Path, entries: Files, pairs: Pairs) -> None:
    """Write the dictionary from Chinese, without held-out words."""
    write_splits(folder, "words", "zh", {"train": split_pairs(glosses(entries.pairs(), pairs))["train"]})


def write_news(folder: Path, language: str, files: Files) -> None:
    """Write a development set of news."""
    write_splits(folder, "news", language, {"valid": list(files.pairs())})


def write_all(data: Path, folder: Path, pool: Executor, general: bool, limit: int | None) -> None:
    """Write all files, the largest corpora first."""

    def tables(*names: str) -> Files:
        return Files(tables=tuple(data / name for name in names if (data / name).exists()), limit=limit)

    def lines(english: str, other: str) -> Files:
        return Files(lines=((data / f"{english}.xz", data / f"{other}.xz"),), limit=limit)

    done: list[Future[Any]] = []
    if general:
        for language in ("es", "de", "fr"):
            train, valid, test = (
                lines(f"{PARLIAMENT}/{part}.en", f"{PARLIAMENT}/{part}.{language}") for part in ("train", "dev", "test")
            )
            done.append(pool.submit(write_parliament, folder, language, train, {"valid": valid, "test": test}))
    everyday = {
        language: pool.submit(write_corpus, folder, "tatoeba", language, tables(path), False, language != "zh-Hant")
        for (corpus, language), path in CORPORA.items()
        if corpus == "tatoeba"
    }
    edits = tuple(
        (data / POST_EDITS / f"{part}.en.xz", data / POST_EDITS / f"{part}.de.xz") for part in ("train", "dev")
    )
    others = {key: tables(path) for key, path in CORPORA.items() if key[0] != "tatoeba"}
    others["mlqe", "de"] = Files(lines=edits, tokenized=True, limit=limit)
    done += [pool.submit(write_corpus, folder, *key, files, False, False) for key, files in others.items()]
    chinese: list[Future[Pairs]] = []
    if general:
        programs = tuple(
            (path, path.with_suffix("").with_suffix(".de.xz")) for path in sorted((data / SOFTWARE).glob("*.en.xz"))
        )
        files = Files(lines=programs, plain=True, limit=limit)
        done += [pool.submit(write_corpus, folder, "software", "de", files, True, False)]
        done += [pool.submit(write_mono, data, folder, limit)]
        for corpus, languages in GENERAL.items():
            for language, names in languages.items():
                returned = language == "zh" and corpus != "names"
                future = pool.submit(write_corpus, folder, corpus, language, tables(*names), True, returned)
                (chinese if returned else done).append(future)
        done += [pool.submit(write_written, folder, language, limit) for language in LANGUAGES]
        news = {language: tables(path) for language, path in NEWS.items()}
        news["de"] = lines(f"{GERMAN_NEWS}.en", f"{GERMAN_NEWS}.de")
        done += [pool.submit(write_news, folder, language, files) for language, files in news.items()]
    pairs = {language: future.result() for language, future in everyday.items() if language != "zh-Hant"}
    words = [pool.submit(write_words, folder, language, pairs[language]) for language in pairs if language != "zh"]
    if general:
        joined = [pair for future in chinese for pair in future.result()]
        done.append(pool.submit(write_glosses, folder, tables(GLOSSES), joined))
    write_untranslated(folder, pairs, [future.result() for future in words])
    for future in done:
        future.result()


def cleaned(pairs: Pairs, language: str, changes: dict[str, object] | None = None) -> Pairs:
    """The pairs that the filters of `regard clean` keep."""
    with TemporaryDirectory() as temporary:
        files = {side: str(Path(temporary) / f"pairs.{side}") for side in ("src", "tgt")}
        for path, texts in zip(files.values(), zip(*pairs, strict=True), strict=True):
            Path(path).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        values = {"train": [files], "src_lang": "en", "tgt_lang": language, "workers": 1, "clean": changes or {}}
        result = clean(file_corpus(build(PairDataSettings, values, "the filters")))
        print(result.account.table(), flush=True)
        return [(pair["src"], pair["tgt"]) for pair, reason in result.results() if reason is None]


def glosses(entries: Iterable[tuple[str, str]], pairs: Iterable[tuple[str, str]]) -> Pairs:
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
    parser.add_argument("--general", action="store_true", help="also the corpora of translator-corpora")
    parser.add_argument("--processes", type=int, default=0, help="default: one per core")
    parser.add_argument("--limit", type=int, help="pairs of each file that are read; default: all")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(count_workers(options.processes), get_context("spawn")) as pool:
        write_all(options.data, options.folder, pool, options.general, options.limit)


if __name__ == "__main__":
    main()
