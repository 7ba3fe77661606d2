"""The language classifier that comes with regard beside lingua and py3langid, on texts that it was not trained on.

    python -m benchmarks.language_data --data DATA --output data/languages
    python -m benchmarks.language_identification data/languages/test.tsv
    python -m benchmarks.language_identification data/languages/test-short.tsv
    python -m benchmarks.language_identification data/languages/test-prose.tsv
    python -m benchmarks.language_identification data/languages/test.tsv --others czech.txt --run runs/another

Every identifier classifies the same texts. lingua (2.1.1, pip install lingua-language-detector) and py3langid (0.4.0,
pip install py3langid) are used twice: restricted to the five languages, as regard is, and with all of theirs. The first
table has right, wrong and unsure answers by characters. An answer is unsure if its confidence is below a threshold: for
each identifier the smallest tenth with at most 2 % wrong answers in each row of valid.tsv, which lies beside the test
file. The other tables count the most probable language, whatever its confidence. The confidence is compared with the
accuracy in ten ranges; the weighted mean of the differences is the expected calibration error (Guo et al. 2017, section
2). `--others` names files of text in other languages, one sentence a line: the table says how often each identifier is
sure of one of the five languages. Speed is that of one thread, in processor time, for all texts in one call.
"""

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from benchmarks.language_data import LANGUAGES

from regard.files import open_binary
from regard.run import model as run_model
from regard.run.model import Model
from regard.run_files import find_run
from regard.tasks import identification

Answers = list[tuple[str, float]]
"""The language of each text and its confidence, from 0 to 1."""
Identifiers = dict[str, Callable[[Sequence[str]], Answers]]
SHORT_SENTENCE = 60
"""Characters of a short sentence at most."""
ALL_LINGUA, ALL_PY3LANGID = 75, 97
"""Languages of lingua and of py3langid."""
CHARACTERS = {"1 to 20": (1, 20), "21 to 60": (21, 60), "more than 60": (61, 10**6)}
MAX_WRONG = 0.02
OTHERS = {
    "script": "random letters of 17 other scripts",
    "japanese": "kana with Chinese characters, made by rules",
    "latin": "words with letters exchanged",
    "neighbour": "spellings and frequent words of other languages",
    "symbol": "numbers, emoji, punctuation",
}
"""How the texts in none of the languages were made (language_others.py)."""
RANGES = 10


@dataclass(frozen=True)
class Row:
    """A text with its language and what it was cut from."""

    text: str
    label: str
    domain: str
    form: str
    variation: str

    @property
    def length(self) -> str:
        if self.form in ("word", "few"):
            return {"word": "1 word", "few": "2 or 3 words"}[self.form]
        long = len(self.text) > SHORT_SENTENCE
        return f"more than {SHORT_SENTENCE} characters" if long else f"4 words to {SHORT_SENTENCE} characters"


def read_rows(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as stream:
        return [Row(**row) for row in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)]


# ---- identifiers -----------------------------------------------------------------------------------------------------


def with_regard(texts: Sequence[str]) -> Answers:
    found = identification.identify(run_model.identifier(), texts, top=1)
    return [(best[0].language, best[0].confidence) if best else ("", 0.0) for best in found]


def with_lingua(languages: Sequence[str] | None) -> Callable[[Sequence[str]], Answers]:
    from lingua import IsoCode639_1, LanguageDetectorBuilder

    codes = [getattr(IsoCode639_1, code.upper()) for code in languages or ()]
    chosen = (
        LanguageDetectorBuilder.from_iso_codes_639_1(*codes) if codes else LanguageDetectorBuilder.from_all_languages()
    )
    detector = chosen.with_preloaded_language_models().build()

    def identify(texts: Sequence[str]) -> Answers:
        best = (detector.compute_language_confidence_values(text)[0] for text in texts)
        return [(item.language.iso_code_639_1.name.lower(), item.value) for item in best]

    return identify


def with_py3langid(languages: Sequence[str] | None) -> Callable[[Sequence[str]], Answers]:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(languages)
    return lambda texts: [identifier.classify(text) for text in texts]


def require_peers() -> None:
    """End the program if the other identifiers are not installed."""
    missing = [name for name in ("lingua", "py3langid") if find_spec(name) is None]
    if missing:
        sys.exit(f"not installed: {', '.join(missing)}; pip install lingua-language-detector py3langid")


# ---- tables ----------------------------------------------------------------------------------------------------------


def accuracy(rows: Sequence[Row], answers: Answers, kept: Iterable[int]) -> float:
    right = [answers[index][0] == rows[index].label for index in kept]
    return 100 * sum(right) / max(1, len(right))


def count_answers(rows: Sequence[Row], answers: Answers, name: str, threshold: float) -> tuple[int, int, int]:
    """Right, wrong and unsure answers for the texts of a number of characters."""
    least, most = CHARACTERS[name]
    kept = [index for index, row in enumerate(rows) if least <= len(row.text) <= most]
    sure = [index for index in kept if answers[index][1] >= threshold]
    right = sum(answers[index][0] == rows[index].label for index in sure)
    return right, len(sure) - right, len(kept) - len(sure)


def find_threshold(rows: Sequence[Row], answers: Answers) -> float:
    """The smallest tenth from which at most MAX_WRONG of the answers are wrong, whatever the number of characters."""
    for threshold in (tenth / 10 for tenth in range(10)):
        counts = [count_answers(rows, answers, name, threshold) for name in CHARACTERS]
        if all(wrong <= MAX_WRONG * (right + wrong + unsure) for right, wrong, unsure in counts):
            return threshold
    return 1.0


def print_characters(rows: Sequence[Row], answers: dict[str, Answers], thresholds: dict[str, float]) -> None:
    """Right, wrong and unsure answers of every identifier by characters."""
    names = [f"{name} (from {thresholds[name]})" for name in answers]
    print("\n| characters: percentage right / wrong / unsure | texts |", " | ".join(names), "|")
    print(f"| --- | ---: |{' ---: |' * len(names)}")
    for name in CHARACTERS:
        counts = [count_answers(rows, each, name, thresholds[key]) for key, each in answers.items()]
        total = sum(counts[0])
        cells = (" / ".join(f"{100 * count / max(1, total):.1f}" for count in three) for three in counts)
        print(f"| {name} | {total:,} | {' | '.join(cells)} |")


def print_accuracies(title: str, rows: Sequence[Row], answers: dict[str, Answers], key: Callable[[Row], str]) -> None:
    """Accuracy of every identifier for each value of `key`, and for all texts."""
    print(f"\n| {title} | texts | {' | '.join(answers)} |\n| --- | ---: |{' ---: |' * len(answers)}")
    for name in [*sorted({key(row) for row in rows}), "all"]:
        kept = [index for index, row in enumerate(rows) if name in (key(row), "all")]
        values = " | ".join(f"{accuracy(rows, each, kept):.1f}" for each in answers.values())
        print(f"| {name} | {len(kept):,} | {values} |")


def calibration_error(rows: Sequence[Row], answers: Answers) -> float:
    """The mean difference of confidence and accuracy over ranges of confidence, weighted by their texts."""
    bins: dict[int, list[tuple[float, bool]]] = {}
    for row, (language, confidence) in zip(rows, answers, strict=True):
        bins.setdefault(min(RANGES - 1, int(RANGES * confidence)), []).append((confidence, language == row.label))
    gaps = (abs(sum(confidence - right for confidence, right in values)) for values in bins.values())
    return sum(gaps) / max(1, len(rows))


def print_calibration(rows: Sequence[Row], answers: dict[str, Answers]) -> None:
    print(f"\n| calibration error (0 to 1) | {' | '.join(answers)} |\n| --- |{' ---: |' * len(answers)}")
    for name in [*sorted({row.length for row in rows}), "all"]:
        kept = [index for index, row in enumerate(rows) if name in (row.length, "all")]
        part = [rows[index] for index in kept]
        values = [calibration_error(part, [each[index] for index in kept]) for each in answers.values()]
        print(f"| {name} | {' | '.join(f'{value:.3f}' for value in values)} |")


def print_others(groups: dict[str, list[str]], identifiers: Identifiers, thresholds: dict[str, float]) -> None:
    """How many texts of no known language are surely called one of the five."""
    head = "texts in other languages: percentage with a sure answer among the five"
    print(f"\n| {head} | texts | {' | '.join(identifiers)} |\n| --- | ---: |{' ---: |' * len(identifiers)}")
    for name, texts in groups.items():
        shares = []
        for key, identify in identifiers.items():
            wrong = [code in LANGUAGES and share >= thresholds[key] for code, share in identify(texts)]
            shares.append(100 * sum(wrong) / max(1, len(wrong)))
        print(f"| {name} | {len(texts):,} | {' | '.join(f'{share:.1f}' for share in shares)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("test", type=Path, help="test.tsv of benchmarks.language_data")
    parser.add_argument("--run", default="languages", help="the classifier [the one that comes with regard]")
    parser.add_argument("--others", type=Path, nargs="*", default=[], help="files of text in other languages")
    arguments = parser.parse_args()
    require_peers()
    torch.set_num_threads(1)
    started = time.process_time()
    model = Model.load(find_run(arguments.run), device="cpu")
    run_model.identifier = lambda: model  # type: ignore[assignment]
    identification.identify(model, ["Guten Tag"])
    print(f"loaded in {time.process_time() - started:.2f} s, after torch was imported")
    everything = read_rows(arguments.test)
    rows = [row for row in everything if row.label in LANGUAGES]
    identifiers: Identifiers = {
        "regard": with_regard,
        "lingua, 5 languages": with_lingua(LANGUAGES),
        f"lingua, {ALL_LINGUA} languages": with_lingua(None),
        "py3langid, 5 languages": with_py3langid(LANGUAGES),
        f"py3langid, {ALL_PY3LANGID} languages": with_py3langid(None),
    }
    answers, texts = {}, [row.text for row in rows]
    for name, identify in identifiers.items():
        started = time.process_time()
        answers[name] = identify(texts)
        print(f"{name}: {len(texts) / (time.process_time() - started):,.0f} texts/s")
    valid = [row for row in read_rows(arguments.test.with_name("valid.tsv")) if row.label in LANGUAGES]
    texts = [row.text for row in valid]
    thresholds = {name: find_threshold(valid, identify(texts)) for name, identify in identifiers.items()}
    print_characters(rows, answers, thresholds)
    print_accuracies("length", rows, answers, lambda row: row.length)
    print_accuracies("domain", rows, answers, lambda row: row.domain)
    print_accuracies("variation", rows, answers, lambda row: row.variation)
    print_accuracies("language", rows, answers, lambda row: row.label)
    print_calibration(rows, answers)
    unknown = [row for row in everything if row.label not in LANGUAGES]
    groups = {title: [row.text for row in unknown if row.domain == name] for name, title in OTHERS.items() if unknown}
    for path in arguments.others:
        with open_binary(path) as stream:
            groups[path.name] = [line.decode().strip() for line in stream if line.strip()]
    print_others(groups, identifiers, thresholds)


if __name__ == "__main__":
    main()
