"""Which tag has each word: is it of a name, and of whose; which part of speech is it.

    Ada    met  Bab   ##bage  .
    B-PER  O    B-PER         O          p_i = softmax(W h_i + b)

A word's first piece speaks for the word; nothing is asked of its other pieces (Devlin et al. 2018, section 5.3). Each
tag is learnt and weighed by itself. Where tags are BIO, the likeliest legal sequence is said (`bio.py`); other tags are
said word by word.

A sentence with more pieces than an input has room for is read in several inputs, cut between words. Every word is
tagged in one of them, and what is said of them is one sequence again.

T words of a sentence, O tags; `*` is (B, T) padded or (N,) packed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.data.inputs import IGNORE, Input, InputBatch
from regard.losses import Loss
from regard.metrics import Score, accuracy, entity_scores, macro_scores
from regard.metrics.entities import OUTSIDE, entities
from regard.tasks.bio import best_sequence, is_bio, legal, marks_entities
from regard.tasks.classification import numbers
from regard.tasks.understanding import Example, Understanding, classes_lost, shortly
from regard.text.bert import Pieces
from regard.training.task import Sample


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
            read = self.vocabulary.input(part)
            asked = [float(IGNORE)] * len(read.ids)
            for place, word in firsts(part):
                asked[place] = kinds[word]
            found.append(Input(read.ids, read.segments, asked))
        return found

    def parts(self, example: Example) -> list[Pieces]:
        """The pieces of a sentence, an item for each input; between them stands no word's middle."""
        return split_at_words(self.vocabulary.cut_words(example["words"]), self.max_length - 2)

    def criterion(self, logits: Tensor, batch: InputBatch) -> Loss:
        return classes_lost(logits.flatten(0, -2), batch.labels.flatten(), self.label_smoothing)

    def decode(self, example: Example, inputs: Sequence[Input], logits: Sequence[Tensor]) -> Example:
        words = list(example["words"])
        outside = np.where(np.array(self.labels) == OUTSIDE, 0.0, -np.inf)
        log_p = np.tile(outside, (len(words), 1))  # (T, O): a word without pieces, of control characters, is no name
        seen: set[int] = set()
        for part, scores in zip(self.parts(example), logits, strict=True):
            if spoken := firsts(part):
                places, spoken_for = zip(*spoken, strict=True)
                log_p[list(spoken_for)] = torch.log_softmax(scores.double(), dim=-1).numpy()[list(places)]
                seen.update(spoken_for)
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


def split_at_words(pieces: Pieces, room: int) -> list[Pieces]:
    """As many whole words as there is room for, again and again; a word that alone has no room loses its end."""
    words, parts, start = pieces.words, [], 0
    while start < len(words):
        stop = bisect_left(words, words[start + room]) if start + room < len(words) else len(words)
        if stop > start:
            parts.append(pieces[start:stop])
        else:
            parts.append(pieces[start : start + room])
            stop = bisect_right(words, words[start])
        start = stop
    return parts or [pieces]


def firsts(part: Pieces) -> list[tuple[int, int]]:
    """Where in [CLS] part [SEP] the first piece of a word stands, and which word that is."""
    pairs = enumerate(pairwise([-1, *part.words]), 1)
    return [(place, word) for place, (before, word) in pairs if word != before]


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
