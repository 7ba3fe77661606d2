"""Warnings about wrong examples: each defect is found, and good examples of many kinds give no warning."""

import random
from collections.abc import Callable

import pytest

from regard.data.builtin import pairs as builtin_pairs
from regard.tasks.checks import copy_warning, label_warnings, pair_warnings, relation_warning, side_warning

Pair = tuple[str, str]
ENGLISH = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
CHINESE = "零一二三四五六七八九"
COMMANDS = {"turn on the light": "LIGHT_ON", "open the door": "DOOR_OPEN", "stop": "STOP", "go left": "LEFT"}


def rows(count: int, seed: int = 1) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(10) for _ in range(rng.randint(3, 7))] for _ in range(count)]


def translations(count: int, seed: int = 1) -> list[Pair]:
    return [(" ".join(ENGLISH[n] for n in row), "".join(CHINESE[n] for n in row)) for row in rows(count, seed)]


def dates(count: int, seed: int = 1) -> list[Pair]:
    return [pair for pair, _ in zip(builtin_pairs("dates", "train"), range(count), strict=False)]


def commands(count: int, seed: int = 1) -> list[Pair]:
    return random.Random(seed).choices(list(COMMANDS.items()), k=count)


def reversals(count: int, seed: int = 1) -> list[Pair]:
    words = ["".join("abcdefgh"[n % 8] for n in row) for row in rows(count, seed)]
    return [(word, word[::-1]) for word in words]


def shuffled(pairs: list[Pair]) -> list[Pair]:
    targets = random.Random(5).sample([target for _, target in pairs], len(pairs))
    return [(source, target) for (source, _), target in zip(pairs, targets, strict=True)]


@pytest.mark.parametrize("make", [translations, dates, commands, reversals])
@pytest.mark.parametrize("count", [100, 600])
def test_good_pairs_give_no_warning_and_shuffled_ones_do(make: Callable[[int], list[Pair]], count: int) -> None:
    pairs = make(count)
    assert pair_warnings({"train": pairs, "valid": make(60)}) == []
    (warning,) = pair_warnings({"train": shuffled(pairs)})
    assert warning.fatal


def test_few_pairs_are_not_judged() -> None:
    assert relation_warning(shuffled(translations(99))) is None and relation_warning([]) is None


def test_lengths_alone_are_a_relation() -> None:
    rng = random.Random(1)
    sizes = [rng.randint(1, 40) for _ in range(200)]
    assert relation_warning([("a" * size, "b" * (2 * size + rng.randint(0, 5))) for size in sizes]) is None
    assert relation_warning([("a" * size, "b" * rng.randint(2, 85)) for size in sizes]) is not None


def test_pairs_that_are_misaligned_from_a_line_on_are_found() -> None:
    pairs = translations(1000)
    shifted = [(source, pairs[index + 1][1]) for index, (source, _) in enumerate(pairs[500:-1], 500)]
    warning = relation_warning(pairs[:500] + shifted)
    assert warning is not None and not warning.fatal
    assert "75%-100%" in warning.problem and "0%-25%" not in warning.problem


@pytest.mark.parametrize(("copies", "warned"), [(50, False), (51, True), (100, True)])
def test_copies_are_a_warning_if_they_are_most_pairs(copies: int, warned: bool) -> None:
    pairs = translations(100)
    mixed = [(source, f"{source} ") for source, _ in pairs[:copies]] + pairs[copies:]
    warning = copy_warning(mixed)
    assert (warning is not None) == warned
    assert warning is None or (f"{copies}%" in warning.problem and not warning.fatal)
    assert copy_warning([]) is None


def test_exchanged_sides_are_found() -> None:
    train, valid = translations(200), translations(30, seed=2)
    exchanged = [(target, source) for source, target in valid]
    assert side_warning("valid", train, valid) is None
    warning = side_warning("valid", train, exchanged)
    assert warning is not None and warning.fatal and "data.valid" in warning.remedy
    assert side_warning("test", train, exchanged[:19]) is None  # too few to tell
    (found,) = pair_warnings({"train": train, "valid": valid, "test": exchanged})
    assert "data.test" in found.remedy


def test_sides_that_cannot_be_told_apart_give_no_warning() -> None:
    pairs = reversals(300)
    assert side_warning("valid", pairs, [(target, source) for source, target in pairs[:50]]) is None
    copies = [(source, source) for source, _ in translations(300)]
    assert side_warning("valid", copies, copies) is None


def texts_and_labels(count: int) -> tuple[list[str], list[str]]:
    rng = random.Random(2)
    digits = [[rng.randrange(10) for _ in range(6)] for _ in range(count)]
    return [" ".join(ENGLISH[n] for n in row) for row in digits], ["odd" if row[0] % 2 else "even" for row in digits]


def test_labels_of_other_texts_are_found() -> None:
    texts, labels = texts_and_labels(500)
    assert label_warnings(labels, texts) == []
    mixed = random.Random(3).sample(labels, len(labels))
    (warning,) = label_warnings(mixed, texts)
    assert not warning.fatal
    assert label_warnings(mixed, None) == label_warnings(mixed[:499], texts[:499]) == []
    few = [float(n % 11 == 0) for n in range(500)]  # only 46 of them are not zero
    assert label_warnings(few, texts) == []
    numbers = [float(text.count("e")) for text in texts]
    assert label_warnings(numbers, texts) == []
    assert len(label_warnings(random.Random(3).sample(numbers, len(numbers)), texts)) == 1


@pytest.mark.parametrize(("others", "warned"), [(20, False), (19, True)])
def test_a_majority_class_is_a_warning(others: int, warned: bool) -> None:
    labels = ["b"] * others + ["a"] * (200 - others)
    assert (len(label_warnings(labels, ["text"] * 200)) == 1) == warned
