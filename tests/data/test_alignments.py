"""Gold alignments: their parts make exactly the builtin corpora, and their links are those a person would draw."""

import datetime
import random
from itertools import accumulate, islice

import pytest
from num2words import num2words

from regard.data import builtin
from regard.data.alignments import (
    AlignedPair,
    english,
    german,
    gold,
    iso,
    token_bytes,
    unit_links,
    units,
    written_out,
)
from regard.data.builtin import Name
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer


def linked(pair: AlignedPair) -> set[tuple[str, str]]:
    return {(pair.src_segments[i].text.strip(), pair.tgt_segments[j].text) for i, j in pair.sure}


@pytest.fixture(scope="module")
def vocabulary() -> Tokenizer:
    texts = [
        text for name in ("dates", "numbers") for pair in islice(builtin.pairs(name, "train"), 800) for text in pair
    ]
    return train_tokenizer(texts, TextSettings(vocab_size=600))


@pytest.mark.parametrize("name", ["dates", "numbers"])
def test_the_parts_make_the_corpus(name: Name) -> None:
    for pair, text in zip(gold(name, "test"), builtin.pairs(name, "test"), strict=True):
        assert (pair.src, pair.tgt) == text


def test_every_number_is_what_the_library_writes() -> None:
    rng = random.Random(1)
    numbers = {
        *range(1100),
        *(1000 * n + rest for n in (1, 11, 21, 100, 101, 110, 999) for rest in (0, 1, 20, 99, 101)),
    }
    for number in sorted(numbers | {rng.randrange(10**6) for _ in range(1000)}):
        assert "".join(part.text for part in english(number)) == num2words(number, lang="en")
        assert "".join(part.text for part in german(number)) == num2words(number, lang="de")


def test_units_come_before_tens_in_german() -> None:
    pair = AlignedPair(english(42), german(42))
    assert linked(pair) == {("forty", "vierzig"), ("two", "zwei")}
    assert [part.text for part in pair.tgt_segments] == ["zwei", "und", "vierzig"]
    und = 1
    assert {i for i, j in pair.possible - pair.sure if j == und} == {0, 1, 2}
    hyphen = 1
    assert {j for i, j in pair.possible if i == hyphen} == {0, 1, 2}


def test_a_long_number_is_linked_word_by_word() -> None:
    pair = AlignedPair(english(101_213), german(101_213))
    assert linked(pair) == {
        ("one", "ein"),
        ("hundred", "hundert"),
        ("one", "eins"),
        ("thousand", "tausend"),
        ("two", "zwei"),
        ("thirteen", "dreizehn"),
    }
    assert len(pair.sure) == 7  # each hundred to its own hundert


def test_a_day_says_year_month_and_day_whatever_the_language() -> None:
    day = datetime.date(2026, 11, 5)
    for locale, form in builtin.STYLES:
        pair = AlignedPair(written_out(day, locale, form), iso(day))
        by_target = {target: source for source, target in linked(pair)}
        assert by_target["2026"] == "2026" and by_target["05"] == "5" and len(pair.sure) == 3
        assert by_target["11"] != "5"
    german_day = AlignedPair(written_out(day, "de", "full"), iso(day))
    assert linked(german_day) == {("2026", "2026"), ("November", "11"), ("5", "05")}
    weekday = 0
    assert german_day.src_segments[weekday].text == "Donnerstag"
    assert {german_day.tgt_segments[j].text for i, j in german_day.possible if i == weekday} == {"-"}


@pytest.mark.parametrize("name", ["dates", "numbers"])
def test_what_is_sure_is_possible_and_every_target_may_look_somewhere(name: Name) -> None:
    for pair in islice(gold(name, "valid"), 300):
        assert pair.sure <= pair.possible
        assert {j for _, j in pair.possible} == set(range(len(pair.tgt_segments)))
        assert {j for _, j in pair.sure} == {j for j, part in enumerate(pair.tgt_segments) if part.meaning}


@pytest.mark.parametrize("name", ["dates", "numbers"])
def test_units_are_whole_pieces_and_whole_parts(name: Name, vocabulary: Tokenizer) -> None:
    width = token_bytes(vocabulary)
    for pair in islice(gold(name, "test"), 300):
        for parts, text in ((pair.src_segments, pair.src), (pair.tgt_segments, pair.tgt)):
            ids = vocabulary.encode(text)
            found = units(parts, ids, vocabulary)
            assert [n for inside in found.tokens for n in inside] == list(range(len(ids)))
            assert [n for inside in found.segments for n in inside] == list(range(len(parts)))
            for pieces, inside in zip(found.tokens, found.segments, strict=True):
                assert vocabulary.decode(ids[n] for n in pieces) == "".join(parts[n].text for n in inside)
                piece_ends = set(accumulate(width[ids[n]] for n in pieces[:-1]))
                part_ends = set(accumulate(len(parts[n].text.encode()) for n in inside[:-1]))
                assert not piece_ends & part_ends, "it could have been cut further"


def test_links_between_units_are_those_between_their_parts(vocabulary: Tokenizer) -> None:
    for pair in islice(gold("numbers", "test"), 100):
        src = units(pair.src_segments, vocabulary.encode(pair.src), vocabulary)
        tgt = units(pair.tgt_segments, vocabulary.encode(pair.tgt), vocabulary)
        by_hand = {
            (u, v)
            for u, inside in enumerate(src.segments)
            for v, other in enumerate(tgt.segments)
            if any((i, j) in pair.sure for i in inside for j in other)
        }
        assert unit_links(pair.sure, src, tgt) == by_hand


def test_tokens_of_another_text_are_refused(vocabulary: Tokenizer) -> None:
    with pytest.raises(ValueError, match="bytes of tokens"):
        units(english(42), vocabulary.encode("forty-three"), vocabulary)
