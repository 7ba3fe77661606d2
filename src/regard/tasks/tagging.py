"""Which tag has each word: is it of a name, and of whose; which part of speech is it.

    Ada    met  Bab   ##bage  .
    B-PER  O    B-PER         O          p_i = softmax(W h_i + b)

A word's first piece speaks for the word; nothing is asked of its other pieces (Devlin et al. 2018, section 5.3). Each
tag is learnt and weighed by itself. Where tags are BIO, the likeliest legal sequence is said (`bio.py`); other tags are
said word by word.

A sentence with more pieces than an input has room for is read in several, each with some of what stands before and
after the words it is asked about. Every word is tagged in one of them, and all that is said is one sequence again.

T words of a sentence, O tags; `*` is (B, T) padded or (N,) packed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.data.batch import IGNORE, Batch
from regard.data.inputs import Input
from regard.losses.crossentropy import Loss
from regard.metrics.classification import accuracy, macro_scores
from regard.metrics.entities import OUTSIDE, entities, entity_scores
from regard.metrics.score import Score
from regard.tasks.bio import best_sequence, is_bio, legal, marks_entities
from regard.tasks.classification import numbers
from regard.tasks.understanding import Example, Understanding, classes_lost, shortly
from regard.text.bert import Encoding
from regard.training.task import Sample

CONTEXT = 0.25
"""The share of an input that shows what stands before the words it is asked about; as much shows what follows."""


@dataclass(frozen=True)
class Tagging(Understanding):
    """{"words"} -> {"words", "tags"}, and where tags are of entities {"entities": [{"type", "start", "end", "text"}]}.

    Entities are words `start` up to, not including, `end`.
    """

    constrained: bool = True
    """Whether BIO tags are said in legal sequences only."""

    pooled: ClassVar[bool] = False
    per_token: ClassVar[bool] = True

    @property
    def outputs(self) -> int:
        return len(self.labels)

    def encode(self, example: Example) -> list[Input]:
        tags = example.get("tags", [None] * len(example["words"]))
        kinds = [float(numbers(self.labels).get(tag, IGNORE)) for tag in tags]
        found = []
        for part in self.parts(example):
            read = self.vocabulary.build_input(part.pieces)
            asked = [float(IGNORE)] * len(read.ids)
            for place, word in zip(part.places, part.words, strict=True):
                asked[place] = kinds[word]
            found.append(Input(read.ids, read.segments, asked))
        return found

    def parts(self, example: Example) -> "list[Part]":
        """What is read of a sentence at once, an item for each input."""
        return parts_of(self.vocabulary.tokenize_words(example["words"]), self.max_length - 2)

    def criterion(self, logits: Tensor, batch: Batch) -> Loss:
        return classes_lost(logits.flatten(0, -2), batch.labels.flatten(), self.label_smoothing)

    def decode(self, example: Example, inputs: Sequence[Input], logits: Sequence[Tensor]) -> Example:
        words = list(example["words"])
        outside = np.where(np.array(self.labels) == OUTSIDE, 0.0, -np.inf)
        log_p = np.tile(outside, (len(words), 1))  # (T, O): a word without pieces, of control characters, is no name
        seen: set[int] = set()
        for part, scores in zip(self.parts(example), logits, strict=True):
            log_p[part.words] = torch.log_softmax(scores[part.places].double(), dim=-1).numpy()
            seen.update(part.words)
        if self.constrained and is_bio(self.labels):
            best = best_sequence(log_p, legal(self.labels), self.labels.index(OUTSIDE))
        else:
            best = log_p.argmax(axis=1).tolist()
        tags = [self.labels[number] if word in seen else OUTSIDE for word, number in enumerate(best)]
        said: Example = {"words": words, "tags": tags}
        return said | {"entities": named(words, tags)} if marks_entities(self.labels) else said

    def scores(self, examples: Sequence[Example], said: Sequence[Example]) -> dict[str, Score]:
        """Of entities as a whole, where tags are of entities; else the means over the tags."""
        found, gold = [each["tags"] for each in said], [each["tags"] for each in examples]
        words, true = list(chain(*found)), list(chain(*gold))
        whole = entity_scores(found, gold) if marks_entities({*words, *true}) else macro_scores(words, true)
        return {**whole, "accuracy": replace(accuracy(words, true), signature=f"{len(true):,} words")}

    def shown(self, example: Example, said: Example) -> Sample:
        texts = [in_line(example["words"], tags) for tags in (example.get("tags", ()), said["tags"])]
        return Sample(shortly(" ".join(example["words"])), *texts)


class Part(NamedTuple):
    """Some pieces of a sentence; the words it is asked about, and where in [CLS] pieces [SEP] each of them begins."""

    pieces: Encoding
    words: list[int]
    places: list[int]


def parts_of(pieces: Encoding, room: int) -> list[Part]:
    """A sentence as one part, or in several: CONTEXT of the room for what is before and as much for what is after.

    Between are as many whole words as there is room for; of a word that alone has no room the beginning is read.
    """
    if len(pieces) <= room:
        return [part_of(pieces, 0, len(pieces), 0)]
    words, around = pieces.words, int(CONTEXT * room)
    own, parts, start = room - 2 * around, [], 0
    while start < len(words):
        full = min(start + own, len(words))
        stop = bisect_left(words, words[full]) if full < len(words) else full  # where the word begins that is too much
        parts.append(part_of(pieces, start, stop if stop > start else full, around))
        start = stop if stop > start else bisect_right(words, words[start])
    return parts


def part_of(pieces: Encoding, start: int, stop: int, around: int) -> Part:
    """Asked about the words that begin at pieces `start` up to `stop`, and with so many pieces around them."""
    first = max(0, start - around)
    begins = [place for place in range(start, stop) if place == 0 or pieces.words[place] != pieces.words[place - 1]]
    return Part(
        pieces[first : stop + around],
        [pieces.words[place] for place in begins],
        [place - first + 1 for place in begins],
    )


def named(words: Sequence[str], tags: Sequence[str]) -> list[Example]:
    """The entities of a sentence, with what they say."""
    return [
        {"type": kind, "start": start, "end": end, "text": " ".join(words[start:end])}
        for kind, start, end in entities(tags)
    ]


def in_line(words: Sequence[str], tags: Sequence[str]) -> str:
    """What tags say of words, for people: Ada Lovelace (PER), London (LOC); or the/DET dog/NOUN."""
    if marks_entities(tags):
        return shortly(", ".join(f"{each['text']} ({each['type']})" for each in named(words, tags)))
    return shortly(" ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True)))
