"""Answers as SQuAD counts them: cases worked out by hand, and a slow count of shared words."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.metrics.spans import answer_exact, answer_f1, answer_scores, normalize

MODEST = settings(max_examples=80)
TEXTS = st.lists(st.sampled_from(["the", "A", "an", "cat", "Cat!", "mat", "--", "U.S.", "other"]), max_size=5).map(
    " ".join
)


def words_of(text: str) -> list[str]:
    """Normalised word by word instead of all at once."""
    kept = ["".join(c for c in word.lower() if c not in string.punctuation) for word in text.split()]
    return [word for word in kept if word not in ("", "a", "an", "the")]


def slow_f1(answer: str, golds: list[str]) -> float:
    best = 0.0
    for gold in [gold for gold in golds if words_of(gold)] or [""]:
        left, same = words_of(gold), 0
        for word in words_of(answer):
            if word in left:
                left.remove(word)
                same += 1
        lengths = len(words_of(answer)), len(words_of(gold))
        if same:
            precision, recall = same / lengths[0], same / lengths[1]
            best = max(best, 2 * precision * recall / (precision + recall))
        elif lengths == (0, 0):
            best = 1.0
    return best


@MODEST
@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_scores_equal_counting_word_by_word(answer: str, golds: list[str]) -> None:
    assert normalize(answer) == " ".join(words_of(answer))
    assert answer_f1(answer, golds) == pytest.approx(slow_f1(answer, golds))
    accepted = [words_of(gold) for gold in golds if words_of(gold)] or [[]]
    assert answer_exact(answer, golds) == float(words_of(answer) in accepted)
    assert answer_exact(answer, golds) <= answer_f1(answer, golds)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("The  Cat, sat!", "cat sat"),
        ("an apple a day", "apple day"),
        ("Athena's theatre", "athenas theatre"),
        ("the-end", "theend"),  # punctuation goes first, so that this is one word and no article
        ("«Die Katze»", "«die katze»"),
        ("U.S.A.", "usa"),
        ("The", ""),
    ],
)
def test_what_is_left_of_a_text(text: str, left: str) -> None:
    assert normalize(text) == left


def test_the_best_gold_answer_counts() -> None:
    golds = ["Denver Broncos", "The Denver Broncos of Colorado", "Broncos"]
    assert answer_exact("the denver broncos!", golds) == 1.0
    assert answer_f1("Broncos team", golds) == pytest.approx(2 / 3)
    assert answer_f1("Carolina Panthers", golds) == 0.0
    assert answer_f1("Broncos Broncos", ["Denver Broncos"]) == pytest.approx(1 / 2)


def test_no_answer_is_right_where_there_is_none_and_only_there() -> None:
    assert answer_exact("", []) == answer_f1("", []) == 1.0
    assert answer_exact("a guess", []) == answer_f1("a guess", []) == 0.0
    assert answer_exact("", ["cat"]) == answer_f1("", ["cat"]) == 0.0
    assert answer_exact("", ["cat", "the"]) == 0.0, "a gold answer of which nothing is left is none"
    assert answer_f1("a", ["The"]) == 1.0


def test_corpus_scores_are_means_and_say_both_groups_where_there_are_two() -> None:
    found = answer_scores(["the cat", "cat mat", "", "dog"], [["Cat"], ["mat"], [], []])
    assert {name: round(score.value, 4) for name, score in found.items()} == {
        "exact": 50.0,
        "f1": round(100 * (1 + 2 / 3 + 1 + 0) / 4, 4),
        "exact answerable": 50.0,
        "f1 answerable": round(100 * (1 + 2 / 3) / 2, 4),
        "exact unanswerable": 50.0,
        "f1 unanswerable": 50.0,
    }
    assert str(found["f1"]) == "F1|SQuAD, English, 4 questions = 66.67"
    assert "2 unanswerable questions" in found["exact unanswerable"].signature
    assert set(answer_scores(["cat"], [["cat"]])) == {"exact", "f1"}
    with pytest.raises(ValueError, match="1 hypotheses for 2 references"):
        answer_scores(["cat"], [["cat"], []])
