"""Filters drop pairs by their text and by their lengths."""

import pytest

from regard.data.accounts import Account
from regard.data.encoders import KEEP_ALL, RATIO_FROM, Filters
from regard.data.settings import PairDataSettings
from regard.data.sources import Source

ALL_FILTERS = Filters(max_length=40, max_ratio=3.0, drop_empty=True, drop_identical=True, drop_duplicates=True)


def test_settings_become_filters() -> None:
    corpus = [Source(file="a.tsv")]
    settings = PairDataSettings(train=corpus, valid=corpus, max_length=9, max_ratio=2.5, drop_identical=True)
    expected = Filters(max_length=9, max_ratio=2.5, drop_empty=True, drop_identical=True, drop_duplicates=True)
    assert Filters.of(settings) == expected


def test_a_very_long_text_is_dropped_before_it_is_tokenised() -> None:
    filters = Filters(max_length=10)
    assert filters.check_text("x" * 101, "y", 10, 10) == "too_long"
    assert filters.check_text("x" * 100, "y", 10, 10) is None


@pytest.mark.parametrize(
    ("src", "tgt", "reason"),
    [(40, 40, None), (41, 5, "too_long"), (40, 13, "ratio"), (40, 14, None), (RATIO_FROM, 1, None), (1, 17, "ratio")],
)
def test_lengths_are_judged(src: int, tgt: int, reason: str | None) -> None:
    assert ALL_FILTERS.check_lengths(src, tgt) == reason
    assert KEEP_ALL.check_lengths(src, tgt) is None


def test_reasons_without_pairs_are_not_listed() -> None:
    clean = Account("pairs", 10, 10).table()
    assert [line.split()[0] for line in clean.splitlines()] == ["read", "kept"]
