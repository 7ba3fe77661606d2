"""Data of the bundled translator: corpora split by English sentence, one file for each corpus, language and split.

    python -m benchmarks.translator_data DATA FOLDER

DATA holds the folders tatoeba, tatoeba-zh, msdocs, pydocs and mlqe-pe-en-de (see docs/models/translator.md). FOLDER
gets train.CORPUS.LANGUAGE.tsv.xz, valid... and test..., English first. A sentence is assigned by the hash of its
English text, so no English sentence of valid or test is in train, in any corpus or language.

Two more files are made of the training sentences of tatoeba. train.words.LANGUAGE.tsv.xz is a dictionary, since people
also translate single words. train.tatoeba.en.txt.xz has the English sentences and words without a Chinese translation:
there are few everyday sentences in Chinese, so the teacher translates them (recipes/translator.toml).
"""

import lzma
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.word_pairs import word_pairs

from regard.data.split import hash_sentence

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


def read_tsv(path: Path) -> Iterator[tuple[str, str]]:
    """Pairs of a table, English first."""
    with lzma.open(path, "rt", encoding="utf-8", newline="") as stream:
        for line in stream:
            cells = line.rstrip("\r\n").split("\t")
            if len(cells) >= 2 and cells[0].strip() and cells[1].strip():
                yield cells[0].strip(), cells[1].strip()


def read_post_edits(folder: Path) -> Iterator[tuple[str, str]]:
    """Pairs of MLQE-PE, without the spaces that its tokenizer put around punctuation."""
    for split in ("train", "dev"):
        with (
            lzma.open(folder / f"{split}.en.xz", "rt") as english,
            lzma.open(folder / f"{split}.de.xz", "rt") as german,
        ):
            for source, target in zip(english, german, strict=True):
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


def main(data: Path, folder: Path) -> None:
    """Write all files."""
    folder.mkdir(parents=True, exist_ok=True)
    corpora = {name: read_tsv(data / path) for name, path in CORPORA.items()}
    corpora["mlqe", "de"] = read_post_edits(data / POST_EDITS)
    everyday = {}
    for (corpus, language), pairs in corpora.items():
        splits = split_pairs(pairs)
        if corpus == "tatoeba" and language != "zh-Hant":
            everyday[language] = splits["train"]
        for split, chosen in splits.items():
            write_lines(folder / f"{split}.{corpus}.{language}.tsv.xz", list(map("\t".join, chosen)))
    write_words(folder, everyday)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
