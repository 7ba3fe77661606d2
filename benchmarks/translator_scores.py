"""BLEU and chrF of translators on the test sets of the bundled one, by direction and corpus; the source is a baseline.

    python -m benchmarks.translator_scores FOLDER translator runs/single-pair --limit 200
    python -m benchmarks.translator_scores FOLDER translator --also news de NEWS.en NEWS.de
    python -m benchmarks.translator_scores FOLDER translator runs/general --split valid

FOLDER is that of benchmarks.translator_data: test.CORPUS.LANGUAGE.tsv, English first, also .xz; --split valid is for
development. A run is scored in the directions that it knows. --also adds a corpus of two files of lines, English first.
The tables are Markdown.
"""

import argparse
import json
import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.files import JsonObject
from regard.metrics.translation import bleu, bleu_tokenizer_for, chrf
from regard.run.model import Translator

COPY = "copy"
ALL = "all"


@dataclass(frozen=True)
class TestSet:
    """Sentences of one corpus in one direction."""

    direction: tuple[str, str]
    corpus: str
    sources: list[str]
    targets: list[str]


def read_lines(path: Path) -> list[str]:
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as stream:
        return [line.rstrip("\n") for line in stream]


def read_sets(folder: Path, split: str, also: Sequence[Sequence[str]], limit: int) -> list[TestSet]:
    """All sets of a split, in both directions."""
    tables = {}
    for path in sorted(folder.glob(f"{split}.*.tsv*")):
        _, corpus, language, *_ = path.name.split(".")
        tables[corpus, language] = [(line.split("\t")[0], line.split("\t")[1]) for line in read_lines(path)]
    for corpus, language, english, other in also:
        tables[corpus, language] = list(zip(read_lines(Path(english)), read_lines(Path(other)), strict=True))
    sets = []
    for (corpus, language), pairs in tables.items():
        first, second = ([pair[side] for pair in pairs[:limit]] for side in (0, 1))
        sets.append(TestSet(("en", language), corpus, first, second))
        sets.append(TestSet((language, "en"), corpus, second, first))
    return sets


def score(outputs: Sequence[str], targets: Sequence[str]) -> tuple[float, float]:
    """BLEU, of Chinese by characters, and chrF."""
    return bleu(outputs, targets, tokenize=bleu_tokenizer_for(targets)).value, chrf(outputs, targets).value


def score_run(name: str, translator: Translator | None, sets: Sequence[TestSet]) -> dict[str, tuple[float, float]]:
    """The scores of a run by "DIRECTION CORPUS"; all corpora of a direction are ALL. Without a run, of the sources."""
    scores = {}
    together: dict[str, tuple[list[str], list[str]]] = {}
    for part in sets:
        source, target = part.direction
        if translator is None:
            outputs = part.sources
        elif part.direction in translator.task.languages.directions:
            examples = [{"src": text, "to": target if translator.task.languages.tags else ""} for text in part.sources]
            predictions = list(translator.predict(examples))
            outputs = [prediction["translation"] for prediction in predictions]
            print_thirds(predictions, part.targets)
        else:
            continue
        direction = f"{source}-{target}"
        scores[f"{direction} {part.corpus}"] = score(outputs, part.targets)
        for collected, texts in zip(together.setdefault(direction, ([], [])), (outputs, part.targets), strict=True):
            collected.extend(texts)
        print(f"{name}: {direction} {part.corpus}, {len(outputs):,} sentences", flush=True)
    return scores | {f"{direction} {ALL}": score(*texts) for direction, texts in together.items()}


def print_thirds(predictions: Sequence[JsonObject], targets: Sequence[str]) -> None:
    """Print chrF of the sentences with the least, the middle and the greatest confidence."""
    order = sorted(range(len(predictions)), key=lambda number: predictions[number]["confidence"] or 0.0)
    thirds = [order[len(order) * third // 3 : len(order) * (third + 1) // 3] for third in range(3)]
    values = [
        chrf([predictions[n]["translation"] for n in third], [targets[n] for n in third]).value
        for third in thirds
        if third
    ]
    print("chrF by confidence, least to greatest:", *(f"{value:.1f}" for value in values))


def table(sets: Sequence[TestSet], scores: dict[str, dict[str, tuple[float, float]]]) -> str:
    """One row for each direction and corpus: BLEU and chrF of each run."""
    sizes: dict[tuple[str, str], int] = {}
    for part in sets:
        direction = "-".join(part.direction)
        for corpus in (ALL, part.corpus):
            sizes[direction, corpus] = sizes.get((direction, corpus), 0) + len(part.sources)
    lines = [f"| direction | corpus | sentences | {' | '.join(scores)} |"]
    lines.append(f"| --- | --- {'| ---: ' * (1 + len(scores))}|")
    for (direction, corpus), size in sorted(sizes.items()):
        cells = [run.get(f"{direction} {corpus}") for run in scores.values()]
        shown = " | ".join("" if cell is None else f"{cell[0]:.1f}, {cell[1]:.1f}" for cell in cells)
        lines.append(f"| {direction} | {corpus} | {size:,} | {shown} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of the test files")
    parser.add_argument("runs", nargs="+", help="folders of runs, or names of runs that come with regard")
    parser.add_argument("--split", choices=("valid", "test"), default="test")
    parser.add_argument("--limit", type=int, help="at most this many sentences of each file")
    parser.add_argument(
        "--also", nargs=4, action="append", default=[], metavar=("NAME", "LANGUAGE", "ENGLISH", "OTHER")
    )
    parser.add_argument("--json", type=Path, help="a file for the scores")
    arguments = parser.parse_args()
    sets = read_sets(arguments.folder, arguments.split, arguments.also, arguments.limit)
    runs: dict[str, Translator | None] = {name: Translator.load(name) for name in arguments.runs}
    known = {direction for run in runs.values() if run is not None for direction in run.task.languages.directions}
    sets = [part for part in sets if part.direction in known]
    scores = {name: score_run(name, run, sets) for name, run in (runs | {COPY: None}).items()}
    print(table(sets, scores))
    if arguments.json:
        arguments.json.write_text(json.dumps(scores, indent=1) + "\n")


if __name__ == "__main__":
    main()
