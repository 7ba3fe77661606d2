"""Splits of labelled data: no text is in two of them, order and growth move nothing, and the report adds up."""

import gzip
import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import labelled
from regard.data.examples import Example
from regard.data.fields import CHOICES, LABELLED_TEXT, QUESTIONS, TAGGED_WORDS, Fields
from regard.data.labelled import MIN_ENDING, ExampleHashes, LabelledSplits, load_splits, open_splits, select
from regard.data.settings import AnsweringDataSettings, LabelledDataSettings
from regard.data.sources import Source
from regard.data.split import normalize_sentence
from regard.errors import UserError
from regard.run_files import SPLITS

texts = st.text("abAB .!", max_size=4)
lists_of_examples = st.lists(st.fixed_dictionaries({"text": texts, "label": st.sampled_from("xy")}), max_size=40)


def write(folder: Path, **splits: list[Example]) -> None:
    for split, examples in splits.items():
        lines = "".join(json.dumps(example) + "\n" for example in examples)
        (folder / f"{split}.jsonl").write_text(lines, encoding="utf-8")


def settings_of(folder: Path, fields: Fields = LABELLED_TEXT, **data: Any) -> LabelledDataSettings:
    """Settings that read the files that are there."""
    sources = {split: {"file": f"{split}.jsonl"} for split in SPLITS if (folder / f"{split}.jsonl").exists()}
    kind = AnsweringDataSettings if fields is QUESTIONS else LabelledDataSettings
    return kind.model_validate({"root": str(folder), **sources, **data})


def load(folder: Path, fields: Fields = LABELLED_TEXT, **data: Any) -> LabelledSplits:
    return load_splits(settings_of(folder, fields, **data), fields)


def content(splits: LabelledSplits) -> tuple[list[Example], ...]:
    return list(splits.train), list(splits.valid), list(splits.test)


def selected(train: Sequence[Example], **data: Any) -> dict[str, list[Example]]:
    """The examples of each split, without files."""
    settings = LabelledDataSettings(**data)
    keys = ExampleHashes(settings, LABELLED_TEXT)
    for example in train:
        keys.add(example)
    try:
        indices, _ = select(keys, keys.identities(train), {"train": len(train), "valid": 0, "test": 0}, settings)
    except UserError as error:
        assert error.code == "no-data"
        return {split: [] for split in SPLITS}
    return {split: [train[i] for i in indices[split]] for split in SPLITS}


def identities(strings: Sequence[str], same_ending: bool = False) -> list[int]:
    examples = [{"text": text, "label": "x"} for text in strings]
    keys = ExampleHashes(LabelledDataSettings(same_ending=same_ending), LABELLED_TEXT)
    for example in examples:
        keys.add(example)
    return [int(identity) for identity in keys.identities(examples)]


def numbered(count: int, start: int = 0) -> list[Example]:
    return [{"text": f"text number {i}", "label": str(i % 3)} for i in range(start, start + count)]


@settings(max_examples=100)
@given(lists_of_examples, lists_of_examples, st.floats(0, 0.45), st.floats(0, 0.45), st.booleans(), st.randoms())
def test_the_split_of_an_example_depends_on_its_text_only(
    some: list[Example], more: list[Example], valid: float, test: float, ending: bool, random: Any
) -> None:
    data = {"hold_out": valid, "hold_out_test": test, "same_ending": ending, "drop_duplicates": False}
    before = selected(some, **data)
    if any(before.values()):
        assert sorted(map(id, some)) == sorted(id(e) for split in before.values() for e in split), "each in one split"
    texts = {split: {normalize_sentence(e["text"]) for e in examples} for split, examples in before.items()}
    for one, other in (("train", "valid"), ("train", "test"), ("valid", "test")):
        assert not texts[one] & texts[other]
    mixed = [*more, *some]
    random.shuffle(mixed)
    after = selected(mixed, **data)
    if any(after.values()):
        for split, examples in before.items():
            assert all(any(e is other for other in after[split]) for e in examples), "growth and order move nothing"


@settings(max_examples=100)
@given(lists_of_examples, st.booleans())
def test_the_first_of_equal_examples_is_kept(some: list[Example], ending: bool) -> None:
    names = identities([example["text"] for example in some], ending)
    kept = selected(some, same_ending=ending)["train"]
    assert [id(e) for e in kept] == [id(e) for i, e in enumerate(some) if names.index(names[i]) == i]
    if not ending:
        assert len(kept) == len({" ".join(e["text"].split()) for e in some})


@settings(max_examples=100)
@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=12), st.integers(0, 3))
def test_a_text_that_ends_with_another_is_equal_to_it(heads: list[str], common: int) -> None:
    tail = "x" * MIN_ENDING
    strings = [head + tail for head in heads] + ["b" * common + tail]
    names = identities(strings, same_ending=True)
    for i, one in enumerate(strings):
        for j, other in enumerate(strings):
            if one.endswith(other):
                assert names[i] == names[j]
    shortest = [min((s for s in strings if one.endswith(s)), key=len) for one in strings]
    assert len(set(names)) == len(set(shortest)), "and no others are"


def test_a_short_ending_means_nothing() -> None:
    long = "Something happened somewhere yesterday, and nobody knows why."
    assert len(set(identities(["no", f"Headline - {long}", long.upper(), "Is that so? No"], same_ending=True))) == 3
    assert len(set(identities([long, f"Headline - {long}"]))) == 2


def test_the_splits_of_a_headline_and_its_article_are_one(tmp_path: Path) -> None:
    articles = [f"It was said on day {i} of that long year that the river had risen again." for i in range(200)]
    write(
        tmp_path,
        train=[
            *({"text": f"Flood {i % 7}: {text}", "label": "a"} for i, text in enumerate(articles[:150])),
            *({"text": text, "label": "b"} for text in articles[100:]),
        ],
        test=[{"text": f"RIVER {text}", "label": "a"} for text in articles[-5:]],
    )
    splits = load(tmp_path, hold_out=0.2, same_ending=True, exclude_overlap=True)
    report = splits.report
    assert (report.duplicates, report.conflicts, report.shared) == (50, 50, 5)
    assert len(splits.train) + len(splits.valid) == 195 and len(splits.test) == 5
    assert sum(example["text"].startswith("Flood") for example in [*splits.train, *splits.valid]) == 150, (
        "the first stays"
    )
    write(tmp_path, train=[{"text": text, "label": "b"} for text in articles[:195]])
    other = load(tmp_path, hold_out=0.2, same_ending=True)
    assert len(other.valid) == len(splits.valid), "with and without its headline an article is on the same side"


def test_everything_read_is_accounted_for(tmp_path: Path) -> None:
    train = [*numbered(300), *numbered(20), {"text": " text  number 5 ", "label": "none"}]
    write(tmp_path, train=train, test=[*numbered(10), *numbered(5, 1000)])
    splits = load(tmp_path, hold_out=0.1, limit=100)
    report = splits.report
    assert report.read == {"train": 321, "valid": 0, "test": 15}
    assert (report.duplicates, report.conflicts, report.shared) == (21, 1, 10)
    assert report.held_out == {"valid": len(splits.valid)} and 15 < len(splits.valid) < 45
    assert len(splits.train) == 100 and report.beyond_limit == 300 - len(splits.valid) - 100
    lines = str(report).splitlines()
    assert lines[0].startswith("train        100  321 read; 21 duplicates (1 with another label); 10 also in")
    assert lines[1].endswith("held out of train") and lines[2] == "test          15  15 read"

    apart = load(tmp_path, hold_out=0.1, exclude_overlap=True)
    assert len(apart.train) + len(apart.valid) == 290
    assert not {e["text"] for e in [*apart.train, *apart.valid]} & {e["text"] for e in apart.test}
    whole = load(tmp_path, hold_out=0.1, drop_duplicates=False)
    assert len(whole.train) + len(whole.valid) == 321 and whole.report.duplicates == 0
    again = load(tmp_path, hold_out=0.1, limit=100)
    assert content(again) == content(splits) and again.report == report, "the same every time"


def test_named_splits_are_left_as_they_are(tmp_path: Path) -> None:
    twice = [*numbered(3), *numbered(3)]
    write(tmp_path, train=numbered(40), valid=twice, test=twice)
    splits = load(tmp_path, exclude_overlap=True)
    assert content(splits) == (numbered(37, 3), twice, twice) and splits.report.held_out == {}


def test_a_larger_test_set_holds_the_smaller_one_and_leaves_valid_alone(tmp_path: Path) -> None:
    write(tmp_path, train=numbered(1000))
    small, large = (load(tmp_path, hold_out=0.1, hold_out_test=share) for share in (0.1, 0.3))
    assert {e["text"] for e in small.test} < {e["text"] for e in large.test} and list(small.valid) == list(large.valid)
    assert len(small.test) == pytest.approx(100, abs=30) and len(large.test) == pytest.approx(300, abs=50)


def test_a_smaller_limit_is_a_subset_and_another_seed_samples_others() -> None:
    some = numbered(500)

    def limited(examples: list[Example], limit: int, seed: int = 1) -> list[Example]:
        return selected(examples, limit=limit, limit_seed=seed)["train"]

    few, many = limited(some, 50), limited(some, 200)
    assert len(few) == 50 and all(example in many for example in few)
    assert few == sorted(few, key=some.index), "in their order"
    assert limited(some[::-1], 50)[::-1] == few
    assert limited(some, 50, seed=2) != few
    assert limited(some, 900) == some


def test_all_questions_about_a_text_are_in_one_split(tmp_path: Path) -> None:
    asked = [{"question": f"{w}?", "context": f"Text {i}", "answers": []} for i in range(100) for w in ("who", "why")]
    write(tmp_path, train=[*asked, asked[0]])
    splits = load(tmp_path, QUESTIONS, hold_out=0.3)
    assert splits.report.duplicates == 1 and len(splits.train) + len(splits.valid) == 200
    assert not {e["context"] for e in splits.train} & {e["context"] for e in splits.valid}


@pytest.mark.parametrize(
    ("fields", "one", "other"),
    [
        (LABELLED_TEXT, {"text": "a", "pair": "b"}, {"text": "a b"}),
        (TAGGED_WORDS, {"words": ["a", "b"]}, {"words": ["a", "c"]}),
        (CHOICES, {"text": "a", "choices": ["b", "c"]}, {"text": "a", "choices": ["c", "b"]}),
        (QUESTIONS, {"context": "a", "question": "b"}, {"context": "a", "question": "c"}),
    ],
)
def test_examples_are_equal_if_a_model_reads_the_same(fields: Fields, one: Example, other: Example) -> None:
    assert fields.dedup_text(one) != fields.dedup_text(other)
    assert fields.dedup_text(one) == fields.dedup_text(one | {"label": 1, "tags": [], "id": "3"})


@pytest.mark.parametrize(("share", "where"), [(1e-9, "data.hold_out"), (0.999999, "data.train")])
def test_an_empty_split_is_refused(tmp_path: Path, share: float, where: str) -> None:
    write(tmp_path, train=numbered(3))
    with pytest.raises(UserError) as error:
        load(tmp_path, hold_out=share)
    assert (error.value.code, error.value.where) == ("no-data", where)


def test_a_run_without_data_has_none(tmp_path: Path) -> None:
    splits = load(tmp_path)
    assert not (splits.train or splits.valid or splits.test)
    write(tmp_path, test=numbered(4))
    assert list(load(tmp_path).test) == numbered(4)


def test_several_files_are_one_split_in_their_order(tmp_path: Path) -> None:
    write(tmp_path, one=numbered(3), two=numbered(3, 3))
    sources = [Source(file="two.jsonl"), Source(file="one.jsonl")]
    data = LabelledDataSettings(root=str(tmp_path), train=sources, valid=sources[:1])
    assert list(load_splits(data, LABELLED_TEXT).train) == [*numbered(3, 3), *numbered(3)]


def test_splits_are_kept_until_the_data_or_a_setting_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, train=numbered(30), valid=numbered(5, 100))
    data, folder = settings_of(tmp_path), tmp_path / "splits"
    first = open_splits(folder, data, LABELLED_TEXT)
    reads: list[Path] = []
    build = labelled._build

    def counted(path: Path, *arguments: Any) -> Any:
        reads.append(path)
        return build(path, *arguments)

    monkeypatch.setattr(labelled, "_build", counted)
    again = open_splits(folder, data, LABELLED_TEXT)
    assert content(again) == content(first) and again.identity == first.identity and not reads
    assert again.report == first.report
    limited = open_splits(folder, settings_of(tmp_path, limit=7), LABELLED_TEXT)
    assert len(limited.train) == 7 and limited.identity != first.identity and len(reads) == 1
    write(tmp_path, valid=numbered(6, 100))
    assert len(open_splits(folder, data, LABELLED_TEXT).valid) == 6 and len(reads) == 2
    (folder / "examples.jsonl").write_bytes(b"damaged")
    assert len(open_splits(folder, data, LABELLED_TEXT).valid) == 6 and len(reads) == 3, "it is built again"


def test_every_data_file_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, train=numbered(300), test=numbered(5, 1000))
    (tmp_path / "valid.jsonl.gz").write_bytes(
        gzip.compress("".join(json.dumps(example) + "\n" for example in numbered(5, 500)).encode())
    )
    data = settings_of(tmp_path, valid={"file": "valid.jsonl.gz"})
    opened: list[str] = []
    original = Path.open

    def counted(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.parent == tmp_path:
            opened.append(path.name)
        return original(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", counted)
    splits = open_splits(tmp_path / "run" / "splits", data, LABELLED_TEXT)
    assert len(splits.train) == 300 and list(splits.valid) == numbered(5, 500)
    assert sorted(opened) == ["test.jsonl", "train.jsonl", "valid.jsonl.gz"]


def test_examples_of_a_split_are_a_sequence(tmp_path: Path) -> None:
    examples = [{"text": "ä \u2028 日本 \U0001f600", "label": "x\ty"}, *numbered(5)]
    write(tmp_path, train=examples, valid=examples)
    train = load(tmp_path).train
    assert len(train) == 6 and train[0] == examples[0] and train[-1] == examples[-1] and train[1:3] == examples[1:3]
    assert list(train) == examples
    with pytest.raises(IndexError):
        train[6]


def test_memory_holds_hashes_and_not_text(tmp_path: Path) -> None:
    rows = 20_000
    write(tmp_path, train=[{"text": f"{i} {'a ' * 200}", "label": str(i % 2)} for i in range(rows)])
    data = settings_of(tmp_path, hold_out=0.1, limit=100)
    tracemalloc.start()
    try:
        open_splits(tmp_path / "splits", data, LABELLED_TEXT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < rows * 200, "the text is 400 bytes per example"
