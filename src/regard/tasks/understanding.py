"""Understanding: a text in, something about it out. What all such tasks share; each has a file of its own.

    example -> inputs -> batch -> reader -> head -> numbers -> what is said of the example

An example is a dictionary, the same in a file, on the command line and in Python: {"text": ..., "label": ...}. A task
says how it becomes inputs, what the head's numbers cost, and what they mean.

B inputs, T tokens, E examples, O outputs of the head; `*` is (B, T) padded or (N,) packed.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batch import IGNORE, Batch
from regard.data.inputs import Input, Inputs
from regard.data.planning import groups_by_length
from regard.losses.crossentropy import Loss
from regard.metrics.score import Score
from regard.text.bert import BertTokenizer
from regard.training.task import Sample, Validation

Example = dict[str, Any]

AHEAD = 1024
"""Examples looked at together for inputs of like length."""
BUDGET = 16_384
"""Tokens, padding included, of one batch of predictions."""


class Read(NamedTuple):
    """What the head says of some examples, a tensor for each of their inputs, (O,) or (T, O), and what it cost."""

    logits: list[list[Tensor]]
    nll: float
    asked: int


@dataclass(frozen=True)
class Understanding(ABC):
    """A task. It holds a vocabulary and settings, never a model: models are handed in."""

    vocabulary: BertTokenizer
    labels: tuple[str, ...] = ()
    """What can be said, in the order of the head's outputs, where it is one of several names."""
    max_length: int = 128
    """The most tokens of an input."""
    label_smoothing: float = 0.0
    valid: Sequence[Example] = ()
    samples: int = 3

    pooled: ClassVar[bool] = True
    """Whether the head reads one vector for an input, or every token's."""
    per_token: ClassVar[bool] = False
    """Whether every token has a label."""
    together: ClassVar[bool] = False
    """Whether the inputs of an example are judged against each other, or each for itself."""
    head_dropout: ClassVar[bool] = True
    """Whether part of what the head reads is left out while it learns."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """O, how many numbers the head gives."""

    @abstractmethod
    def encode(self, example: Example) -> list[Input]:
        """What is read of an example, with its labels; IGNORE where it has none."""

    @abstractmethod
    def criterion(self, logits: Tensor, batch: Batch) -> Loss:
        """What the head's numbers, (B, O) or (*, O), cost, summed over what is asked."""

    @abstractmethod
    def decode(self, example: Example, inputs: Sequence[Input], logits: Sequence[Tensor]) -> Example:
        """What is said of an example, given the head's numbers for each of its inputs."""

    @abstractmethod
    def scores(self, examples: Sequence[Example], said: Sequence[Example]) -> dict[str, Score]:
        """How well that agrees with the labels, by the names a recipe can monitor."""

    @abstractmethod
    def shown(self, example: Example, said: Example) -> Sample:
        """One example for people to read: what was given, what it is, what was said."""

    def inputs(self, examples: Iterable[Example]) -> Iterator[Sequence[Input]]:
        """What is learnt from: an example's inputs together, or each of them an example of its own."""
        for example in examples:
            found = self.encode(example)
            yield from [found] if self.together else ([each] for each in found)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """The objective, summed over what is asked in a batch."""
        return self.criterion(model(batch.source, batch["segments"]), batch)

    def validate(self, model: nn.Module) -> Validation:
        """Loss and scores of the validation examples, and a few of them to read."""
        read = self.read(model, self._valid_inputs)
        said = [self.decode(*each) for each in zip(self.valid, self._valid_inputs, read.logits, strict=True)]
        scores = {name: score.value for name, score in self.scores(self.valid, said).items()}
        samples = [self.shown(*each) for each in zip(self.valid[: self.samples], said, strict=False)]
        return Validation({"loss": read.nll / max(1, read.asked), **scores}, samples)

    @cached_property
    def _valid_inputs(self) -> list[list[Input]]:
        return [self.encode(example) for example in self.valid]

    def predict(self, model: nn.Module, examples: Iterable[Example]) -> Iterator[Example]:
        """What the model says of each example, in their order; `unread` are pieces for which there was no room."""
        examples = iter(examples)
        while some := list(islice(examples, AHEAD)):
            encoded = [self.encode(example) for example in some]
            read = self.read(model, encoded)
            for example, inputs, logits in zip(some, encoded, read.logits, strict=True):
                unread = sum(each.truncated for each in inputs)
                yield self.decode(example, inputs, logits) | ({"unread": unread} if unread else {})

    @torch.no_grad()
    def read(self, model: nn.Module, encoded: Sequence[list[Input]]) -> Read:
        """Let a model, which is in evaluation mode, read inputs, those of like length together."""
        device = next(model.parameters()).device
        units = list(encoded) if self.together else [[each] for each in chain(*encoded)]
        found: list[list[Tensor]] = [[] for _ in units]
        nll, asked = 0.0, 0
        longest, counts = [max(len(i.ids) for i in unit) for unit in units], [len(unit) for unit in units]
        for group in groups_by_length(longest, BUDGET, counts):
            inputs = Inputs.of([units[place] for place in group], self.per_token)
            batch = inputs.pad(np.arange(len(group))).to(device)
            logits = model(batch.source, batch["segments"]).float()
            loss = self.criterion(logits, batch)
            nll, asked = nll + float(loss.nll), asked + int(loss.count)
            rows = iter(logits.cpu())
            for place in group:
                found[place] = [row if self.pooled else row[: len(i.ids)] for i, row in zip(units[place], rows)]  # noqa: B905
        if not self.together:
            rest = iter(found)
            found = [[next(rest)[0] for _ in example] for example in encoded]
        return Read(found, nll, asked)


def classes_lost(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Loss:
    """Cross-entropy of (M, O) against the classes (M,), summed; a class IGNORE does not count."""
    kinds = labels.long()
    asked = kinds != IGNORE
    objective = F.cross_entropy(logits.float(), kinds, ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing)
    nll = F.cross_entropy(logits.float(), kinds, ignore_index=IGNORE, reduction="sum") if smoothing else objective
    return Loss(objective, asked.sum(), nll.detach())


def shortly(text: str, most: int = 200) -> str:
    """The beginning of a text, in one line."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"
