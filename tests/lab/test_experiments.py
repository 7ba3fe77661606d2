"""Every experiment, quickly: it runs, its texts are complete, and it shows what is certain."""

import re
from pathlib import Path

import pytest
from tests.lab.checks import CHINESE, EXPECTED, QUICK, check_experiment, names_of

from regard.lab.experiment import TOPICS, Experiment, Results, Text
from regard.lab.registry import all_experiments
from regard.lab.running import measure

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
PLACE = re.compile(r"00[0-4]:\d+(-\d+)?")


def texts_of(experiment: Experiment) -> list[Text]:
    """All texts of an experiment but those that may be a dash or a symbol."""
    named = [experiment.title, experiment.hypothesis, experiment.varied, experiment.measured, experiment.refuted_if]
    return [
        *named,
        *(question.text for question in experiment.questions),
        *(panel.title for panel in experiment.panels),
    ]


@pytest.mark.parametrize("name", names_of(0))
def test_an_experiment(name: str, tmp_path: Path) -> None:
    check_experiment(name, tmp_path)


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
    assert [place for place in QUESTIONS if place not in asked] == []


def test_expected_experiments_exist() -> None:
    assert {*EXPECTED, *REPEATED} <= all_experiments().keys()
