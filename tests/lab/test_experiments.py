"""Every experiment, quickly: it runs, its texts are complete, and it shows what is certain."""

import json
import math
import re
import string
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from regard.lab.experiment import TOPICS, Effort, Experiment, Results, Text
from regard.lab.presenting import LANGUAGES, picture_of, plots_of, tables_of
from regard.lab.records import Finished, read_finished
from regard.lab.registry import all_experiments
from regard.lab.running import measure, run_experiment
from regard.viz.cells import width
from regard.viz.plots_text import plot_text

EXPECTED: dict[str, str] = {
    "causal-mask": "confirmed",
    "heads": "confirmed",
}
"""The verdict of the experiments whose result is certain with one seed and few steps."""
REPEATED = ("heads", "scale", "zero-init")
"""Cheap experiments that are run twice with the same seed."""
QUESTIONS = (
    "001:176", "001:177", "001:178", "001:179", "001:180", "001:181", "001:182", "001:183", "001:184", "001:185",
    "001:186", "001:187", "001:188", "001:189", "001:190", "001:191", "001:192", "001:193", "001:194", "001:195",
    "000:216", "000:272", "002:30", "003:152", "004:494", "004:246", "004:250", "003:70", "003:123", "002:48",
    "004:368", "003:91", "003:185", "003:202", "003:207", "003:294", "003:285", "003:250", "003:328", "003:239",
    "004:276", "004:323", "004:145", "004:61", "004:121", "004:158", "000:236", "004:220", "004:231", "004:537",
    "004:533", "003:10", "000:86", "000:59", "002:107",
)  # fmt: skip
"""The first line of every question of the notes that an experiment answers: 001:176 is line 176 of note 001."""
OPEN: set[str] = {
    "001:182", "001:183", "001:184", "001:187", "001:188", "001:189", "001:192", "001:193", "000:272", "004:368",
    "003:91", "003:185", "003:202", "003:207", "003:285", "003:250", "003:328", "004:220", "004:533", "003:10",
}  # fmt: skip
"""Questions without an experiment."""
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
    check_plots(finished)


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
    assert sorted(finished.results.panels()) == sorted(panel.key for panel in finished.experiment.panels)


def check_plots(finished: Finished) -> None:
    """The plots are drawn in both languages; names that are translated are different ones."""
    for language in LANGUAGES:
        tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(picture_of(finished, language)).iter()}
        assert tags <= {"svg", "style", "g", "path", "rect", "circle", "text", "title"}
        for plot, panel in zip(plots_of(finished, language), finished.experiment.panels, strict=True):
            assert len(plot.series) == len(finished.results.series(panel.key))
            assert max(map(width, plot_text(plot, 80).splitlines())) <= 80
    english, chinese = (tables_of(finished, language) for language in LANGUAGES)
    for table, other in zip(english, chinese, strict=True):
        assert [row for _, row in table.rows] == [row for _, row in other.rows], "the numbers are the same"
        assert not CHINESE.search("".join([*table.columns, *(x for x, _ in table.rows)]))


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


def test_every_question_of_the_notes_is_asked() -> None:
    asked = {
        place.partition("-")[0]
        for experiment in all_experiments().values()
        for question in experiment.questions
        for place in question.notes.split(", ")
    }
    assert {place for place in QUESTIONS if place not in asked} <= OPEN
    assert set(QUESTIONS) >= OPEN


def test_expected_experiments_exist() -> None:
    assert {*EXPECTED, *REPEATED} <= all_experiments().keys()
