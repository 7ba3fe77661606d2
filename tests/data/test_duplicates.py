"""Near-duplicates are those of a comparison of all pairs; target-side duplicates keep the best score."""

import random

import numpy as np
import pytest

from regard.data.duplicates import HASHES, Marks, find_duplicates, near_duplicates, shingles, sign


def brute_force(signatures: np.ndarray, max_different: int) -> list[bool]:
    dropped: list[bool] = []
    for row in signatures:
        earlier = (signatures[i] for i in range(len(dropped)) if not dropped[i])
        dropped.append(any((row != other).sum() <= max_different for other in earlier))
    return dropped


def corpus(size: int, seed: int) -> list[tuple[str, str, str]]:
    """Sentences, and copies of them with some words changed."""
    rng, words = random.Random(seed), [f"w{i}" for i in range(200)]
    rows: list[tuple[str, str, str]] = []
    for _ in range(size):
        if rows and rng.random() < 0.6:
            source = rng.choice(rows)
            sides = [source[0].split(), source[1].split()]
            for side in sides:
                for _ in range(rng.randint(0, 2)):
                    side[rng.randrange(len(side))] = rng.choice(words)
        else:
            sides = [rng.choices(words, k=rng.randint(5, 40)) for _ in range(2)]
        rows.append((" ".join(sides[0]), " ".join(sides[1]), ""))
    return rows


@pytest.mark.parametrize("max_different", [0, 1, 3, 6, 12, 31])
def test_near_duplicates_equal_the_brute_force_reference(max_different: int) -> None:
    signatures = sign(corpus(300, max_different))
    expected = brute_force(signatures, max_different)
    assert near_duplicates(signatures, max_different).tolist() == expected
    assert any(expected) and not all(expected)


def test_equal_values_estimate_the_jaccard_similarity() -> None:
    rows = corpus(200, 5)
    signatures, errors = sign(rows), list[float]()
    for a, b in zip(range(0, 200, 2), range(1, 200, 2), strict=True):
        first, second = shingles(*rows[a][:2]), shingles(*rows[b][:2])
        errors.append(float((signatures[a] == signatures[b]).mean()) - len(first & second) / len(first | second))
    assert abs(np.mean(errors)) < 0.02
    assert np.std(errors) < 0.5 / HASHES**0.5 + 0.02


def test_case_digits_and_punctuation_do_not_count_but_order_and_groups_do() -> None:
    rows = [
        ("See page 12.", "Siehe Seite 12!", ""),
        ("see PAGE 7", "Siehe Seite 7.", ""),
        ("page see 12", "Siehe 12", ""),
    ]
    same, other_group = sign(rows), sign([(*rows[0][:2], "de"), (*rows[0][:2], "fr")])
    assert near_duplicates(same, 0).tolist() == [False, True, False]
    assert near_duplicates(other_group, 20).tolist() == [False, False]


def test_the_best_score_is_kept_among_equal_targets_and_near_duplicates() -> None:
    scores, targets = np.array([0.1, 0.9, 0.5, 0.9], np.float32), np.array([7, 7, 8, 7], np.uint64)
    found = find_duplicates(Marks(scores, targets), np.arange(4))
    assert found["target_duplicate"].tolist() == [0, 3]
    signatures = np.repeat(sign([("a b c", "d e f", "")]), 4, axis=0)
    near = find_duplicates(Marks(scores, None, signatures, 3), np.array([0, 2, 3]))
    assert near["near_duplicate"].tolist() == [0, 2]


def test_chunks_do_not_matter() -> None:
    rows = corpus(90, 3)
    parts = [Marks(np.zeros(30, np.float32), None, sign(rows[i : i + 30]), 6) for i in (0, 30, 60)]
    whole = Marks(np.zeros(90, np.float32), None, sign(rows), 6)
    first, second = (find_duplicates(marks, np.arange(90)) for marks in (Marks.join(parts), whole))
    assert first["near_duplicate"].tolist() == second["near_duplicate"].tolist()
