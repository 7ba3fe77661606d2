"""Entities against a count that tries every span of a sentence, in both readings of a stray I-."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.metrics.classification import Counts
from regard.metrics.spans import Entity, entities, entity_counts, entity_scores, repaired, stray, strict_entities

MODEST = settings(max_examples=80)
KINDS = ("PER", "LOC", "creative-work")
TAGS = st.lists(st.sampled_from(["O", *(f"{mark}-{kind}" for mark in "BI" for kind in KINDS)]), min_size=1, max_size=9)


def every_span(tags: list[str], strict: bool) -> set[tuple[str, int, int]]:
    """Spans that begin as entities do, hold only I- of the same type after that, and cannot be longer."""

    def begins(place: int, kind: str) -> bool:
        before = tags[place - 1] if place else "O"
        loose = tags[place] == f"I-{kind}" and before not in (f"B-{kind}", f"I-{kind}")
        return tags[place] == f"B-{kind}" or (loose and not strict)

    return {
        (kind, start, end)
        for kind in KINDS
        for start in range(len(tags))
        for end in range(start + 1, len(tags) + 1)
        if begins(start, kind)
        and all(tag == f"I-{kind}" for tag in tags[start + 1 : end])
        and (end == len(tags) or tags[end] != f"I-{kind}")
    }


@MODEST
@given(TAGS)
def test_entities_are_those_found_by_trying_every_span(tags: list[str]) -> None:
    assert {tuple(entity) for entity in entities(tags)} == every_span(tags, strict=False)
    assert {tuple(entity) for entity in strict_entities(tags)} == every_span(tags, strict=True)
    assert entities(tags) == sorted(entities(tags), key=lambda entity: entity.start)


@MODEST
@given(TAGS)
def test_a_repaired_sequence_is_clean_and_says_the_same(tags: list[str]) -> None:
    assert stray(repaired(tags)) == []
    assert strict_entities(repaired(tags)) == entities(repaired(tags)) == entities(tags)
    assert (repaired(tags) == tags) == (stray(tags) == [])


@MODEST
@given(st.lists(st.tuples(TAGS, TAGS), min_size=1, max_size=4))
def test_scores_equal_counting_every_span(pairs: list[tuple[list[str], list[str]]]) -> None:
    pairs = [(a[: len(b)], b[: len(a)]) for a, b in pairs]
    hypotheses, references = [a for a, _ in pairs], [b for _, b in pairs]
    for read, strict in ((entities, False), (strict_entities, True)):
        found = [(n, *span) for n, tags in enumerate(hypotheses) for span in every_span(tags, strict)]
        gold = [(n, *span) for n, tags in enumerate(references) for span in every_span(tags, strict)]
        by_type = entity_counts(hypotheses, references, read)
        for kind in KINDS:
            right = sum(span in gold for span in found if span[1] == kind)
            expected = Counts(right, sum(s[1] == kind for s in found), sum(s[1] == kind for s in gold))
            assert by_type.get(kind, Counts()) == expected
        scores = entity_scores(hypotheses, references, read)
        both = sum(span in gold for span in found)
        assert scores["precision"].value == pytest.approx(100 * both / len(found) if found else 0.0)
        assert scores["recall"].value == pytest.approx(100 * both / len(gold) if gold else 0.0)
        assert scores["f1"].value == pytest.approx(200 * both / (len(found) + len(gold)) if found + gold else 0.0)


def test_by_hand() -> None:
    gold = ["B-PER", "I-PER", "O", "B-PER", "O", "B-LOC"]
    assert entities(gold) == [Entity("PER", 0, 2), Entity("PER", 3, 4), Entity("LOC", 5, 6)]
    found = ["B-PER", "I-PER", "O", "B-LOC", "O", "I-LOC"]
    assert stray(found) == [5]
    scores = entity_scores([found], [gold])
    assert scores["f1"].value == pytest.approx(100 * 2 / 3)
    assert str(scores["f1"]) == "F1|micro over entities, BIO, 3 entities, 1 sentences = 66.67"
    strict = entity_scores([found], [gold], strict_entities)
    assert strict["precision"].value == 50 and strict["recall"].value == pytest.approx(100 / 3)
    assert "strict" in strict["f1"].signature
    assert entity_counts([found], [gold]) == {"LOC": Counts(1, 2, 1), "PER": Counts(1, 1, 2)}


def test_neighbours_of_one_type_are_two_and_a_change_of_type_ends_an_entity() -> None:
    assert entities(["B-PER", "B-PER", "I-LOC", "I-PER"]) == [
        Entity("PER", 0, 1),
        Entity("PER", 1, 2),
        Entity("LOC", 2, 3),
        Entity("PER", 3, 4),
    ]
    assert strict_entities(["B-PER", "I-LOC", "I-LOC", "O", "I-PER"]) == [Entity("PER", 0, 1)]


def test_what_cannot_be_tags_is_refused() -> None:
    for tag in ("B", "I-", "PER", "E-PER", "o", ""):
        with pytest.raises(ValueError, match="word 2 has the tag"):
            entities(["O", tag])
    with pytest.raises(ValueError, match="sentence 2: 1 tags for 2 words"):
        entity_scores([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(ValueError, match="nothing to score"):
        entity_scores([], [])


def test_nothing_found_and_nothing_there_is_zero() -> None:
    assert entity_scores([["O"]], [["O"]])["f1"].value == 0.0
