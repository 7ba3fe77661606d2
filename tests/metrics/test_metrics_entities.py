"""Entities against a count that tries every span of a sentence, in both readings of a stray I-."""

import re
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.metrics.classification import Counts
from regard.metrics.spans import (
    Entity,
    entities,
    entity_counts,
    entity_scores,
    gold_scheme,
    scheme_of,
    stray,
    strict_entities,
)

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
@given(st.lists(st.tuples(TAGS, TAGS), min_size=1, max_size=4))
def test_scores_equal_counting_every_span(pairs: list[tuple[list[str], list[str]]]) -> None:
    pairs = [(a[: len(b)], b[: len(a)]) for a, b in pairs]
    hypotheses, references = [a for a, _ in pairs], [b for _, b in pairs]
    if gold_scheme(references, hypotheses) == "IOB1":
        references[0][0] = "B-PER"  # of which the strict reading of BIO says nothing
    for strict in (False, True):
        found = [(n, *span) for n, tags in enumerate(hypotheses) for span in every_span(tags, strict)]
        gold = [(n, *span) for n, tags in enumerate(references) for span in every_span(tags, strict)]
        by_type = entity_counts(hypotheses, references, strict)
        for kind in KINDS:
            right = sum(span in gold for span in found if span[1] == kind)
            expected = Counts(right, sum(s[1] == kind for s in found), sum(s[1] == kind for s in gold))
            assert by_type.get(kind, Counts()) == expected
        scores = entity_scores(hypotheses, references, strict)
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
    strict = entity_scores([found], [gold], strict=True)
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
    for tag in ("X-PER", "I-", "PER", "BI-PER", "o", "", "-", "O-PER"):
        with pytest.raises(ValueError, match="word 2 has the tag"):
            entities(["O", tag])
    with pytest.raises(ValueError, match="sentence 2: 1 tags for 2 words"):
        entity_scores([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(ValueError, match="nothing to score"):
        entity_scores([], [])


# schemes that mark the end: from seqeval's rules for neighbouring tags, and its patterns of whole entities

WIDER = {"BIOES": "BIES", "BILOU": "BILU", "BMES": "BMES"}
PAIRED_TAGS = {
    scheme: st.lists(st.sampled_from(["O", *(f"{mark}-{kind}" for mark in marks for kind in KINDS[:2])]), max_size=9)
    for scheme, marks in WIDER.items()
}


def in_bioes(tags: list[str], scheme: str) -> list[tuple[str, str]]:
    """(mark, type) of each tag, in the letters of BIOES."""
    marks = (
        dict(zip(WIDER[scheme], "BIES", strict=True)) if scheme != "BMES" else {"B": "B", "M": "I", "E": "E", "S": "S"}
    )
    return [("O", "") if tag == "O" else (marks[tag[0]], tag[2:]) for tag in tags]


def by_neighbours(tags: list[str], scheme: str) -> list[tuple[str, int, int]]:
    """seqeval's default: a chunk ends or begins between two tags by their marks and types."""
    found, begin, pairs = [], 0, in_bioes(tags, scheme)
    for place, ((last, last_kind), (mark, kind)) in enumerate(
        zip([("O", ""), *pairs], [*pairs, ("O", "")], strict=True)
    ):
        ends = last in "ES" or (last in "BI" and mark in "BSO") or (last != "O" and last_kind != kind)
        begins = mark in "BS" or (last in "ESO" and mark in "EI") or (mark != "O" and last_kind != kind)
        if ends:
            found.append((last_kind, begin, place))
        if begins:
            begin = place
    return found


def by_patterns(tags: list[str], scheme: str) -> list[tuple[str, int, int]]:
    """seqeval's strict reading: B I* E or S, all of one type."""
    pairs = in_bioes(tags, scheme)
    text = "".join(mark for mark, _ in pairs)
    return [
        (pairs[found.start()][1], *found.span())
        for found in re.finditer("BI*E|S", text)
        if len({kind for _, kind in pairs[slice(*found.span())]}) == 1
    ]


@MODEST
@given(st.sampled_from(sorted(WIDER)), st.data())
def test_schemes_that_mark_the_end_have_the_entities_of_seqeval(scheme: str, data: st.DataObject) -> None:
    rows = st.lists(st.tuples(PAIRED_TAGS[scheme], PAIRED_TAGS[scheme]), min_size=1, max_size=4)
    pairs = [(a[: len(b)], b[: len(a)]) for a, b in data.draw(rows)]
    hypotheses, references = (
        [[*a, "O", f"{WIDER[scheme][-1]}-PER"] for a, _ in pairs],
        [[*b, "O", "O"] for _, b in pairs],
    )
    for tags in chain(hypotheses, references):
        assert list(map(tuple, entities(tags))) == by_neighbours(tags, scheme)
        assert list(map(tuple, strict_entities(tags, scheme))) == by_patterns(tags, scheme)
    if gold_scheme(references, hypotheses) != scheme:
        return  # BMES without M is BIOES
    for strict, read in ((False, by_neighbours), (True, by_patterns)):
        found = {(n, *span) for n, tags in enumerate(hypotheses) for span in read(tags, scheme)}
        gold = {(n, *span) for n, tags in enumerate(references) for span in read(tags, scheme)}
        scores = entity_scores(hypotheses, references, strict)
        assert scores["f1"].value == pytest.approx(200 * len(found & gold) / (len(found) + len(gold)))
        assert f"{scheme} strict" * strict in scores["f1"].signature and scheme in scores["f1"].signature


def test_the_scheme_follows_from_the_tags() -> None:
    for tags, scheme in {
        "O": "BIO", "B-X O": "BIO", "B-X I-X O": "BIO", "I-X": "BIO", "I-X E-X O": "IOE", "S-X O": "BIOES",
        "B-X E-X S-X O": "BIOES", "B-X I-X E-X": "BIOES", "B-X I-X L-X U-X O": "BILOU", "U-X O": "BILOU",
        "B-X M-X E-X S-X O": "BMES", "B M E S": "BMES", "B I O": "BIO", "B-a-b I-a-b": "BIO",
        "S U": None, "E S": None, "B I-X": None, "B-X E-X L-X": None, "B- O": None, "B B-": None, "X-Y B-Y": None,
        "DET NOUN": None, "B_X I_X": None,
    }.items():  # fmt: skip
        assert scheme_of(tags.split()) == scheme, tags
    iob1 = [["I-X", "I-X", "O"], ["I-X", "B-X", "I-Y"]]
    assert gold_scheme(iob1) == "IOB1" and gold_scheme([*iob1, ["O", "B-X"]]) == "BIO"
    assert gold_scheme([["B-X", "B-X", "O"]], iob1) == "BIO", "only gold tags tell IOB1"
    assert entities(iob1[1]) == strict_entities(iob1[1], "IOB1") == [("X", 0, 1), ("X", 1, 2), ("Y", 2, 3)]
    assert entities(["I-X", "E-X", "I-X", "O"]) == strict_entities(["I-X", "E-X", "I-X", "O"], "IOE") == [
        ("X", 0, 2), ("X", 2, 3),
    ]  # fmt: skip
    assert entities(["S", "B", "M", "E"]) == [("_", 0, 1), ("_", 1, 4)]
    with pytest.raises(ValueError, match="none of the schemes"):
        entity_scores([["E-X"]], [["L-X"]])


def test_nothing_found_and_nothing_there_is_zero() -> None:
    assert entity_scores([["O"]], [["O"]])["f1"].value == 0.0
