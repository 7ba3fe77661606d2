"""Every experiment, quickly: it runs, its texts are complete, and it shows what is certain."""

import re
from pathlib import Path

import pytest
from tests.lab.checks import CHINESE, EXPECTED, QUICK, check_experiment, names_of
from tests.lab.made.doubles import TEXTS

from regard.errors import UserError
from regard.lab import experiments
from regard.lab.experiment import Experiment, Results
from regard.lab.registry import all_experiments
from regard.lab.running import measure
from regard.lab.texts import LANGUAGES, Bilingual, parse_texts, words

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


def texts_of(experiment: Experiment) -> list[Bilingual]:
    """All texts of an experiment but those that may be a dash or a symbol."""
    texts = experiment.texts
    return [
        *(texts.title, texts.hypothesis, texts.varied, texts.measured, texts.refuted_if, *texts.answer.values()),
        *(question.text for question in texts.questions),
        *(panel.title for panel in texts.panels),
    ]


@pytest.mark.parametrize("name", names_of(0))
def test_an_experiment(name: str, tmp_path: Path) -> None:
    check_experiment(name, tmp_path)


@pytest.mark.parametrize("name", all_experiments())
def test_the_texts_of_an_experiment(name: str) -> None:
    experiment = all_experiments()[name]
    texts = experiment.texts
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) and name == experiment.name
    assert texts.topic in words("en")["topics"] and texts.seconds > 0 and texts.panels
    for text in texts_of(experiment):
        assert text.en.strip() and not CHINESE.search(text.en), text
        assert CHINESE.search(text.zh), text
    for panel in texts.panels:
        assert all(text.en.strip() and text.zh.strip() for text in (panel.x, panel.y, *panel.names.values()))
    for question in texts.questions:
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
        for question in experiment.texts.questions
        for place in question.notes.split(", ")
    }
    assert [place for place in QUESTIONS if place not in asked] == []


def test_expected_experiments_exist() -> None:
    assert {*EXPECTED, *REPEATED} <= all_experiments().keys()


def test_code_and_texts_are_apart() -> None:
    files = list(Path(experiments.__file__).parent.glob("*.py"))
    assert files and not [path.name for path in files if CHINESE.search(path.read_text(encoding="utf-8"))]
    assert not [path.name for path in files if PLACE.search(path.read_text(encoding="utf-8"))]


def test_words_are_complete_in_both_languages() -> None:
    english, chinese = (words(language) for language in LANGUAGES)
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        other = chinese[key]
        assert (text.keys() == other.keys()) if isinstance(text, dict) else (slots(text) == slots(other)), key
        assert not CHINESE.search(str(text)) or key == "other"


def slots(text: str) -> set[str]:
    """The values that a text needs."""
    return set(re.findall(r"\{\w+\}", text))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (('title = "二倍大于一倍吗？"', ""), "only one language has title"),
        (("[panels]", "[panel]"), "panels is missing"),
        (('answer.confirmed = "It is more."', ""), "only one language has answer"),
        (('["growth", "x", "y"]', '["growth", "x"]'), "not valid"),
        (("seconds = 1", "seconds = 1\nsecond = 2"), "second"),
        (("seconds = 1", "seconds = "), "not valid"),
    ],
)
def test_incomplete_texts_are_an_error(change: tuple[str, str], problem: str) -> None:
    assert parse_texts(TEXTS, "doubles").title.en
    with pytest.raises(UserError, match=problem) as error:
        parse_texts(TEXTS.replace(*change), "doubles")
    assert error.value.code == "invalid-texts"
