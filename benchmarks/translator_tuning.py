"""Texts of the last training of the bundled translator (translator.toml): short ones above all.

    python -m benchmarks.translator_tuning FOLDER
    python -m benchmarks.translator_tuning --mean runs/general runs/translator    a checkpoint "averaged" in the second

FOLDER is that of `benchmarks.translator_data --general`. It gets three files per language, English first:
tuning/mix.LANGUAGE.tsv, our own texts and word lists with samples of the other corpora; tuning/short.LANGUAGE.tsv,
short texts that only this training reads (benchmarks/written/tuning); and tuning/phrases.LANGUAGE.tsv, the phrases of
the bundled translation memory. Held-out sentences are left out, and texts by which translators are judged or checked:
everyday.tsv and sentences.tsv.
"""

import argparse
import random
from collections.abc import Iterable
from pathlib import Path

from benchmarks.judge import read_table
from benchmarks.translator_data import Pairs, read_tsv, split_pairs
from benchmarks.translator_text import BUNDLED, LANGUAGES, SEED, TEST_TEXTS, WRITTEN

from regard.data.split import hash_sentence
from regard.run.run import Run
from regard.training.averaging import average_checkpoints

SIZES = {"written": None, "wordlist": None, "tatoeba": 12_000, "msdocs": 6_000, "pydocs": 1_000, "guides": 1_000,
         "europarl": 3_000, "paws": 1_000, "mlqe": 1_000, "game": 1_000}  # fmt: skip
CHINESE_SIZES = {"everyday": 4_000, "law": 1_500}
"""Pairs of each corpus; None for all."""


def mixture(folder: Path, language: str, generator: random.Random) -> Pairs:
    """A sample of all corpora of a language, shuffled."""
    pairs: Pairs = []
    for corpus, size in (SIZES | (CHINESE_SIZES if language == "zh" else {})).items():
        path = folder / f"train.{corpus}.{language}.tsv.xz"
        if path.exists():
            read = list(read_tsv(path))
            pairs += generator.sample(read, len(read) if size is None else min(size, len(read)))
    generator.shuffle(pairs)
    return pairs


def write(path: Path, pairs: Iterable[tuple[str, str]], held: frozenset[int]) -> None:
    """Write the pairs without texts by which translators are judged."""
    lines = [f"{english}\t{other}\n" for english, other in pairs
             if held.isdisjoint((hash_sentence(english, SEED), hash_sentence(other, SEED)))]  # fmt: skip
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")
    print(f"{path.name}: {len(lines):,} pairs")


def write_all(folder: Path) -> None:
    """Write all files."""
    languages, judged = ("en", *LANGUAGES), TEST_TEXTS[:2]
    known = (row[name] for path in judged for row in read_table(path) for name in languages if name in row)
    held, generator = frozenset(hash_sentence(text, SEED) for text in known), random.Random(SEED)
    for language in LANGUAGES:
        write(folder / f"tuning/mix.{language}.tsv", mixture(folder, language, generator), held)
    texts = {"short": sorted((WRITTEN / "tuning").glob("*.tsv")), "phrases": [BUNDLED / "phrases.tsv"]}
    for name, paths in texts.items():
        rows = [row for path in paths for row in read_table(path)]
        for language in LANGUAGES:
            pairs = split_pairs((row["en"], row[language]) for row in rows)["train"]
            write(folder / f"tuning/{name}.{language}.tsv", pairs, held)


def save_mean(before: Path, tuned: Path) -> None:
    """Save the mean of the weights before and after the last training: it forgets less (Wortsman et al. 2022)."""
    runs = [Run.open(folder) for folder in (before, tuned)]
    paths = [run.checkpoints.resolve("best") for run in runs]
    print(runs[1].checkpoints.save_average(average_checkpoints(paths), paths))


def main() -> None:
    """Write all files, or the mean of two runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="the folder of the corpora")
    parser.add_argument("--mean", type=Path, nargs=2, metavar=("BEFORE", "TUNED"), help="two runs")
    arguments = parser.parse_args()
    if arguments.mean:
        save_mean(*arguments.mean)
    if arguments.folder:
        write_all(arguments.folder)


if __name__ == "__main__":
    main()
