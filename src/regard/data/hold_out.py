"""Validation and test examples that are held out of the training data of translation, parsing and plain text.

    pairs        sentences are held out with all their translations, by the hash of data/split.py; valid and test keep
                 the first translation of each
    lines        blocks of lines that follow each other, chosen by a hash of the number of the block
    documents    whole documents, chosen in the same way; of fewer than four documents the last sentences

The training data is read once to decide; one byte for each example is kept. Labelled data has its own way
(data/labelled.py), with the same sizes.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from regard.data.corpus_split import hash_pairs
from regard.data.examples import Example
from regard.data.fields import Fields
from regard.data.formats import read_examples
from regard.data.settings import SIZE_SETTINGS, DataSettings
from regard.data.split import SplitPlan, assign, check_not_empty, default_size, first_occurrences, hash_text
from regard.errors import UserError
from regard.run_files import SPLITS

Assignments = npt.NDArray[np.uint8]

TRAIN, VALID, TEST = range(3)
LEFT_OUT = 3
"""Of no split: a further translation of a sentence that is held out, or a copy of its pair."""
SEED = 1
MAX_BLOCK_LINES, MIN_BLOCKS = 100, 40
MIN_DOCUMENTS = 4


@dataclass(frozen=True)
class HeldOut:
    """The training data of a recipe, divided into splits."""

    data: DataSettings
    fields: Fields
    assignments: Assignments
    """(E,): the number of the split of each example."""

    def read(self, split: str) -> Iterator[Example]:
        """The examples of a split, in the order of the training data."""
        number, wanted, gap = 0, SPLITS.index(split), True
        for number, example in enumerate(read_examples(self.data.train, self.data.folder, self.fields), 1):
            if number > len(self.assignments):
                break
            if self.assignments[number - 1] == wanted:
                cut = gap and example.get("first") is False  # a document whose beginning is in another split
                yield example | {"first": True} if cut else example
            gap = self.assignments[number - 1] != wanted
        if number != len(self.assignments):
            raise UserError(
                "the training data changed while it was read",
                "start again when nothing writes to it",
                code="changed-file",
                where="data.train",
            )

    def describe(self) -> list[str]:
        """One line for each split that is held out."""
        total, unit = len(self.assignments), {"texts": "examples"}.get(self.fields.held_out, "lines")
        lines = []
        for split in self.data.held_out:
            count = int((self.assignments == SPLITS.index(split)).sum())
            chosen = not getattr(self.data, SIZE_SETTINGS[split].removeprefix("data."))
            remedy = "; data.valid names other data, data.hold_out = 0.1 sets the share" if chosen else ""
            lines.append(f"{split}: {count:,} of {total:,} training {unit} are held out{remedy}")
        return lines


_recent: dict[str, HeldOut] = {}
"""The last results, so that preparing, tokenising and validating decide once."""


def hold_out(data: DataSettings, fields: Fields) -> HeldOut:
    """Decide which training examples are held out, as the settings say."""
    paths = [path for source in data.train for path in source.files(data.folder)]
    status = [(path, stat.st_size, stat.st_ino, stat.st_mtime_ns) for path in paths if (stat := path.stat())]
    key = repr((data, fields.held_out, fields.inputs, fields.target, status))
    if key not in _recent:
        examples = read_examples(data.train, data.folder, fields)
        held = HeldOut(data, fields, RULES[fields.held_out](examples, data, fields))
        sizes = {split: int((held.assignments == SPLITS.index(split)).sum()) for split in ("train", *data.held_out)}
        check_not_empty(sizes, f"{len(held.assignments):,} training examples were read", SIZE_SETTINGS)
        _recent.clear()
        _recent[key] = held
    return _recent[key]


def read_split(data: DataSettings, fields: Fields, split: str) -> Iterator[Example]:
    """The examples of a split: those of its sources, or those that are held out of the training data."""
    if data.held_out and split in ("train", *data.held_out):
        return hold_out(data, fields).read(split)
    return read_examples(getattr(data, split), data.folder, fields)


def report_held_out(data: DataSettings, fields: Fields, report: Callable[[str], None]) -> None:
    """Report what is held out, if anything is."""
    for line in hold_out(data, fields).describe() if data.held_out else ():
        report(line)


# ---- rules


def assign_texts(examples: Iterable[Example], data: DataSettings, fields: Fields) -> Assignments:
    """By the text of the first input, so that no text is in two splits.

    Of pairs in several directions, the split follows from the text of the same side in every direction, and valid and
    test keep the first translation in each direction.
    """
    directions = array("Q")

    def pairs() -> Iterator[Example]:
        for item in examples:
            group = fields.group_text(item)
            directions.append(hash_text(f"{item['from']} {item['to']}") if "to" in item else 0)
            target = item["src"] if item.get("reversed") else item.get(fields.target, "-")
            yield {"src": group, "tgt": str(target)}

    hashes = hash_pairs(pairs(), SEED)
    valid = data.hold_out or default_size(len(np.unique(hashes.src[~hashes.empty])))
    plan = SplitPlan(valid if "valid" in data.held_out else 0, data.hold_out_test, "src", SEED)
    direction = np.frombuffer(directions, np.uint64)
    usable = first_occurrences(hashes.pair ^ direction, ~hashes.empty)
    split = assign(hashes.src, usable, plan, units=hashes.src ^ direction)
    in_train = ~split.in_test & ~split.in_valid  # copies and empty pairs too: the filters decide on them
    cases = [in_train, split.valid, split.test]
    return np.select(cases, [TRAIN, VALID, TEST], default=LEFT_OUT).astype(np.uint8)


def assign_lines(examples: Iterable[Example], data: DataSettings, fields: Fields) -> Assignments:
    """By blocks of lines."""
    total = sum(1 for _ in examples)
    size = max(1, min(MAX_BLOCK_LINES, total // MIN_BLOCKS))
    return assign_units([min(size, total - first) for first in range(0, total, size)], data)


def assign_documents(examples: Iterable[Example], data: DataSettings, fields: Fields) -> Assignments:
    """By documents; of a few documents the last sentences."""
    sizes: list[int] = []
    for example in examples:
        if example["first"] or not sizes:
            sizes.append(0)
        sizes[-1] += 1
    if len(sizes) >= MIN_DOCUMENTS:
        return assign_units(sizes, data, fewest=2)
    assignments = np.zeros(sum(sizes), np.uint8)
    valid, test = sizes_of(data, len(assignments))
    assignments[len(assignments) - valid - test :] = TEST
    assignments[len(assignments) - valid - test : len(assignments) - test] = VALID
    return assignments


RULES = {"texts": assign_texts, "lines": assign_lines, "documents": assign_documents}


def sizes_of(data: DataSettings, total: int) -> tuple[int, int]:
    """The number of examples of valid and test that are held out of `total`."""
    valid = max(1, round(data.hold_out * total)) if data.hold_out else default_size(total)
    test = max(1, round(data.hold_out_test * total)) if data.hold_out_test else 0
    return valid if "valid" in data.held_out else 0, test


def assign_units(sizes: Sequence[int], data: DataSettings, fewest: int = 1) -> Assignments:
    """Hold out whole units of text: those with the highest hashes for valid, with the lowest for test."""
    splits = np.zeros(len(sizes), np.uint8)
    order = sorted(range(len(sizes)), key=lambda unit: hash_text(f"unit {unit}", SEED))
    for code, wanted in zip((VALID, TEST), sizes_of(data, sum(sizes)), strict=True):
        if wanted:
            order.reverse()  # the highest first, then the lowest
            free = [unit for unit in order if splits[unit] == TRAIN]
            splits[choose_units(free, sizes, wanted, fewest)] = code
    return np.repeat(splits, sizes)


def choose_units(units: Sequence[int], sizes: Sequence[int], wanted: int, fewest: int) -> list[int]:
    """Some of the units, in their order, with about `wanted` examples; if they are all large, the smallest ones."""
    fitting = [unit for unit in units if sizes[unit] <= wanted]
    totals = list(accumulate((sizes[unit] for unit in fitting), initial=0))[:-1]
    chosen = [unit for unit, before in zip(fitting, totals, strict=True) if before < wanted]
    others = sorted((unit for unit in units if unit not in chosen), key=lambda unit: sizes[unit])
    return chosen + others[: max(0, fewest - len(chosen))]
