"""A survey of the data, and a temporary run that is prepared from a sample of it.

The data are read once. Memory holds the samples, a hash for each example of valid and test, and eight bytes for each
training example.
"""

import random
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import nn

from regard.data.batch import Batch, BatchSource
from regard.data.examples import Example
from regard.doctor.check import CheckProgress
from regard.messages import Message
from regard.recipe import Recipe
from regard.run.run import Run, absolutize
from regard.run_files import SPLITS
from regard.runtime import World, seed_everything
from regard.tasks.base import AnyTask
from regard.tasks.checks import SplitExamples
from regard.tasks.operations import open_store
from regard.tasks.registry import build_recipe, task_of

SAMPLE, QUICK_SAMPLE = 50_000, 10_000
"""Examples of a split that are kept; with --quick also the number that are read."""
REPORT_EVERY = 10_000
MAX_PLANNED_STEPS = 500
"""Steps of the first epoch among which the largest batch is searched."""


@dataclass
class SplitSurvey:
    """Examples and counts of one split."""

    examples: int = 0
    """Examples that were read."""
    unread: int = 0
    """Examples that are known and were not read (--quick)."""
    sample: list[Example] = field(default_factory=list)
    labels: Counter[str] = field(default_factory=Counter)
    numbers: list[float] = field(default_factory=list)


@dataclass
class Survey:
    """Examples and counts of all splits."""

    complete: bool
    """False if some examples were not read (--quick)."""
    counted: bool = True
    """False if it is not known how many."""
    splits: dict[str, SplitSurvey] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    """By reason: training examples that the recipe leaves out before they are counted."""
    duplicates: int = 0
    """Training examples that occurred before in the training data."""
    held_out: dict[str, set[int]] = field(default_factory=dict)
    """Hashes of the distinct examples of valid and test."""
    overlap: dict[str, set[int]] = field(default_factory=dict)
    """Those of them that occur in train."""
    first_overlap: dict[str, int] = field(default_factory=dict)
    """The number of the first training example that occurs in the split, counted from 1."""

    @property
    def samples(self) -> dict[str, list[Example]]:
        return {split: self.splits[split].sample for split in SPLITS}


def survey(
    task: type[AnyTask], data: SplitExamples, seed: int, quick: bool = False, progress: CheckProgress | None = None
) -> Survey:
    """Read valid and test, then the training data; a UserError if a file has a defect."""
    result = Survey(complete=True, dropped=dict(data.dropped))
    checks, fields = task.checks, task.recipe_type.fields
    size = QUICK_SAMPLE if quick else SAMPLE
    for split in ("valid", "test", "train"):
        read, hashes = result.splits.setdefault(split, SplitSurvey()), array("q")
        reservoir = Reservoir(size, seed, beginning=checks.contiguous)
        for example in _examples(result, data, split, size if quick else None):
            reservoir.offer(example)
            for value in checks.label_values(example):
                read.labels.update([value]) if isinstance(value, str) else read.numbers.append(value)
            if key := checks.overlap_key(fields, example):
                hashes.append(hash(key))
                if split == "train":
                    _compare(result, hashes[-1], reservoir.seen)
            if progress is not None and reservoir.seen % REPORT_EVERY == 0:
                progress(Message("examples of {split} read:", split=split), reservoir.seen, None)
        read.examples, read.sample = reservoir.seen, reservoir.in_order()
        if split == "train":
            result.duplicates = len(hashes) - len(np.unique(np.frombuffer(hashes, np.int64)))
        else:
            result.held_out[split], result.overlap[split] = set(hashes), set()
    return result


def _examples(result: Survey, data: SplitExamples, split: str, limit: int | None) -> Iterator[Example]:
    """The examples of all sources; with `limit`, about equally many of each.

    They are from all parts of a source of known length, and else from its beginning.
    """
    share = None if limit is None else max(1, limit // max(1, len(data.sources[split])))
    for source in data.sources[split]:
        if isinstance(source, Sequence):
            every = 1 if share is None else max(1, -(-len(source) // share))
            yield from source if every == 1 else source[::every]
            unread = len(source) - len(range(0, len(source), every))
            result.complete &= not unread
            result.splits[split].unread += unread
            continue
        examples = iter(source)
        yield from islice(examples, share)
        if share is not None and next(examples, None) is not None:
            result.complete = result.counted = False


def _compare(result: Survey, key: int, number: int) -> None:
    for split, keys in result.held_out.items():
        if key in keys:
            result.overlap[split].add(key)
            result.first_overlap.setdefault(split, number)


class Reservoir:
    """A uniform sample of a stream of unknown length (Vitter 1985, algorithm R); or the beginning of the stream."""

    def __init__(self, size: int, seed: int, beginning: bool = False) -> None:
        self.seen = 0
        self._size, self._rng, self._beginning = size, random.Random(seed), beginning
        self._sample: list[tuple[int, Example]] = []

    def offer(self, example: Example) -> None:
        """Take the example into the sample with probability size / seen."""
        entry = (self.seen, example)
        self.seen += 1
        if len(self._sample) < self._size:
            self._sample.append(entry)
        elif not self._beginning and (index := self._rng.randrange(self.seen)) < self._size:
            self._sample[index] = entry

    def in_order(self) -> list[Example]:
        """The sample in the order of the stream."""
        return [example for _, example in sorted(self._sample, key=lambda entry: entry[0])]


@dataclass(frozen=True)
class DryRun:
    """A run in a temporary folder, prepared from a sample of the data as training prepares it."""

    run: Run
    world: World
    survey: Survey
    store: Sized
    """The tokenised training data, as batches read it."""

    @property
    def recipe(self) -> Recipe:
        return self.run.recipe

    @property
    def task(self) -> AnyTask:
        return self.run.task

    @property
    def scale(self) -> float:
        """How many times as large as its sample the training data is."""
        train = self.survey.splits["train"]
        return (train.examples + train.unread) / max(1, len(train.sample))

    @property
    def causal_sequence(self) -> str:
        """The sequence of a batch that is predicted token by token; empty if there is none."""
        return self.task.checks.causal_sequence(self.task)

    @cached_property
    def batches(self) -> BatchSource:
        return self.task.batches(self.store, self.world)

    @cached_property
    def planned(self) -> list[tuple[int, int]]:
        """Tokens, and elements of the largest micro-batch, of the steps of the first epoch."""
        steps = (self.batches.batch(n) for n in range(min(MAX_PLANNED_STEPS, self.batches.steps_in_epoch(0))))
        return [(step.tokens, max(map(elements, step.micro_batches))) for step in steps]

    @cached_property
    def plain_task(self) -> AnyTask:
        """The task without dropout, label smoothing and other regularisation."""
        model, training = self.recipe.model, self.recipe.training
        dropout = {name: 0.0 for name in model.model_dump() if name.endswith(("dropout", "weight_drop"))}
        plain = {"label_smoothing": 0.0, "r_drop": 0.0, "weight_decay": 0.0, "language_loss": 0.0}
        changes = {"model": model.model_copy(update=dropout), "training": training.model_copy(update=plain)}
        return replace(self.task, recipe=self.recipe.model_copy(update=changes))

    def new_model(self, plain: bool = False) -> nn.Module:
        """The model at the first step; with `plain`, the same weights without dropout."""
        task = self.plain_task if plain else self.task
        run = Run(self.run.folder, task.recipe)
        run.__dict__["task"] = task
        seed_everything(self.recipe.runtime.seed, "weights")
        return run.initial_model().to(self.world.device)

    @cached_property
    def small_batch(self) -> Batch:
        """A few examples, padded, no two with the same input or the same target text."""
        task, checks = self.task, self.task.checks
        size = checks.small_batch_size
        if checks.contiguous:
            store, tokens = self.store, size * (checks.max_length(task) or 1)
        else:
            folder = self.run.folder.parent / "small"
            folder.mkdir(exist_ok=True)
            data = checks.write_sample(self.recipe, {"train": self._distinct(size)}, folder)
            store = open_store(task, folder, "train", sources=with_data(self.recipe, data).data.train)
            tokens = 1 << 30
        bounds = {"batch_tokens": tokens, "batch_examples": size, "accumulation": 1}
        recipe = self.recipe.model_copy(update={"training": self.recipe.training.model_copy(update=bounds)})
        alone = replace(self.world, rank=0, size=1, device=torch.device("cpu"))
        (batch,) = replace(task, recipe=recipe).batches(store, alone).batch(0).micro_batches
        return batch.to(self.world.device)

    def _distinct(self, count: int) -> list[Example]:
        """Examples of about median length that differ in every sequence."""
        sample = [
            (self.task.checks.texts(self.task.recipe.fields, example), example)
            for example in self.survey.splits["train"].sample[:2000]
        ]
        sizes = np.array([sum(len(text) for texts in sides.values() for text in texts) for sides, _ in sample])
        chosen: list[Example] = []
        seen: set[tuple[str, str]] = set()
        for index in np.argsort(np.abs(sizes - np.median(sizes)), kind="stable"):
            sides, example = sample[index]
            keys = {(name, "\n".join(texts).strip()) for name, texts in sides.items()}
            if all(key for _, key in keys) and not keys & seen and len(chosen) < count:
                chosen.append(example)
                seen |= keys
        return chosen


def prepare(
    recipe: Recipe, world: World, surveyed: Survey, folder: Path, progress: CheckProgress | None = None
) -> DryRun:
    """Prepare a run in `folder` from the samples; a UserError if training could not begin."""
    (folder / "sample").mkdir(parents=True)
    data = task_of(recipe).checks.write_sample(recipe, surveyed.samples, folder / "sample")
    run = Run.create(folder / "run", with_data(absolutize(recipe), data))

    def report(done: int, total: int | None) -> None:
        if progress is not None:
            progress(Message("examples tokenised:"), done, total)

    eager = replace(world, compile=False, capture=False)  # they cost more than a check gains
    run.prepare(lambda _: None)
    store, _ = run.open_stores(lambda _: None, report)
    return DryRun(run, eager, surveyed, store)


def with_data(recipe: Recipe, data: dict[str, object]) -> Recipe:
    """The recipe with other settings of [data]."""
    values = recipe.model_dump(exclude_none=True)
    return build_recipe(values | {"data": values["data"] | data}, "the sample", allow_unused=True)


def elements(batch: Batch) -> int:
    """Number of elements of all tensors of a batch, padding included."""
    return sum(tensor.numel() for tensor in batch.tensors.values())
