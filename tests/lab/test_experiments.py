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
PLACE = re.compile(r"00[0-4]:\d+(-\d+)?")


def texts_of(experiment: Experiment) -> list[Bilingual]:
    """All texts of an experiment but those that may be a dash or a symbol."""
    texts = experiment.texts
    return [
        *(texts.title, texts.hypothesis, texts.varied, texts.measured, texts.refuted_if, *texts.answer.values()),
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


@pytest.mark.parametrize("name", REPEATED)
def test_the_same_seed_gives_the_same_numbers(name: str) -> None:
    first, second = (Results((3,)) for _ in range(2))
    for results in (first, second):
        measure(all_experiments()[name], QUICK, 3, results)
    assert first.to_json() == second.to_json()


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
