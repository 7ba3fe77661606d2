"""Hashes that assign texts to splits: equal texts have equal hashes, and the assignments never change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.builtin import split_of_key
from regard.data.dialogues import dialogue_split
from regard.data.split import POSITIONS, first_occurrences, hash_sentence, hash_text, normalize_sentence, split_of

HASHES = (14456861382188508760, 15113752468607262502)
TENTHS = "rrrrrrrarrrrrrarrrrerrrrarrrrrrrrrrrrrae"  # second letters of train, valid and test
HELD_OUT = {
    26: "valid", 57: "test", 61: "valid", 66: "test", 79: "valid", 120: "test", 235: "valid", 259: "valid",
    306: "valid", 367: "test", 389: "test",
}  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Don’t  stop !", "don't stop"),
        ("“Wait,” he said.", '"wait" he said'),
        ("Ｈｅｌｌｏ\u00a0ﬁne", "hello fine"),
        ("STRASSE", "Straße?"),
        ("The Patriots , believing it , advanced .", "The Patriots, believing it, advanced."),
        ("日本。", "日 本"),
        ("café", "cafe\u0301"),
        ("soft\u00adhyphen", "softhyphen"),
    ],
)
def test_what_says_the_same_is_the_same(one: str, other: str) -> None:
    assert normalize_sentence(one) == normalize_sentence(other)
    assert hash_sentence(one, 1) == hash_sentence(other, 1)


def test_what_says_something_else_is_not() -> None:
    texts = ["C", "C++", "C#1", "10", "10€", "हिन", "हिनी", "...", "?!", "a", "ä"]
    assert len({hash_sentence(text, 1) for text in texts}) == len(texts)
    assert hash_sentence("a", 1) != hash_sentence("a", 2)


def test_hashes_never_change() -> None:
    """Splits that were made with an earlier version must stay what they are."""
    assert hash_text("Ada slept.") == HASHES[0]
    assert hash_sentence("Ada slept.", 1) == HASHES[1]
    assert "".join(split_of_key(str(number))[1] for number in range(40)) == TENTHS
    talks = [[f"{number}", "yes"] for number in range(400)]
    assert {i: dialogue_split(talk) for i, talk in enumerate(talks) if dialogue_split(talk) != "train"} == HELD_OUT


@given(st.integers(0, 2**64 - 1), st.floats(0, 0.5), st.floats(0, 0.5))
def test_test_is_the_low_end_and_valid_the_high_end(hashed: int, valid: float, test: float) -> None:
    position = (hashed >> 11) / POSITIONS
    expected = (
        "test"
        if position < round(test * POSITIONS) / POSITIONS
        else "valid"
        if (position >= 1 - round(valid * POSITIONS) / POSITIONS)
        else "train"
    )
    assert split_of(hashed, valid, test) == expected


def test_first_occurrences() -> None:
    values = np.array([3, 1, 3, 1, 2], np.uint64)
    assert first_occurrences(values, np.array([1, 0, 1, 1, 1], bool)).tolist() == [True, False, False, True, True]
