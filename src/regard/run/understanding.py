"""A run whose task is understanding: labelled examples, a reader of text, and what it says of it.

tokenizer.json                   the vocabulary
labels.json                      what can be said, in the order of the model's outputs
store/train, store/valid         tokenised examples

The reader begins with fresh weights, or with those of a run of any task of this family (`start_from`): one that was
pretrained, imported, or fine-tuned to something else. The head begins anew unless the other run's says the same.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from regard.data.examples import Example
from regard.data.fields import texts_of
from regard.data.formats import read_examples
from regard.data.inputs import InputEncoder, Inputs
from regard.data.labelled import LabelledSplits, open_splits
from regard.data.planning import Batches, Budget
from regard.data.store import open_or_build
from regard.errors import UserError
from regard.files import read_json, write_json
from regard.models.text_encoder import EncoderWithHead, build_encoder
from regard.recipe.understanding import AnsweringRecipe, UnderstandingRecipe, UnderstandingTrainingSettings
from regard.run.folder import RECIPE, STORES, Progress, Run, Say
from regard.run.pieces import VOCABULARY, PiecesRun
from regard.run.seal import sealed_files
from regard.runtime import World
from regard.tasks.answering import Answering
from regard.tasks.choice import Choice
from regard.tasks.classification import Classification, Regression
from regard.tasks.tagging import Tagging
from regard.tasks.understanding import Understanding
from regard.training.checkpoint import read_weights
from regard.training.weights import load_weights

LABELS = "labels.json"
READERS = ("encoder.", "bert.")
"""What the reader's weights are called in the runs one can start from."""


@dataclass(frozen=True)
class UnderstandingRun(PiecesRun):
    """A folder with a model that says something about texts."""

    recipe: UnderstandingRecipe
    kind: ClassVar[type[Understanding]]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What can be said; nothing where it is no name."""
        path = self.folder / LABELS
        if not path.exists() and LABELS in sealed_files(self.folder):
            raise UserError(f"{path}: no such file", "bring it back from a copy: without it nobody knows what is said")
        return tuple(read_json(path)) if path.exists() else ()

    @cached_property
    def splits(self) -> LabelledSplits:
        """The labelled examples of the recipe."""
        return open_splits(self.folder / STORES / "examples", self.recipe.data, self.recipe.fields)

    def begun_anew(self, recipe: Any) -> Any:
        if self.changed_group(recipe):
            (self.folder / LABELS).unlink(missing_ok=True)
        return super().begun_anew(recipe)

    def prepare(self, say: Say, progress: Progress | None = None) -> None:
        self.refuse_other_start()
        say(str(self.splits.report))
        self.make_pieces((text for example in self.splits.train for text in texts_of(example)), say)
        self.make_labels(say)
        self.seal(VOCABULARY, *([LABELS] if (self.folder / LABELS).exists() else []))
        for part in ("train", "valid"):
            found: Inputs = self.prepared(part, say, progress)
            cut = int((found.input_lengths >= self.recipe.data.max_length).sum())
            longest = f", {cut:,} of them as long as data.max_length allows" if cut else ""
            say(f"{part}: {len(found):,} inputs, {int(found.input_lengths.sum()):,} tokens{longest}")
        say(f"vocabulary: {len(self.vocabulary):,} pieces")

    def make_labels(self, say: Say) -> None:
        """Write down what the training examples say, once."""
        found = labels_of(self.splits.train)
        if self.recipe.task == "classification" and len(found) < 2:
            raise UserError(
                f"all training examples of {self.folder / RECIPE} are of one class, {found[0]!r}",
                "there is nothing to tell apart: check data.train, its label column and its where",
            )
        if found and not (self.folder / LABELS).exists():
            write_json(self.folder / LABELS, found)
        if self.labels:
            say(f"labels: {len(self.labels)} ({', '.join(self.labels[:8])}{', …' if len(self.labels) > 8 else ''})")
        if unknown := sorted(set(found) - set(self.labels)):
            raise UserError(
                f"the training data has labels this run was not begun with: {', '.join(unknown[:8])}",
                "start another run with --folder FOLDER",
            )
        if found and (never := sorted(set(labels_of(self.splits.valid)) - set(found))):
            say(f"note: valid has labels that train has not, which count as wrong: {', '.join(never[:8])}")

    def examples(self, part: str) -> Sequence[Example]:
        """The labelled examples of "train", "valid" or "test"."""
        data = self.recipe.data
        if part == "test" and data.test:  # it can be scored where the training text is not
            return list(read_examples(data.test, data.folder, self.recipe.fields))
        found: Sequence[Example] = getattr(self.splits, part)
        if not found:
            remedy = f"give it: data.{part}=..." + (", or data.hold_out=0.1" if part == "valid" else "")
            raise UserError(f"{self.folder / RECIPE} names no {part} data", remedy)
        return found

    def store(self, part: str, progress: Progress | None = None) -> Inputs:
        """The tokenised examples of "train", "valid" or "test"."""
        task, examples = self.task(), self.examples(part)
        settings = json.dumps([self.recipe.task, self.recipe.data.model_dump(exclude={"root", "workers", *PARTS})])
        identity = settings + self.vocabulary.to_json() + json.dumps(self.labels)
        encoder = InputEncoder(task.encode, task.together, identity)
        folder, workers = self.folder / STORES / part, self.recipe.data.workers
        content = digest_of(examples) if part == "test" else f"{self.splits.identity} {part}"
        store = open_or_build(folder, content, lambda: examples, encoder, workers, progress, data=part)
        return Inputs(store, task.per_token)

    def task(self) -> Understanding:
        """The task as it is used after training."""
        recipe = self.recipe
        return self.kind(self.vocabulary, self.labels, recipe.data.max_length, recipe.training.label_smoothing)

    def training_task(self, world: World) -> Understanding:
        return replace(self.task(), valid=list(self.examples("valid")), samples=self.recipe.training.samples)

    def suited(self, world: World) -> World:
        """Also, compiling takes longer than most fine-tunings: only where it is asked for."""
        compiled = world.compile and self.recipe.runtime.compile == "on"
        return super().suited(replace(world, compile=compiled))

    def batches(self, world: World) -> Batches:
        """Which examples go together in which step."""
        budget = Budget(self.recipe.training.batch_tokens, self.recipe.training.batch_examples)
        seed = self.recipe.runtime.seed
        return Batches(self.store("train"), budget, seed, self.share(world), packed=self.packs(world))

    def training_settings(self, world: World) -> UnderstandingTrainingSettings:
        """Epochs in steps."""
        return self.recipe.training.settled(self.batches(world).steps_in_epoch(0))

    def new_model(self) -> EncoderWithHead:
        task, settings = self.task(), self.recipe.model
        reader = build_encoder(settings, len(self.vocabulary))
        dropout = getattr(settings, "dropout", 0.0) if task.head_dropout else 0.0
        return EncoderWithHead(reader, task.outputs, task.pooled, dropout)

    def first_model(self) -> EncoderWithHead:
        """The reader of the run this one starts from, and its head where it says the same."""
        model = self.new_model()
        if self.start is None:
            return model
        path = self.start.checkpoints.resolve("best")
        weights = read_weights(path)
        load_weights(model.encoder, reader_weights(weights), str(path))
        if self.says_as(self.start) and weights["head.weight"].shape == model.head.weight.shape:
            load_weights(model.head, {name: weights[f"head.{name}"] for name in ("weight", "bias")}, str(path))
        return model

    def says_as(self, start: Run) -> bool:
        """Whether a head means here what it means in the run this one starts from."""
        return bool(start.recipe.task == self.recipe.task and getattr(start, "labels", None) == self.labels)


class ClassificationRun(UnderstandingRun, task="classification"):
    """A folder with a classifier."""

    kind = Classification


class RegressionRun(UnderstandingRun, task="regression"):
    """A folder with a model that gives numbers."""

    kind = Regression


class TaggingRun(UnderstandingRun, task="tagging"):
    """A folder with a tagger."""

    kind = Tagging


class ChoiceRun(UnderstandingRun, task="choice"):
    """A folder with a model that chooses."""

    kind = Choice


class AnsweringRun(UnderstandingRun, task="answering"):
    """A folder with a model that finds answers in texts; its labels are whether a question has one."""

    recipe: AnsweringRecipe
    kind = Answering

    def task(self) -> Answering:
        data = self.recipe.data
        return Answering(
            self.vocabulary,
            self.labels,
            data.max_length,
            self.recipe.training.label_smoothing,
            max_question=data.max_question,
            stride=data.stride,
            max_answer=data.max_answer,
            no_answer=UNANSWERABLE in self.labels,
        )

    def says_as(self, start: Run) -> bool:
        return bool(start.recipe.task == self.recipe.task)


PARTS = ("train", "valid", "test")
ANSWERABLE, UNANSWERABLE = "answerable", "unanswerable"


def reader_weights(weights: dict[str, Any]) -> dict[str, Any]:
    """The reader's among a run's weights, as the reader itself calls them."""
    return {
        name.removeprefix(prefix): tensor
        for prefix in READERS
        for name, tensor in weights.items()
        if name.startswith(prefix)
    }


def labels_of(examples: Sequence[Example]) -> list[str]:
    """The names that are given as labels, sorted; numbers are none. Of a question, whether it has an answer."""
    found = {label for example in examples if isinstance(label := example.get("label"), str)}
    found |= {ANSWERABLE if example["answers"] else UNANSWERABLE for example in examples if "answers" in example}
    return sorted(found | {tag for example in examples for tag in example.get("tags", ())})


def digest_of(examples: Sequence[Example]) -> str:
    """A hash of what the examples say, in their order."""
    whole = hashlib.sha256()
    for example in examples:
        whole.update(json.dumps(example, sort_keys=True, ensure_ascii=True).encode())
    return whole.hexdigest()


def open_understanding(folder: str | Path) -> UnderstandingRun:
    """Open a folder that holds a model of understanding, and no other."""
    run = Run.open(folder)
    if not isinstance(run, UnderstandingRun):
        raise UserError(
            f"{folder} says nothing about texts: its task is {run.recipe.task}", "regard --help has its verb"
        )
    return run
