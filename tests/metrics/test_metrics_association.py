"""Tests of independence: real relations of many kinds are found, and independent data are not."""

import random

import numpy as np
import pytest

from regard.metrics.association import (
    SideModel,
    center,
    independence_z,
    label_kernel,
    length_z,
    text_features,
    text_kernel,
)

ENGLISH = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
GERMAN = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]
CHINESE = "零一二三四五六七八九"
N = 250


def numbers() -> list[list[int]]:
    rng = random.Random(3)
    return [[rng.randrange(10) for _ in range(5)] for _ in range(N)]


def relation(first: list[str], second: list[str]) -> float:
    return independence_z(text_kernel(first), text_kernel(second))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (" ".join(ENGLISH), " ".join(GERMAN)),
        (" ".join(ENGLISH), " ".join(CHINESE)),
        ("abcdefghij", "klmnopqrst"),
    ],
)
def test_words_and_characters_of_real_pairs_are_related(source: str, target: str) -> None:
    split = [list(side.split()) if " " in side else list(side) for side in (source, target)]
    glue = [" " if len(side[0]) > 1 else "" for side in split]
    first, second = (
        [between.join(side[digit] for digit in row) for row in numbers()]
        for side, between in zip(split, glue, strict=True)
    )
    assert relation(first, second) > 20
    shuffled = random.Random(1).sample(second, N)
    assert abs(relation(first, shuffled)) < 4


def test_without_variation_there_is_no_relation() -> None:
    texts = [" ".join(ENGLISH[digit] for digit in row) for row in numbers()]
    assert relation(texts, ["same"] * N) == relation(["same"] * N, texts) == 0
    assert length_z(texts, ["same"] * N) == 0


def test_z_is_about_one_for_independent_texts() -> None:
    rng = random.Random(2)
    values = []
    for seed in range(12):
        first, second = ([" ".join(rng.choices(side, k=4)) for _ in range(60)] for side in (ENGLISH, GERMAN))
        values.append(independence_z(text_kernel(first), text_kernel(second), seed))
    assert abs(np.mean(values)) < 1 and 0.4 < np.std(values) < 2


def test_features_are_words_characters_and_pairs_of_them() -> None:
    assert text_features("No 42!") == {"no", "n", "o", " n", "o ", "42", "4", "2", " 4", "2 ", "!", " !", "! "}
    assert {"你", "好", "你好"} <= text_features("你好") and "好你" not in text_features("你好")


def test_similarities_are_centred_without_the_diagonal() -> None:
    symmetric = np.array([[9, 1, 2, 3], [1, 9, 4, 5], [2, 4, 9, 6], [3, 5, 6, 9]], np.float32)
    centred = center(symmetric)  # the means of the rows are 2, 10/3, 4 and 14/3, and of them all 3.5
    assert np.all(np.diag(centred) == 0)
    assert centred[0, 1:] == pytest.approx([1 - 2 - 10 / 3 + 3.5, 2 - 2 - 4 + 3.5, 3 - 2 - 14 / 3 + 3.5], abs=1e-6)
    assert np.abs(center(np.ones((5, 5), np.float32))).max() < 1e-6


def test_labels_are_names_or_numbers() -> None:
    names = label_kernel(["a", "b", "a", "b"])
    assert names[0, 2] > 0 > names[0, 1] and names[0, 0] == 0
    values = label_kernel([1.0, 5.0, 1.5, 4.5])
    assert values[0, 2] > 0 > values[0, 1]
    texts = [" ".join(ENGLISH[digit] for digit in row) for row in numbers()]
    sums = [float(sum(row)) for row in numbers()]
    assert independence_z(text_kernel(texts), label_kernel(sums)) > 8
    assert abs(independence_z(text_kernel(texts), label_kernel(random.Random(4).sample(sums, N)))) < 4


def test_lengths_are_compared_by_rank() -> None:
    first = ["x" * (n % 17) for n in range(101)]
    assert length_z(first, [text * 3 for text in first]) == pytest.approx(10)
    assert length_z(first, ["y" * (40 - len(text)) for text in first]) == pytest.approx(-10)


def test_the_sides_of_pairs_are_told_apart() -> None:
    pairs = [(" ".join(ENGLISH[digit] for digit in row), " ".join(GERMAN[digit] for digit in row)) for row in numbers()]
    model = SideModel(pairs[:100])
    assert not any(model.is_swapped(pair) for pair in pairs[100:])
    assert all(model.is_swapped((second, first)) for first, second in pairs[100:])
