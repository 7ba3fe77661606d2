"""Valid and test held out of the training data: no text in two splits, nothing lost, the same in every reading."""

import json
import os
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from regard.config import build
from regard.data import hold_out as module
from regard.data.examples import Example
from regard.data.fields import LABELLED_TEXT, LINES, PAIRS, SENTENCES, TREES, Fields
from regard.data.hold_out import assign_units, choose_units, hold_out, read_split, report_held_out
from regard.data.labelled import load_splits
from regard.data.settings import DataSettings, LabelledDataSettings, PairDataSettings
from regard.data.split import default_size, hash_sentence, split_of
from regard.errors import UserError
from regard.run_files import SPLITS


def settings(folder: Path, fields: Fields, lines: list[str], **data: Any) -> Any:
    name = "train.tsv" if fields is PAIRS else "train.txt"
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return build(DataSettings, {"root": str(folder), "train": name, **data}, "recipe")


def splits_of(data: DataSettings, fields: Fields) -> dict[str, list[Example]]:
    return {split: list(read_split(data, fields, split)) for split in ("train", *data.held_out)}


def code_of(data: DataSettings, fields: Fields) -> tuple[str, str]:
    with pytest.raises(UserError) as error:
        hold_out(data, fields)
    return error.value.code, error.value.where


@pytest.mark.parametrize(
    ("total", "size"),
    [(1, 1), (9, 1), (20, 2), (500, 50), (2000, 200), (4000, 200), (5000, 250), (40_000, 2000), (5_000_000, 2000)],
)
def test_the_size_of_valid_if_nothing_says_it(total: int, size: int) -> None:
    assert default_size(total) == size


def test_which_splits_are_held_out() -> None:
    one = {"file": "a"}
    for values, held_out in (
        ({}, ()),  # an imported model
        ({"train": one}, ("valid",)),
        ({"train": one, "valid": one}, ()),
        ({"train": one, "hold_out": 0.1, "hold_out_test": 0.1}, ("valid", "test")),
        ({"train": one, "valid": one, "hold_out_test": 0.1}, ("test",)),
        ({"train": one, "test": one}, ("valid",)),
    ):
        assert build(DataSettings, values, "recipe").held_out == held_out


# ---- pairs


def test_a_sentence_is_in_one_split_with_all_its_translations(tmp_path: Path) -> None:
    rows = [f"Sentence {n}.\tSatz {n} {m}" for n in range(300) for m in range(1 + n % 3)]
    data = settings(tmp_path, PAIRS, rows, hold_out=0.2, hold_out_test=0.1)
    splits = splits_of(data, PAIRS)
    expected = {f"Sentence {n}.": split_of(hash_sentence(f"sentence {n}", 1), 0.2, 0.1) for n in range(300)}
    for split, examples in splits.items():
        sources = [example["src"] for example in examples]
        assert set(sources) == {src for src, name in expected.items() if name == split}, "as regard split does it"
        assert sources == sorted(sources, key=lambda src: int(src.split()[1].strip("."))), "in the order of the file"
        if split == "train":
            assert Counter(sources) == Counter(row.split("\t")[0] for row in rows if row.split("\t")[0] in sources)
        else:
            assert len(sources) == len(set(sources)), "the first translation"
            assert all(example["tgt"].endswith(" 0") for example in examples)


def test_without_a_size_some_pairs_are_held_out_and_it_is_reported(tmp_path: Path) -> None:
    data = settings(tmp_path, PAIRS, [f"a {n}\tb {n}" for n in range(500)])
    splits, lines = splits_of(data, PAIRS), list[str]()
    assert [len(splits[split]) for split in ("train", "valid")] == [450, 50]
    report_held_out(data, PAIRS, lines.append)
    assert len(lines) == 1 and "50 of 500" in lines[0]
    more = settings(tmp_path, PAIRS, [f"a {n}\tb {n}" for n in reversed(range(500))])
    assert {example["src"] for example in read_split(more, PAIRS, "valid")} == {e["src"] for e in splits["valid"]}
    valid = settings(tmp_path, PAIRS, ["a\tb"], valid="train.tsv")
    assert [list(read_split(valid, PAIRS, split)) for split in SPLITS[:2]] == [[{"src": "a", "tgt": "b"}]] * 2
    report_held_out(valid, PAIRS, lines.append)
    assert len(lines) == 1, "nothing is held out"


def test_copies_and_blank_pairs_stay_in_train_for_its_filters(tmp_path: Path) -> None:
    rows = [*(f"a {n}\tb {n}" for n in range(100)), "\tx", "y\t", *(f"a {n}\tb {n}" for n in range(100))]
    splits = splits_of(settings(tmp_path, PAIRS, rows, hold_out=0.3), PAIRS)
    valid = [example["src"] for example in splits["valid"]]
    assert len(valid) == len(set(valid)) and "" not in valid and "y" not in valid
    train = Counter(example["src"] for example in splits["train"])
    assert all(train[f"a {n}"] == 2 or f"a {n}" in valid for n in range(100))
    assert not set(train) & set(valid)


def test_trees_are_held_out_by_their_sentences(tmp_path: Path) -> None:
    (tmp_path / "train.ptb").write_text("".join(f"(S (NN w{n}))\n" for n in range(50)), encoding="utf-8")
    data = build(PairDataSettings, {"root": str(tmp_path), "train": "train.ptb"}, "recipe")
    splits = splits_of(data, TREES)
    assert [len(splits[split]) for split in ("train", "valid")] == [45, 5]
    assert all(example["tree"] for example in splits["valid"])


def test_too_little_data_is_an_error(tmp_path: Path) -> None:
    assert code_of(settings(tmp_path, PAIRS, ["a\tb", "a\tc"]), PAIRS) == ("no-data", "data.train")
    assert code_of(settings(tmp_path, PAIRS, ["a\tb", "c\td"], hold_out=1e-9), PAIRS) == ("no-data", "data.hold_out")
    two = settings(tmp_path, PAIRS, ["a\tb", "c\td"], hold_out=0.1, hold_out_test=1e-9)
    assert code_of(two, PAIRS)[0] == "no-data"
    assert code_of(settings(tmp_path, LINES, ["a"]), LINES) == ("no-data", "data.train")
    splits = splits_of(settings(tmp_path, PAIRS, ["a\tb", "c\td"]), PAIRS)
    assert [len(splits["train"]), len(splits["valid"])] == [1, 1]


# ---- lines and documents


def test_blocks_of_lines_are_held_out(tmp_path: Path) -> None:
    lines = [f"line {n}" for n in range(8000)]
    splits = splits_of(settings(tmp_path, LINES, lines, hold_out=0.05, hold_out_test=0.1), LINES)
    texts = {split: [example["text"] for example in examples] for split, examples in splits.items()}
    assert {split: len(part) for split, part in texts.items()} == {"train": 6800, "valid": 400, "test": 800}
    assert sorted(text for part in texts.values() for text in part) == sorted(lines)
    for split in ("valid", "test"):
        numbers = [int(text.split()[1]) for text in texts[split]]
        assert numbers == sorted(numbers), "in the order of the text"
        runs = [len(list(group)) for _, group in groupby(enumerate(numbers), lambda item: item[1] - item[0])]
        assert all(length % 100 == 0 for length in runs), "whole blocks"
        assert len(runs) > 1, "of several places"


def test_blocks_of_a_short_text_are_short(tmp_path: Path) -> None:
    splits = splits_of(settings(tmp_path, LINES, [f"{n}" for n in range(400)]), LINES)
    numbers = [int(example["text"]) for example in splits["valid"]]
    assert len(numbers) == 40 and len(splits["train"]) == 360
    assert {number // 10 for number in numbers} == {number // 10 for number in numbers[::10]}, "blocks of ten"


def document_lines(sizes: list[int]) -> list[str]:
    return [line for n, size in enumerate(sizes) for line in [*(f"d{n} s{m}" for m in range(size)), ""]]


def test_whole_documents_are_held_out(tmp_path: Path) -> None:
    data = settings(tmp_path, SENTENCES, document_lines([10] * 40), hold_out=0.1, hold_out_test=0.2)
    splits = splits_of(data, SENTENCES)
    names = {split: {e["text"].split()[0] for e in examples} for split, examples in splits.items()}
    assert {split: len(part) for split, part in names.items()} == {"train": 28, "valid": 4, "test": 8}
    assert len(set.union(*names.values())) == 40, "no document is in two splits"
    for split, examples in splits.items():
        assert sum(example["first"] for example in examples) == len(names[split])
        assert all(example["first"] == example["text"].endswith(" s0") for example in examples)


def test_two_documents_are_held_out_at_least(tmp_path: Path) -> None:
    """Next-sentence prediction needs two documents in every split."""
    splits = splits_of(settings(tmp_path, SENTENCES, document_lines([50, 30, 40, 60])), SENTENCES)
    assert {example["text"].split()[0] for example in splits["valid"]} == {"d1", "d2"}, "the smallest, if all are large"
    assert {example["text"].split()[0] for example in splits["train"]} == {"d0", "d3"}


def test_the_last_sentences_of_one_document_are_held_out(tmp_path: Path) -> None:
    data = settings(tmp_path, SENTENCES, [f"s{n}" for n in range(100)], hold_out=0.1, hold_out_test=0.2)
    splits = splits_of(data, SENTENCES)
    numbers = {split: [int(e["text"][1:]) for e in examples] for split, examples in splits.items()}
    assert numbers == {"train": list(range(70)), "valid": list(range(70, 80)), "test": list(range(80, 100))}
    assert all([e["first"] for e in examples] == [True] + [False] * (len(examples) - 1) for examples in splits.values())


def test_units_are_chosen_in_their_order_until_there_are_enough() -> None:
    assert choose_units([3, 1, 0, 2], [5, 5, 5, 5], 10, 1) == [3, 1]
    assert choose_units([3, 1, 0, 2], [5, 5, 5, 5], 11, 1) == [3, 1, 0]
    assert choose_units([3, 1, 0, 2], [5, 99, 5, 5], 10, 1) == [3, 0], "one that is too large is passed over"
    assert choose_units([1, 0, 2], [7, 9, 8], 5, 2) == [0, 2]
    assert choose_units([0, 1], [1, 9], 1, 2) == [0, 1]
    sizes = build(DataSettings, {"train": {"file": "a"}, "hold_out": 0.1, "hold_out_test": 0.1}, "recipe")
    assert Counter(assign_units([1] * 100, sizes).tolist()) == {0: 80, 1: 10, 2: 10}


# ---- readings


def test_the_data_is_read_once_to_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = settings(tmp_path, PAIRS, [f"a {n}\tb {n}" for n in range(100)])
    first = hold_out(data, PAIRS)
    assert hold_out(data.model_copy(), PAIRS) is first
    assert hold_out(data.model_copy(update={"hold_out": 0.5}), PAIRS) is not first
    again = hold_out(data, PAIRS)
    (tmp_path / "train.tsv").write_text("".join(f"c {n}\td {n}\n" for n in range(200)), encoding="utf-8")
    os.utime(tmp_path / "train.tsv", ns=(1, 1))
    assert hold_out(data, PAIRS) is not again and len(hold_out(data, PAIRS).assignments) == 200


@pytest.mark.parametrize("count", [99, 101])
def test_data_that_changes_while_it_is_read_is_an_error(tmp_path: Path, count: int) -> None:
    data = settings(tmp_path, PAIRS, [f"a {n}\tb {n}" for n in range(100)])
    held = hold_out(data, PAIRS)
    settings(tmp_path, PAIRS, [f"a {n}\tb {n}" for n in range(count)])
    with pytest.raises(UserError) as error:
        list(held.read("train"))
    assert error.value.code == "changed-file"


def test_labelled_data_has_the_same_default(tmp_path: Path) -> None:
    rows = [{"text": f"text number {n}", "label": str(n % 3)} for n in range(500)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, *rows]), encoding="utf-8")
    data = build(LabelledDataSettings, {"root": str(tmp_path), "train": "train.jsonl"}, "recipe")
    splits = load_splits(data, LABELLED_TEXT)
    assert [len(getattr(splits, split)) for split in SPLITS] == [450, 50, 0]
    assert splits.report.held_out == {"valid": 50} and splits.report.duplicates == 500
    with_test = load_splits(data.model_copy(update={"hold_out_test": 0.1}), LABELLED_TEXT)
    assert len(with_test.train) + len(with_test.valid) + len(with_test.test) == 500
    assert len(with_test.valid) == default_size(500 - len(with_test.test))
    texts = [{example["text"] for example in getattr(with_test, split)} for split in SPLITS]
    assert not texts[0] & texts[1] and not texts[0] & texts[2] and not texts[1] & texts[2]
    assert module.SEED == 1, "texts have the same positions as in regard split"


def test_pairs_that_are_in_no_split_are_counted(tmp_path: Path) -> None:
    """Held-out sentences with an empty side, copies of them, and their further translations."""
    lines = [f"{number}\t{'' if number % 4 == 0 else number}" for number in range(200)]
    lines += [f"{number}\tother" for number in range(1, 200, 4)] + lines[2:200:4]
    data = settings(tmp_path, PAIRS, lines, hold_out=0.3, hold_out_test=0.3)
    held = hold_out(data, PAIRS)
    examples = {split: [(item["src"], item["tgt"]) for item in held.read(split)] for split in SPLITS}
    out = Counter((*line.split("\t"),) for line in lines)
    out.subtract(Counter(pair for pairs in examples.values() for pair in pairs))
    counts = [sum(n for (src, _), n in out.items() if int(src) % 4 == kind) for kind in (0, 2, 1)]
    assert min(counts) > 10 and not any(n for (src, _), n in out.items() if int(src) % 4 == 3)
    line = held.describe()[-1]
    assert [int(word) for word in line.replace(",", " ").split() if word.isdecimal()][2:] == counts
