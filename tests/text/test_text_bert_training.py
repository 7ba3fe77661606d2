"""BERT's pieces are learnt: the same every time, as many as asked for, and enough to spell what was seen."""

import random
import string

import pytest

from regard.errors import UserError
from regard.text.bert import SPECIALS, BertTokenizer
from regard.text.factory import train_tokenizer
from regard.text.settings import BertTextSettings
from regard.text.trainers import choose_characters

LINES = [
    "The lower the tower, the slower the flower grows.",
    "Lowest and slowest: the LOWER flowers of Café 東京.",
    "a lower flow flows slower; the tower is 30 m tall",
] * 3


def words(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices(string.ascii_lowercase[:6], k=rng.randint(1, 6))) for _ in range(count)]


def test_special_symbols_come_first_and_padding_is_zero() -> None:
    vocabulary = train_tokenizer(LINES, BertTextSettings(vocab_size=120))
    assert tuple(vocabulary.entries[:5]) == SPECIALS
    assert (vocabulary.pad, vocabulary.unk, vocabulary.cls, vocabulary.sep, vocabulary.mask) == (0, 1, 2, 3, 4)
    assert len(vocabulary) <= 120
    assert {"lower", "the", "東", "京"} <= set(vocabulary.entries)
    assert vocabulary.tokens(vocabulary.encode("The LOWER tower")) == ["the", "lower", "tower"]


def test_the_same_lines_give_the_same_vocabulary_however_they_are_handed_in() -> None:
    lines = [" ".join(words(seed, 12)) for seed in range(80)]
    settings = BertTextSettings(vocab_size=90)
    first = train_tokenizer(lines, settings)
    assert first.to_json() == train_tokenizer(iter(lines), settings).to_json()
    assert first.entries == train_tokenizer(lines[::-1], settings).entries
    assert len(first) == 90


@pytest.mark.parametrize("lowercase", [True, False])
def test_whatever_is_spelled_with_known_characters_is_known(lowercase: bool) -> None:
    lines = [line if seed % 2 else line.title() for seed in range(40) for line in [" ".join(words(seed, 10))]]
    vocabulary = train_tokenizer(lines, BertTextSettings(vocab_size=60, min_frequency=1, lowercase=lowercase))
    unseen = words(1000, 200)
    assert not any(vocabulary.unk in ids for ids in vocabulary.encode_batch(unseen))
    assert all(vocabulary.decode(vocabulary.encode(word)) == word for word in unseen)


def test_rare_characters_are_unknown_and_do_not_take_room() -> None:
    vocabulary = train_tokenizer([*LINES, "the tower ж"], BertTextSettings(vocab_size=200, min_frequency=2))
    assert "ж" not in vocabulary.entries
    assert vocabulary.encode("ж") == [vocabulary.unk]


def test_the_most_frequent_characters_are_kept_where_there_is_no_room_for_all() -> None:
    assert choose_characters({"aab": 5, "c": 3, "d": 1}, max_characters=3, min_frequency=1) == {"a", "##a", "##b"}
    assert choose_characters({"ab": 2, "c": 1}, max_characters=9, min_frequency=2) == {"a", "b", "##b"}
    characters = "".join(chr(0x4E00 + n) * (200 - n) for n in range(200))
    vocabulary = train_tokenizer([characters], BertTextSettings(vocab_size=105, min_frequency=1))
    assert len(vocabulary) == 105
    assert set(vocabulary.entries[5:]) == {chr(0x4E00 + n) for n in range(100)}


def test_what_a_text_keeps_is_as_the_settings_say() -> None:
    settings = BertTextSettings(vocab_size=200, min_frequency=1, lowercase=False, strip_accents=True)
    vocabulary = train_tokenizer(LINES, settings)
    assert (vocabulary.lowercase, vocabulary.strip_accents, vocabulary.split_chinese) == (False, True, True)
    assert vocabulary.unk in vocabulary.encode("é" * 2 + "ж")
    assert vocabulary.decode(vocabulary.encode("Café")) == "Cafe"
    assert BertTokenizer.from_json(vocabulary.to_json()).entries == vocabulary.entries


def test_words_are_counted_as_they_are_cut() -> None:
    """Neighbours merge by how often they are met, whatever they were written between."""
    lines = ["xy,xy;xy(xy)", "XY-xy\txy", "xz xz xz xz xz xz"]
    vocabulary = train_tokenizer(lines, BertTextSettings(vocab_size=5 + 4 + 6 + 1, min_frequency=1))
    assert [entry for entry in vocabulary.entries[5:] if len(entry.removeprefix("##")) > 1] == ["xy"]


def test_nothing_to_learn_from_is_said() -> None:
    with pytest.raises(UserError, match="no word"):
        train_tokenizer(["", "  "], BertTextSettings())
