"""The corpora that come with the toolkit: no unit in two parts, no input with two answers, always the same."""

import datetime
import itertools
from pathlib import Path

import pytest
from babel.dates import format_date

from regard.data import builtin
from regard.data.builtin import Name, Part
from regard.data.corpora import Corpus, read_pairs

PARTS: tuple[Part, ...] = ("train", "valid", "test")


@pytest.fixture(scope="module")
def dates() -> dict[Part, list[tuple[str, str]]]:
    return {part: list(builtin.pairs("dates", part)) for part in PARTS}


def test_a_day_is_in_one_part(dates: dict[Part, list[tuple[str, str]]]) -> None:
    days = [{day for _, day in dates[part]} for part in PARTS]
    for one, other in itertools.combinations(days, 2):
        assert not one & other
    assert {part: len(dates[part]) for part in PARTS} == {"train": 30_000, "valid": 1_000, "test": 2_000}


def test_dates_are_real_and_of_every_style(dates: dict[Part, list[tuple[str, str]]]) -> None:
    styles = set()
    for text, iso in dates["test"]:
        day = datetime.date.fromisoformat(iso)
        assert str(day.year) in text
        styles |= {style for style in builtin.STYLES if format_date(day, style[1], locale=style[0]) == text}
    assert styles == set(builtin.STYLES)
    assert len({locale.split("_")[0] for locale, _ in styles}) == 15


def test_no_date_means_two_days() -> None:
    meaning: dict[str, datetime.date] = {}
    for number, (locale, form) in itertools.product(range(366), builtin.STYLES):
        day = datetime.date(2028, 1, 1) + datetime.timedelta(number)
        assert meaning.setdefault(format_date(day, form, locale=locale), day) == day


def test_a_number_is_in_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    for part in PARTS:
        monkeypatch.setitem(builtin.NUMBERS, part, 300)
    words = [{src for src, _ in builtin.pairs("numbers", part)} for part in PARTS]
    assert [len(part) for part in words] == [300, 300, 300]
    for one, other in itertools.combinations(words, 2):
        assert not one & other


def test_numbers_are_of_every_magnitude() -> None:
    pairs = dict(builtin.pairs("numbers", "valid"))
    assert len(pairs) == 500
    assert pairs["seven"] == "sieben"
    assert {"hundred" in src for src in pairs} == {"thousand" in src for src in pairs} == {True, False}


@pytest.mark.parametrize("name", ["dates", "numbers", "trees"])
def test_always_the_same(name: Name) -> None:
    first, again = (list(itertools.islice(builtin.pairs(name, "train"), 50)) for _ in range(2))
    assert first == again
    assert builtin.fingerprint(name, "train") != builtin.fingerprint(name, "valid")


def test_read_as_any_other_corpus() -> None:
    pairs = list(read_pairs(Corpus(builtin="dates", part="valid"), Path()))
    assert [tuple(pair[:2]) for pair in pairs[:3]] == list(itertools.islice(builtin.pairs("dates", "valid"), 3))
    assert pairs[2].line == 3
