"""Fine-tuning on 1,000 sentences: the data, scores within the domain and outside it, and the terms of a glossary.

    python -m benchmarks.fine_tuning data DATA SPLITS FOLDER    writes the files; SPLITS: of benchmarks/translator_data
    python -m benchmarks.fine_tuning score RUN FOLDER DOMAIN    BLEU and chrF on its 300 test sentences and on Tatoeba's
    python -m benchmarks.fine_tuning terms RUN FOLDER DOMAIN    translated terms, without and with the glossary

English to German: calibre (a program's messages) and wesnoth (a game's story), of DATA/po-de-en. The glossary has the
50 most frequent pairs of an English word and a German noun in the training sentences, found by IBM Model 1.
"""

import lzma
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.word_pairs import word_pairs

from regard.metrics.translation import bleu, chrf
from regard.run.model import Translator

DOMAINS = ("calibre", "wesnoth")
PARTS = {"train": slice(1000), "valid": slice(1000, 1300), "test": slice(1300, 1600)}
TERMS = 50
Pairs = list[tuple[str, str]]


def write_data(data: Path, splits: Path, folder: Path) -> None:
    """Write 1,000 + 300 + 300 pairs of each domain and its glossary, and general pairs of Tatoeba."""
    folder.mkdir(parents=True, exist_ok=True)
    for domain in DOMAINS:
        sides = (read_lines(data / "po-de-en" / f"{domain}.{side}.xz") for side in ("en", "de"))
        unique: dict[str, str] = {}
        for pair in filter(is_sentence, zip(*sides, strict=True)):
            unique.setdefault(*pair)
        pairs = shuffled(unique.items())
        for name, part in PARTS.items():
            write_pairs(folder / f"{domain}.{name}.tsv", pairs[part])
        write_pairs(folder / f"{domain}.terms.tsv", glossary(pairs[PARTS["train"]]))
    for name, part in (("train", slice(1000)), ("test", slice(300))):
        rows = (line.split("\t") for line in read_lines(splits / f"{name}.tatoeba.de.tsv.xz"))
        write_pairs(folder / f"tatoeba.{name}.tsv", shuffled((row[0], row[1]) for row in rows)[part])


def is_sentence(pair: tuple[str, str]) -> bool:
    english, german = (len(text.split()) for text in pair)
    return "\t" not in "".join(pair) and 4 <= english <= 40 and 3 <= german <= 40


def glossary(pairs: Pairs) -> Pairs:
    """The most frequent English words whose translation is a German noun of another form."""
    found = ((english.lower(), german) for english, german in word_pairs(pairs) if not english.isupper())
    return [(e, g) for e, g in found if g[0].isupper() and len(e) > 3 and e != g.lower()][:TERMS]


def score(run: str, folder: Path, domain: str) -> None:
    translator = Translator.load(run, device="cpu")
    for name in (domain, "tatoeba"):
        sources, references = zip(*read_pairs(folder / f"{name}.test.tsv"), strict=True)
        report(name, translator.translate(sources, source="en", target="de"), references)


def count_terms(run: str, folder: Path, domain: str) -> None:
    """Print how many terms of sources and references are in the translations of `regard translate`."""
    pairs, terms = read_pairs(folder / f"{domain}.test.tsv"), read_pairs(folder / f"{domain}.terms.tsv")
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.writelines(f"{source}\n" for source, _ in pairs)
        file.flush()
        command = [sys.executable, "-m", "regard", "translate", run, "--from", "en", "--to", "de", "-i", file.name]
        for options in ([], ["--glossary", str(folder / f"{domain}.terms.tsv")]):
            whole = [*command, "--format", "text", *options]
            lines = subprocess.run(whole, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")[
                : len(pairs)
            ]
            kept = [
                german in line
                for (source, reference), line in zip(pairs, lines, strict=True)
                for english, german in terms
                if german in reference and re.search(rf"\b{re.escape(english)}\b", source, re.IGNORECASE)
            ]
            report(f"{sum(kept)} of {len(kept)} terms", lines, [reference for _, reference in pairs])


def report(name: str, translations: Sequence[str], references: Sequence[str]) -> None:
    print(f"{name}: BLEU {bleu(translations, references).value:.2f} chrF {chrf(translations, references).value:.2f}")


def shuffled(pairs: Iterable[tuple[str, str]]) -> Pairs:
    mixed = list(pairs)
    random.Random(1).shuffle(mixed)
    return mixed


def read_lines(path: Path) -> list[str]:
    return lzma.open(path, "rt", encoding="utf-8", newline="").read().removesuffix("\n").split("\n")


def read_pairs(path: Path) -> Pairs:
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return [(source, target) for source, target in rows]


def write_pairs(path: Path, pairs: Pairs) -> None:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")


def main() -> None:
    command, *values = sys.argv[1:]
    if command == "data":
        write_data(*map(Path, values))
    else:
        (score if command == "score" else count_terms)(values[0], Path(values[1]), values[2])


if __name__ == "__main__":
    main()
