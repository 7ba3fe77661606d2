"""Run an experiment quickly and check it: its verdict where it is certain, its file, its sentence and its plots.

Two files of tests share the experiments, so that they run side by side.
"""

import json
import math
import re
import string
import xml.etree.ElementTree as ET
from pathlib import Path

from regard.lab.experiment import Effort
from regard.lab.presenting import picture_of, plots_of, tables_of
from regard.lab.records import Finished, read_finished
from regard.lab.registry import all_experiments
from regard.lab.running import run_experiment
from regard.lab.texts import LANGUAGES, Bilingual
from regard.viz.cells import width
from regard.viz.plots_text import plot_text

EXPECTED: dict[str, str] = {
    "autodiff": "refuted",
    "bag-of-words": "refuted",
    "batch-norm": "confirmed",
    "batch-size": "refuted",
    "bidirectional": "confirmed",
    "bleu": "confirmed",
    "causal-mask": "confirmed",
    "coreference": "confirmed",
    "cross-attention": "confirmed",
    "depth": "confirmed",
    "diagonal": "confirmed",
    "dropout": "refuted",
    "embedding-scale": "confirmed",
    "feature-scaling": "confirmed",
    "global-local": "refuted",
    "hard-or-soft": "confirmed",
    "head-width": "confirmed",
    "heads": "confirmed",
    "lasso-ridge": "confirmed",
    "least-squares": "refuted",
    "locality": "confirmed",
    "markov": "refuted",
    "masking": "confirmed",
    "own-weight": "refuted",
    "padding": "confirmed",
    "parameters": "refuted",
    "perplexity": "refuted",
    "position-vectors": "refuted",
    "probes": "confirmed",
    "recall": "confirmed",
    "rock-paper-scissors": "confirmed",
    "scale": "confirmed",
    "subwords": "refuted",
    "vanishing": "confirmed",
    "warm-up": "confirmed",
    "words-or-characters": "refuted",
    "zero-init": "confirmed",
    "zipf": "confirmed",
}
"""The verdict of the experiments whose result is certain with one seed and few steps."""
QUICK = Effort(quick=True)
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def names_of(half: int) -> list[str]:
    """Every second experiment, from the first or from the second one."""
    return sorted(all_experiments())[half::2]


def check_experiment(name: str, folder: Path) -> None:
    """Run an experiment quickly and check everything that it writes."""
    finished = run_experiment(all_experiments()[name], QUICK, folder)
    assert finished.verdict.kind == EXPECTED.get(name, finished.verdict.kind), finished.sentence.en
    check_file(finished, folder)
    check_sentence(finished)
    check_numbers(finished)
    check_plots(finished)


def check_file(finished: Finished, folder: Path) -> None:
    """The file holds all numbers, and its sentence is the one that the numbers give."""
    stored = json.loads(finished.path.read_text(encoding="utf-8"))
    read = read_finished(folder, finished.experiment)
    assert read is not None and read.verdict == finished.verdict
    assert json.dumps(read.results.to_json()) == json.dumps(stored["values"])
    assert (stored["verdict"]["en"], stored["verdict"]["zh"]) == finished.sentence


def check_sentence(finished: Finished) -> None:
    """Every digit of a sentence comes from a number that it names, in both languages."""
    verdict = finished.verdict
    check_digits(finished)
    assert all(sentence.strip() and "nan" not in sentence for sentence in finished.sentence)
    assert all(math.isfinite(number) for number in verdict.numbers.values())
    assert not verdict.numbers.keys() & set(finished.results.panels()), "a number has the name of a panel"
    assert verdict.findings.keys() == finished.experiment.texts.findings.keys()
    assert CHINESE.search(finished.sentence.zh) and not CHINESE.search(finished.sentence.en)


def check_digits(finished: Finished) -> None:
    """A sentence has no digit of its own, and names the same numbers in both languages."""
    texts = finished.experiment.texts
    for template in (texts.verdict, *(finding.numbers for finding in texts.findings.values())):
        check_template(finished, template)
    words = [*texts.answer.values(), *(finding.claim for finding in texts.findings.values())]
    assert not any(re.search(r"[\d{]", text) for pair in words for text in pair)


def check_template(finished: Finished, template: Bilingual) -> None:
    parts = [list(string.Formatter().parse(text)) for text in template]
    assert not re.search(r"\d", "".join(literal for each in parts for literal, *_ in each)), template
    fields = [{field for _, field, *_ in each if field} for each in parts]
    assert fields[0] == fields[1], "both languages give the same numbers"
    used = {field.partition("[")[0] for field in fields[0]}
    assert used <= {*finished.verdict.numbers, *finished.results.panels()}


def check_numbers(finished: Finished) -> None:
    """Every panel has numbers, and all numbers are in a panel."""
    assert sorted(finished.results.panels()) == sorted(panel.key for panel in finished.experiment.texts.panels)


def check_plots(finished: Finished) -> None:
    """The plots are drawn in both languages; names that are translated are different ones."""
    for language in LANGUAGES:
        tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(picture_of(finished, language)).iter()}
        assert tags <= {"svg", "style", "g", "path", "rect", "circle", "text", "title"}
        for plot, panel in zip(plots_of(finished, language), finished.experiment.texts.panels, strict=True):
            assert len(plot.series) == len(finished.results.series(panel.key))
            assert max(map(width, plot_text(plot, 80).splitlines())) <= 80
    english, chinese = (tables_of(finished, language) for language in LANGUAGES)
    for table, other in zip(english, chinese, strict=True):
        assert [row for _, row in table.rows] == [row for _, row in other.rows], "the numbers are the same"
        assert not CHINESE.search("".join([*table.columns, *(x for x, _ in table.rows)]))
