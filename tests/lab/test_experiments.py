"""Every experiment, quickly: it runs, its texts are complete, and it shows what is certain."""

import json
import math
import re
import string
from pathlib import Path

import pytest

from regard.lab.experiment import TOPICS, Effort, Experiment, Results, Text
from regard.lab.records import Finished, read_finished
from regard.lab.registry import all_experiments
from regard.lab.running import measure, run_experiment

EXPECTED: dict[str, str] = {
    "causal-mask": "confirmed",
    "heads": "confirmed",
}
"""The verdict of the experiments whose result is certain with one seed and few steps."""
REPEATED = ("heads",)
"""Cheap experiments that are run twice with the same seed."""
QUICK = Effort(quick=True)
PLACE = re.compile(r"00[0-4]:\d+(-\d+)?")
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def texts_of(experiment: Experiment) -> list[Text]:
    """All texts of an experiment but those that may be a dash or a symbol."""
    named = [experiment.title, experiment.hypothesis, experiment.varied, experiment.measured, experiment.refuted_if]
    return [
        *named,
        *(question.text for question in experiment.questions),
        *(panel.title for panel in experiment.panels),
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lab")


@pytest.mark.parametrize("name", all_experiments())
def test_an_experiment(name: str, folder: Path) -> None:
    experiment = all_experiments()[name]
    finished = run_experiment(experiment, QUICK, folder)
    assert finished.verdict.kind == EXPECTED.get(name, finished.verdict.kind), finished.verdict.sentence.en
    check_file(finished, folder)
    check_sentence(finished)
    check_numbers(finished)


def check_file(finished: Finished, folder: Path) -> None:
    """The file holds all numbers, and its sentence is the one of `judge`."""
    stored = json.loads(finished.path.read_text(encoding="utf-8"))
    read = read_finished(folder, finished.experiment)
    assert read is not None and read.verdict == finished.verdict
    assert json.dumps(read.results.to_json()) == json.dumps(stored["values"])
    assert (stored["verdict"]["en"], stored["verdict"]["zh"]) == finished.verdict.sentence


def check_sentence(finished: Finished) -> None:
    """Every digit of a sentence comes from a number that it names, in both languages."""
    verdict = finished.verdict
    for template, sentence in zip(verdict.template, verdict.sentence, strict=True):
        parts = list(string.Formatter().parse(template))
        assert not re.search(r"\d", "".join(literal for literal, *_ in parts)), template
        assert {field for _, field, *_ in parts if field} <= verdict.numbers.keys()
        assert sentence.strip() and "nan" not in sentence
    assert all(math.isfinite(number) for number in verdict.numbers.values())
    fields = [{field for _, field, *_ in string.Formatter().parse(template) if field} for template in verdict.template]
    assert fields[0] == fields[1], "both languages give the same numbers"
    assert CHINESE.search(verdict.template.zh)


def check_numbers(finished: Finished) -> None:
    """Every panel has numbers, and all numbers are in a panel."""
    assert finished.results.panels() == [panel.key for panel in finished.experiment.panels]


@pytest.mark.parametrize("name", all_experiments())
def test_the_texts_of_an_experiment(name: str) -> None:
    experiment = all_experiments()[name]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) and name == experiment.name
    assert experiment.topic in TOPICS and experiment.seconds > 0 and experiment.panels
    for text in texts_of(experiment):
        assert text.en.strip() and not CHINESE.search(text.en), text
        assert CHINESE.search(text.zh), text
    for panel in experiment.panels:
        assert all(text.en.strip() and text.zh.strip() for text in (panel.x, panel.y, *panel.names.values()))
    for question in experiment.questions:
        assert all(PLACE.fullmatch(place) for place in question.notes.split(", ")), question.notes
        assert question.answer.en.strip() and question.answer.zh.strip()


@pytest.mark.parametrize("name", REPEATED)
def test_the_same_seed_gives_the_same_numbers(name: str) -> None:
    first, second = (Results((3,)) for _ in range(2))
    for results in (first, second):
        measure(all_experiments()[name], QUICK, 3, results)
    assert first.to_json() == second.to_json()


def test_expected_experiments_exist() -> None:
    assert {*EXPECTED, *REPEATED} <= all_experiments().keys()
