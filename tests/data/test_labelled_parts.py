"""No text is on two sides, order and growth move nothing, and every example that was read is accounted for."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.labelled import AnsweringDataSettings, Labelled, LabelledDataSettings, Parts, load_parts
from regard.data.labelled.parts import ENDING, content, distinct, draw, hold_out, identities
from regard.data.split import normalise
from regard.errors import UserError

Example = dict[str, Any]

texts = st.text("abAB .!", max_size=4)
examples = st.lists(st.fixed_dictionaries({"text": texts, "label": st.sampled_from("xy")}), max_size=40)


def write(folder: Path, **parts: list[Example]) -> None:
    for part, found in parts.items():
        lines = "".join(json.dumps(example) + "\n" for example in found)
        (folder / f"{part}.jsonl").write_text(lines, encoding="utf-8")


def load(folder: Path, task: str = "classification", **data: Any) -> Parts:
    """The parts of the files that are there."""
    named = {part: {"file": f"{part}.jsonl"} for part in READ_PARTS if (folder / f"{part}.jsonl").exists()}
    kind = AnsweringDataSettings if task == "answering" else LabelledDataSettings
    return load_parts(task, kind.model_validate({"root": str(folder), **named, **data}))


READ_PARTS = ("train", "valid", "test")


def numbered(count: int, start: int = 0) -> list[Example]:
    return [{"text": f"text number {i}", "label": str(i % 3)} for i in range(start, start + count)]


def shares(valid: float, test: float, **more: Any) -> LabelledDataSettings:
    return LabelledDataSettings(hold_out=valid, hold_out_test=test, **more)


@settings(deadline=None, max_examples=100, derandomize=True, database=None)
@given(examples, examples, st.floats(0, 0.45), st.floats(0, 0.45), st.booleans(), st.randoms())
def test_what_is_held_out_follows_from_the_text_alone(
    some: list[Example], more: list[Example], valid: float, test: float, ending: bool, lot: Any
) -> None:
    data = shares(valid, test, same_ending=ending)
    before = hold_out("classification", some, data)
    assert sorted(map(id, some)) == sorted(id(e) for part in before.values() for e in part), "each in one part"
    sides = {part: {normalise(e["text"]) for e in found} for part, found in before.items()}
    for one, other in (("train", "valid"), ("train", "test"), ("valid", "test")):
        assert not sides[one] & sides[other]
    mixed = [*more, *some]
    lot.shuffle(mixed)
    after = hold_out("classification", mixed, data)
    for part, found in before.items():
        assert all(any(e is other for other in after[part]) for e in found), "growing and mixing move nothing"


@settings(deadline=None, max_examples=100, derandomize=True, database=None)
@given(examples, st.booleans())
def test_equal_examples_are_kept_once_and_the_first_stays(some: list[Example], ending: bool) -> None:
    recognised = identities([content("classification", e) for e in some], ending)
    kept, conflicts = distinct(list(zip(recognised, some, strict=True)), "label")
    assert len(kept) == len(set(recognised)) == len({name for name, _ in kept})
    for name, example in kept:
        assert some[recognised.index(name)] is example
    if not ending:
        assert len(kept) == len({" ".join(e["text"].split()) for e in some})
    assert conflicts == sum(dict(kept)[name]["label"] != e["label"] for name, e in zip(recognised, some, strict=True))


@settings(deadline=None, max_examples=100, derandomize=True, database=None)
@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=12), st.integers(0, 3))
def test_one_text_that_ends_with_all_of_another_is_the_same(heads: list[str], common: int) -> None:
    tail = "x" * ENDING
    strings = [head + tail for head in heads] + ["b" * common + tail]
    found = identities(strings, same_ending=True)
    for i, one in enumerate(strings):
        for j, other in enumerate(strings):
            if one.endswith(other):
                assert found[i] == found[j]
    shortest = [min((s for s in strings if one.endswith(s)), key=len) for one in strings]
    assert len(set(found)) == len(set(shortest)), "and no others are"


def test_a_short_ending_means_nothing() -> None:
    long = "Something happened somewhere yesterday, and nobody knows why."
    assert len(set(identities(["no", f"Headline - {long}", long.upper(), "Is that so? No"], same_ending=True))) == 3
    assert len(set(identities([long, f"Headline - {long}"]))) == 2


def test_the_parts_of_a_headline_and_its_article_are_one(tmp_path: Path) -> None:
    articles = [f"It was said on day {i} of that long year that the river had risen again." for i in range(200)]
    write(
        tmp_path,
        train=[
            *({"text": f"Flood {i % 7}: {text}", "label": "a"} for i, text in enumerate(articles[:150])),
            *({"text": text, "label": "b"} for text in articles[100:]),
        ],
        test=[{"text": f"RIVER {text}", "label": "a"} for text in articles[-5:]],
    )
    parts = load(tmp_path, hold_out=0.2, same_ending=True, keep_apart=True)
    report = parts.report
    assert (report.duplicates, report.conflicts, report.shared) == (50, 50, 5)
    assert len(parts.train) + len(parts.valid) == 195 and len(parts.test) == 5
    assert sum(example["text"].startswith("Flood") for example in parts.train + parts.valid) == 150, "the first stays"
    write(tmp_path, train=[{"text": text, "label": "b"} for text in articles[:195]])
    other = load(tmp_path, hold_out=0.2, same_ending=True)
    assert len(other.valid) == len(parts.valid), "with and without its headline an article is on the same side"


def test_everything_read_is_accounted_for(tmp_path: Path) -> None:
    train = [*numbered(300), *numbered(20), {"text": " text  number 5 ", "label": "none"}]
    write(tmp_path, train=train, test=[*numbered(10), *numbered(5, 1000)])
    parts = load(tmp_path, hold_out=0.1, limit=100)
    report = parts.report
    assert report.read == {"train": 321, "valid": 0, "test": 15}
    assert (report.duplicates, report.conflicts, report.shared) == (21, 1, 10)
    assert report.held_out == {"valid": len(parts.valid)} and 15 < len(parts.valid) < 45
    assert len(parts.train) == 100 and report.beyond_limit == 300 - len(parts.valid) - 100
    lines = str(report).splitlines()
    assert lines[0].startswith("train        100  321 read; 21 equal to one before (1 with another label); 10 also in")
    assert lines[1].endswith("held out of train") and lines[2] == "test          15  15 read"

    apart = load(tmp_path, hold_out=0.1, keep_apart=True)
    assert len(apart.train) + len(apart.valid) == 290
    assert not {e["text"] for e in apart.train + apart.valid} & {e["text"] for e in apart.test}
    whole = load(tmp_path, hold_out=0.1, drop_duplicates=False)
    assert len(whole.train) + len(whole.valid) == 321 and whole.report.duplicates == 0
    assert load(tmp_path, hold_out=0.1, limit=100) == parts, "the same every time"


def test_named_parts_are_left_as_they_are(tmp_path: Path) -> None:
    twice = [*numbered(3), *numbered(3)]
    write(tmp_path, train=numbered(40), valid=twice, test=twice)
    parts = load(tmp_path, keep_apart=True)
    assert parts.valid == parts.test == twice
    assert parts.train == numbered(37, 3) and parts.report.held_out == {}


def test_a_larger_test_set_holds_the_smaller_one_and_leaves_valid_alone(tmp_path: Path) -> None:
    write(tmp_path, train=numbered(1000))
    small, large = (load(tmp_path, hold_out=0.1, hold_out_test=share) for share in (0.1, 0.3))
    assert {e["text"] for e in small.test} < {e["text"] for e in large.test} and small.valid == large.valid
    assert len(small.test) == pytest.approx(100, abs=30) and len(large.test) == pytest.approx(300, abs=50)


def test_fewer_labels_are_among_more_and_another_seed_draws_others() -> None:
    some = numbered(500)
    few, many = draw("classification", some, 50, 1), draw("classification", some, 200, 1)
    assert len(few) == 50 and all(example in many for example in few)
    assert few == sorted(few, key=some.index), "in their order"
    assert draw("classification", some[::-1], 50, 1)[::-1] == few
    assert draw("classification", some, 50, 2) != few
    assert draw("classification", some, 900, 1) == some


def test_all_questions_about_a_text_are_on_one_side(tmp_path: Path) -> None:
    asked = [{"question": f"{w}?", "context": f"Text {i}", "answers": []} for i in range(100) for w in ("who", "why")]
    write(tmp_path, train=[*asked, asked[0]])
    parts = load(tmp_path, "answering", hold_out=0.3)
    assert parts.report.duplicates == 1 and len(parts.train) + len(parts.valid) == 200
    assert not {e["context"] for e in parts.train} & {e["context"] for e in parts.valid}


@pytest.mark.parametrize(
    ("task", "one", "other"),
    [
        ("classification", {"text": "a", "pair": "b"}, {"text": "a b"}),
        ("tagging", {"words": ["a", "b"]}, {"words": ["a", "c"]}),
        ("choice", {"text": "a", "choices": ["b", "c"]}, {"text": "a", "choices": ["c", "b"]}),
        ("answering", {"context": "a", "question": "b"}, {"context": "a", "question": "c"}),
    ],
)
def test_what_reads_differently_is_different(task: str, one: Example, other: Example) -> None:
    assert content(task, one) != content(task, other)
    assert content(task, one) == content(task, dict(one) | {"label": 1, "tags": [], "id": "3"})


def test_a_part_that_would_hold_nothing_is_refused(tmp_path: Path) -> None:
    write(tmp_path, train=numbered(3))
    with pytest.raises(UserError, match="valid would hold nothing of 3 training examples"):
        load(tmp_path, hold_out=1e-9)
    with pytest.raises(UserError, match="train would hold nothing"):
        load(tmp_path, hold_out=0.999999)


def test_a_run_without_data_has_none(tmp_path: Path) -> None:
    parts = load(tmp_path)
    assert not (parts.train or parts.valid or parts.test)
    write(tmp_path, test=numbered(4))
    assert load(tmp_path).test == numbered(4)


def test_several_files_are_one_part_in_their_order(tmp_path: Path) -> None:
    write(tmp_path, one=numbered(3), two=numbered(3, 3))
    sources = [Labelled(file="two.jsonl"), Labelled(file="one.jsonl")]
    data = LabelledDataSettings(root=str(tmp_path), train=sources, valid=sources[:1])
    assert load_parts("classification", data).train == [*numbered(3, 3), *numbered(3)]
