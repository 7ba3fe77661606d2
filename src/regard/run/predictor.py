"""Using a model of understanding from Python: the same path that the command line takes.

from regard import Predictor
next(Predictor.load("runs/sst-2").predict(["A film to remember."]))["label"]
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.config import build
from regard.data.batch import IGNORE
from regard.data.examples import Example
from regard.data.inputs import Input, Inputs
from regard.data.planning import groups_by_length
from regard.errors import UserError
from regard.metrics.score import Score
from regard.run.embedding import Embedding, Features
from regard.run.folder import Progress, Run
from regard.run.given import FIELDS, Given, as_asked, stretches
from regard.run.importing import DRAWN
from regard.run.pretraining import PretrainingRun
from regard.run.understanding import UnderstandingRun
from regard.runtime import RuntimeSettings, open_world
from regard.tasks.understanding import BUDGET
from regard.training.checkpoint import read_progress
from regard.training.weights import current_name

TELL_EVERY = 100
READER = {True: "bert", False: "encoder"}
"""What the reader is called in a pretrained model, and in others."""
PARTS = {"masks": "masked.", "next": "next."}
"""What is said of a text, and the weights that say it."""


@dataclass(frozen=True)
class ExampleEvaluation:
    """What was measured, on what, and everything that was said."""

    run: str
    checkpoint: str
    data: str
    scores: list[Score]
    examples: list[Example]
    said: list[Example]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Plain values; each example with what was said of it."""
        values = {name: getattr(self, name) for name in ("run", "checkpoint", "data", "seconds")}
        pairs = zip(self.examples, self.said, strict=True)
        both = [{**example, "said": said} for example, said in pairs]
        return {**values, "scores": [asdict(score) for score in self.scores], "examples": both}


class Predictor:
    """One model that says something about texts, ready to be asked."""

    def __init__(
        self,
        run: UnderstandingRun | PretrainingRun,
        checkpoint: str = "best",
        device: str = "auto",
        precision: str = "fp32",
    ) -> None:
        world = open_world(build(RuntimeSettings, {"device": device, "precision": precision}, "runtime"))
        self.run, self.checkpoint, self.world = run, checkpoint, world
        self.task: Any = run.task()

    @classmethod
    def load(
        cls, run: str | Path, checkpoint: str = "best", device: str = "auto", precision: str = "fp32"
    ) -> "Predictor":
        """Open a run's folder."""
        return cls(open_reader(run), checkpoint, device, precision)

    @cached_property
    def model(self) -> Any:
        model = self.run.model(self.checkpoint, self.world.device)
        return model if self.world.precision == "fp32" else model.to(torch.bfloat16)

    @property
    def reader(self) -> Any:
        """What reads, without what was asked of it in training."""
        return getattr(self.model, READER[isinstance(self.run, PretrainingRun)])

    def example(self, given: Given, place: str = "the input") -> Example:
        """What is asked about, as the task takes it."""
        return as_asked(self.run.recipe.task, given, self.run.vocabulary, place)

    def predict(self, examples: Iterable[Given], nbest: int | None = None, place: str = "example") -> Iterator[Example]:
        """What the model says of each, with what it was given: any number of them, in order and in bounded memory.

        An example is a dictionary as in a file of the task, or plain text (see run/given.py). `nbest` is for answers:
        so many of them, where one is told otherwise. What is wrong with one is said of "`place` N".
        """
        task = self.asking(nbest)
        self.refuse_drawn(
            "masked.", "what fills in [MASK]", "regard embed gives its vectors, and start_from its weights"
        )
        for some in stretches(self.example(given, f"{place} {number}") for number, given in enumerate(examples, 1)):
            for example, said in zip(some, task.predict(self.model, some), strict=True):
                yield example | self.meant(told(said, nbest))

    def asking(self, nbest: int | None) -> Any:
        """The task, telling so many answers."""
        if nbest is None:
            return self.task
        if not hasattr(self.task, "nbest"):
            raise UserError(
                f"{self.run.folder} tells no list of answers: its task is {self.run.recipe.task}", "leave --nbest out"
            )
        if nbest < 1:
            raise UserError(f"--nbest is {nbest}", "write 1 or more")
        return replace(self.task, nbest=nbest)

    @cached_property
    def drawn(self) -> tuple[str, ...]:
        """The weights that an import had to draw by lot, and that mean nothing."""
        names = read_progress(self.run.checkpoints.resolve(self.checkpoint)).get(DRAWN, ())
        return tuple(current_name(name) for name in names)

    def refuse_drawn(self, part: str, what: str, remedy: str) -> None:
        """No part of the model is asked that was drawn by lot."""
        if any(name.startswith(part) for name in self.drawn):
            raise UserError(f"{self.run.folder} was imported without {what}", remedy)

    def meant(self, said: Example) -> Example:
        """What is said, without what would be drawn by lot."""
        silent = [key for key, part in PARTS.items() if any(name.startswith(part) for name in self.drawn)]
        return {key: value for key, value in said.items() if key not in silent}

    def evaluate(
        self, data: str | Sequence[Example], name: str = "", progress: Progress | None = None
    ) -> ExampleEvaluation:
        """How often the model is right about "test", "valid", or examples that say what is right."""
        started = time.perf_counter()
        if isinstance(self.run, PretrainingRun):
            return self._evaluate_pretraining(str(data), started)
        examples = list(self.run.examples(data) if isinstance(data, str) else data)
        said: list[Example] = []
        for some in stretches(examples):
            for found in self.task.predict(self.model, some):
                said.append(told(found))
                if progress is not None and len(said) % TELL_EVERY == 0:
                    progress(len(said), len(examples))
        scores = list(self.task.scores(examples, said).values())
        return self._evaluation(name or str(data), scores, started, examples, said)

    def _evaluate_pretraining(self, part: str, started: float) -> ExampleEvaluation:
        """Hidden words of a part of the recipe's documents, which are no examples one by one."""
        return self._evaluation(part, self.task.score(self.model, self.run.store(part)), started, [], [])

    def _evaluation(
        self, name: str, scores: list[Score], started: float, examples: list[Example], said: list[Example]
    ) -> ExampleEvaluation:
        seconds = round(time.perf_counter() - started, 2)
        return ExampleEvaluation(str(self.run.folder), self.checkpoint, name, scores, examples, said, seconds)

    @torch.no_grad()
    def embed(
        self, texts: Iterable[Given], features: Features | None = None, place: str = "text", **wanted: Any
    ) -> Iterator[Embedding]:
        """Vectors of any number of texts, or pairs of them, in order and in bounded memory.

        What is `wanted` is as run/embedding.py says: layers="-4:", combine="sum", pool="mean", normalize=True.
        """
        features, vocabulary = features or Features(**wanted), self.run.vocabulary
        if features.pool == "pooler":
            reader = READER[isinstance(self.run, PretrainingRun)]
            self.refuse_drawn(f"{reader}.pooler.", "a pooler", "write --pool mean, or cls")
        asked = (as_asked("pretraining", each, vocabulary, f"{place} {number}") for number, each in enumerate(texts, 1))
        for some in stretches(asked):
            inputs = [self.input(example) for example in some]
            found: list[Any] = [None] * len(some)
            for group in groups_by_length([len(each.ids) for each in inputs], BUDGET):
                batch = Inputs.of([[inputs[index]] for index in group], False).pad(np.arange(len(group)))
                batch = batch.to(self.world.device)
                rows = features(self.reader, batch.source, batch["segments"]).cpu().numpy()
                for index, row in zip(group, rows, strict=True):
                    found[index] = row[: len(inputs[index].ids)] if features.pool == "tokens" else row
            for example, each, vector in zip(some, inputs, found, strict=True):
                yield Embedding(example, vocabulary.tokens(each.ids), vector, each.truncated)

    def input(self, example: Example) -> Input:
        """[CLS] text [SEP] pair [SEP], as much of it as the model reads at once."""
        vocabulary, pair = self.run.vocabulary, example.get("pair")
        cut = None if pair is None else vocabulary.tokenize(pair)
        found = vocabulary.build_input(vocabulary.tokenize(example["text"]), cut, self.longest)
        return Input(found.ids, found.segments, [IGNORE], found.truncated_tokens)

    @property
    def longest(self) -> int:
        """The most tokens that are read at once."""
        return self.task.longest if isinstance(self.run, PretrainingRun) else self.task.max_length


def told(said: Example, nbest: int | None = None) -> Example:
    """What is said; a list of answers only for whom it is asked."""
    return said if nbest is not None else {key: value for key, value in said.items() if key != "nbest"}


def open_reader(folder: str | Path) -> UnderstandingRun | PretrainingRun:
    """Open a folder whose model reads texts and says something about them."""
    run = Run.open(folder)
    if not isinstance(run, UnderstandingRun | PretrainingRun):
        tasks = ", ".join(["pretraining", *FIELDS])
        raise UserError(f"{folder} says nothing about texts: its task is {run.recipe.task}", f"those that do: {tasks}")
    return run
