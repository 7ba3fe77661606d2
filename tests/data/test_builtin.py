"""The corpora that come with the toolkit: nothing is in two splits, no input with two answers, always the same."""

import datetime
import hashlib
import itertools

import pytest
from babel.dates import format_date

from regard.data import builtin
from regard.data.builtin import Name
from regard.data.fields import DEPENDENCIES
from regard.data.sources import Split
from regard.trees import Tree, leaves, linearize, normalize, parsed, words

SPLITS: tuple[Split, ...] = ("train", "valid", "test")
HASHES = {"dates": "63931402393e1f65", "numbers": "7e648a585404c521", "trees": "932b6bc334dbfd00"}


@pytest.fixture(scope="module")
def dates() -> dict[Split, list[tuple[str, str]]]:
    return {split: list(builtin.pairs("dates", split)) for split in SPLITS}


def test_a_day_is_in_one_split(dates: dict[Split, list[tuple[str, str]]]) -> None:
    days = [{day for _, day in dates[split]} for split in SPLITS]
    for one, other in itertools.combinations(days, 2):
        assert not one & other
    assert {split: len(dates[split]) for split in SPLITS} == {"train": 30_000, "valid": 1_000, "test": 2_000}


def test_dates_are_real_and_of_every_style(dates: dict[Split, list[tuple[str, str]]]) -> None:
    styles = set()
    for text, iso in dates["test"]:
        day = datetime.date.fromisoformat(iso)
        assert str(day.year) in text
        styles |= {style for style in builtin.STYLES if format_date(day, style[1], locale=style[0]) == text}
    assert styles == set(builtin.STYLES)
    assert len({locale.split("_")[0] for locale, _ in styles}) == 15


def test_no_date_means_two_days() -> None:
    meaning: dict[str, datetime.date] = {}
    for number, (locale, form) in itertools.product(range(366), builtin.STYLES):
        day = datetime.date(2028, 1, 1) + datetime.timedelta(number)
        assert meaning.setdefault(format_date(day, form, locale=locale), day) == day


def test_a_number_is_in_one_split(monkeypatch: pytest.MonkeyPatch) -> None:
    for split in SPLITS:
        monkeypatch.setitem(builtin.NUMBERS, split, 300)
    words_by_split = [{src for src, _ in builtin.pairs("numbers", split)} for split in SPLITS]
    assert [len(split) for split in words_by_split] == [300, 300, 300]
    for one, other in itertools.combinations(words_by_split, 2):
        assert not one & other


def test_numbers_are_of_every_magnitude() -> None:
    pairs = dict(builtin.pairs("numbers", "valid"))
    assert len(pairs) == 500
    assert pairs["seven"] == "sieben"
    assert {"hundred" in src for src in pairs} == {"thousand" in src for src in pairs} == {True, False}


@pytest.mark.parametrize("name", ["dates", "numbers", "trees"])
def test_always_the_same(name: Name) -> None:
    first, again = (list(itertools.islice(builtin.pairs(name, "train"), 50)) for _ in range(2))
    assert first == again
    assert builtin.fingerprint(name, "train") != builtin.fingerprint(name, "valid")


def test_the_grammar_makes_one_tree_for_a_sentence() -> None:
    trees: dict[Split, list[Tree]] = {split: list(builtin.trees(split)) for split in SPLITS}
    sentences = {split: [tuple(words(tree)) for tree in trees[split]] for split in SPLITS}
    assert {split: len(set(sentences[split])) for split in SPLITS} == builtin.TREES
    assert not set(sentences["train"]) & {*sentences["valid"], *sentences["test"]}
    assert max(map(len, sentences["train"])) <= 12
    seen: dict[tuple[str, ...], list[str]] = {}
    for tree in trees["test"]:  # no two trees over the same parts of speech: all of it can be learnt
        tags = tuple(leaf.word if leaf.label in ("IN", "WP") else leaf.label for leaf in leaves(tree))
        assert seen.setdefault(tags, linearize(tree)) == linearize(tree)
        assert normalize(tree) == tree
    examples = list(builtin.examples("trees", "test"))
    assert list(parsed(example["tree"] for example in examples)) == trees["test"]
    assert [(example["src"], example["tgt"]) for example in examples] == list(builtin.pairs("trees", "test"))
    parts = [[leaf.label for leaf in leaves(tree)] for tree in trees["test"]]
    assert [example["tags"] for example in examples] == parts


@pytest.mark.parametrize("name", ["dates", "numbers", "trees"])
def test_the_examples_of_this_version(name: Name) -> None:
    """If this fails the corpus has changed: increase VERSION, so that stores are built again, and adapt the hash."""
    content = repr(list(itertools.islice(builtin.pairs(name, "train"), 300)))
    assert (builtin.VERSION, hashlib.sha256(content.encode()).hexdigest()[:16]) == (1, HASHES[name])


def test_dependencies_are_trees_of_the_sentences() -> None:
    found = list(builtin.examples("dependencies", "valid"))
    assert [example["words"] for example in found] == [
        example["words"] for example in builtin.examples("trees", "valid")
    ]
    assert all(DEPENDENCIES.parse(example) == example for example in found), "one root, no cycle"
    relations = {relation for example in found for relation in example["relations"]}
    assert relations == {relation for row in builtin.RELATIONS.values() for relation in row.values()} | {"root"}


def test_the_head_of_a_phrase_is_the_head_of_a_child() -> None:
    subject = "(NP (NNP Ada) (CC and) (NNP Otto))"
    thing = "(NP (NP (DT a) (NN dog)) (PP (IN of) (NP (NNP Emil))))"
    (tree,) = parsed([f"(ROOT (S {subject} (VP (VBD saw) {thing}) (. .)))"])
    assert builtin.dependency_example(tree) == {
        "words": ["Ada", "and", "Otto", "saw", "a", "dog", "of", "Emil", "."],
        "heads": [4, 3, 1, 0, 6, 4, 8, 6, 4],
        "relations": ["nsubj", "cc", "conj", "root", "det", "obj", "case", "nmod", "punct"],
    }
