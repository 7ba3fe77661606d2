"""Which examples train, validate and test: duplicates, what is held out, and what is kept apart.

An example's place in [0, 1) is a hash of what its text says, as in `data.split`: test takes the low end, valid the
high end. So equal texts fall on the same side, whatever else is read and in whatever order, and growing moves nothing.

    0 ─── hold_out_test ───┬──────── train ────────┬─── hold_out ─── 1

Two examples are equal when they say the same, blanks aside; or, if `same_ending`, when one ends with all that the other
says: sorted by their last letters, such texts stand next to each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.labelled.examples import GOLD, Example
from regard.data.labelled.reading import read_examples
from regard.data.labelled.settings import LabelledDataSettings
from regard.data.split import PLACES, key, normalise
from regard.errors import UserError

ENDING = 40  # letters and digits; what ends in less than that with another may well be another text
SEED = 1  # of the places of what is held out

READ = {
    "classification": ("text", "pair"), "regression": ("text", "pair"), "tagging": ("words",),
    "answering": ("context", "question"), "choice": ("text", "choices"),
}  # fmt: skip
"""What a model reads of an example; the first is the text that is held out with all that is asked about it."""


@dataclass(frozen=True)
class Report:
    """What was read and what became of it."""

    read: dict[str, int]
    duplicates: int
    conflicts: int
    shared: int
    kept_apart: bool
    held_out: dict[str, int]
    beyond_limit: int
    examples: dict[str, int]

    def __str__(self) -> str:
        """A line for each part, for people."""
        told = {part: [f"{self.read[part]:,} read"] if self.read[part] else [] for part in self.examples}
        if self.duplicates:
            other = f" ({self.conflicts:,} with another label)" if self.conflicts else ""
            told["train"].append(f"{self.duplicates:,} equal to one before{other}")
        if self.shared:
            fate = "left out" if self.kept_apart else "kept: data.keep_apart = true leaves them out"
            told["train"].append(f"{self.shared:,} also in valid or test, {fate}")
        for part, count in self.held_out.items():
            told["train"].append(f"{count:,} held out for {part}")
            told[part].append("held out of train")
        if self.beyond_limit:
            told["train"].append(f"{self.beyond_limit:,} beyond data.limit")
        lines = (f"{part:5}  {count:>9,}  {'; '.join(told[part])}" for part, count in self.examples.items())
        return "\n".join(line.rstrip() for line in lines)


@dataclass(frozen=True)
class Parts:
    """The examples of each part, in the order they were read."""

    train: list[Example]
    valid: list[Example]
    test: list[Example]
    report: Report


def load_parts(task: str, data: LabelledDataSettings) -> Parts:
    """Read all that is named and make the parts of it."""
    named = {"train": data.train, "valid": data.valid, "test": data.test}
    read = {part: list(read_examples(task, sources, data.folder)) for part, sources in named.items()}
    everything = [example for examples in read.values() for example in examples]
    identity = identities([content(task, example) for example in everything], data.same_ending)
    own, others = identity[: len(read["train"])], set(identity[len(read["train"]) :])

    kept, conflicts = list(zip(own, read["train"], strict=True)), 0
    if data.drop_duplicates:
        kept, conflicts = distinct(kept, GOLD[task])
    shared = sum(recognised in others for recognised, _ in kept)
    apart = [example for recognised, example in kept if not (data.keep_apart and recognised in others)]

    parts = hold_out(task, apart, data)
    shares = {"valid": data.hold_out, "test": data.hold_out_test}
    held = {part: len(parts[part]) for part, share in shares.items() if share}
    drawn = draw(task, parts["train"], data.limit, data.limit_seed) if data.limit else parts["train"]
    beyond = len(parts["train"]) - len(drawn)
    parts = {"train": drawn} | {part: parts[part] if part in held else read[part] for part in shares}
    report = Report(
        read={part: len(found) for part, found in read.items()},
        duplicates=len(own) - len(kept),
        conflicts=conflicts,
        shared=shared,
        kept_apart=data.keep_apart,
        held_out=held,
        beyond_limit=beyond,
        examples={part: len(found) for part, found in parts.items()},
    )
    _refuse_empty(report)
    return Parts(parts["train"], parts["valid"], parts["test"], report)


def content(task: str, example: Example) -> str:
    """All that a model reads of an example, blanks made single."""
    read = (example.get(name, "") for name in READ[task])
    return "\n".join(" ".join(" ".join([part] if isinstance(part, str) else part).split()) for part in read).strip()


def subject(task: str, example: Example) -> str:
    """The text that is held out with all that is asked about it."""
    text = example[READ[task][0]]
    return text if isinstance(text, str) else " ".join(text)


def identities(contents: Sequence[str], same_ending: bool = False) -> list[str]:
    """For each content what it is recognised by: equal for equal examples."""
    if not same_ending:
        return list(contents)
    said = [normalise(text)[::-1] for text in contents]
    shortest = ""
    found = [""] * len(said)
    for number in sorted(range(len(said)), key=said.__getitem__):
        if len(shortest) < ENDING or not said[number].startswith(shortest):
            shortest = said[number]
        found[number] = shortest
    return found


def distinct(examples: Sequence[tuple[str, Example]], gold: str) -> tuple[list[tuple[str, Example]], int]:
    """The first of equal examples, by what they are recognised by; and how many of the others say something else."""
    first: dict[str, Example] = {}
    conflicts = 0
    for recognised, example in examples:
        conflicts += first.setdefault(recognised, example)[gold] != example[gold]
    return list(first.items()), conflicts


def hold_out(task: str, examples: Sequence[Example], data: LabelledDataSettings) -> dict[str, list[Example]]:
    """Examples by part, by the places of their texts."""
    parts: dict[str, list[Example]] = {"train": [], "valid": [], "test": []}
    low, high = round(data.hold_out_test * PLACES), PLACES - round(data.hold_out * PLACES)
    for example in examples:
        text = subject(task, example)
        place = key(normalise(text)[-ENDING:] if data.same_ending else text, SEED) >> 11
        parts["test" if place < low else "valid" if place >= high else "train"].append(example)
    return parts


def draw(task: str, examples: Sequence[Example], count: int, seed: int) -> list[Example]:
    """So many of the examples, drawn by a hash of what they say: fewer are always among more."""
    order = sorted(range(len(examples)), key=lambda number: (key(content(task, examples[number]), seed), number))
    return [examples[number] for number in sorted(order[:count])]


def _refuse_empty(report: Report) -> None:
    """A part that was asked for and would hold nothing is no part."""
    asked = [*report.held_out, *(["train"] if report.read["train"] else [])]
    for part in asked:
        if not report.examples[part]:
            raise UserError(
                f"{part} would hold nothing of {report.read['train']:,} training examples",
                f"hold out {'less' if part == 'train' else 'more'}, or read more",
            )
