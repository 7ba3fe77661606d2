"""Spans of text: F1 of whole entities in BIO tags, and exact match and F1 of short answers.

    Ada    Lovelace  met  Babbage  in  London
    B-PER  I-PER     O    B-PER    O   B-LOC        ->   (PER, 0, 2), (PER, 3, 4), (LOC, 5, 6)

BIO, or IOB2 (Tjong Kim Sang and Veenstra 1999): B-x begins an entity of type x, I-x continues it, O is outside. An
entity is correct if its type, first and last word are (CoNLL-2003, Tjong Kim Sang and De Meulder 2003, section 2).

A tagger that decides word by word may write an I-x that continues no entity. There are two conventions, both with the
scores of the package seqeval:

    entities          it begins an entity, as in conlleval and by default in seqeval
    strict_entities   it belongs to no entity: mode="strict", scheme=IOB2 in seqeval
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from regard.messages import Message
from regard.metrics.classification import Counts
from regard.metrics.score import Score, check_paired

OUTSIDE = "O"


class Entity(NamedTuple):
    """Words `start` up to, not including, `end` are of type `kind`."""

    kind: str
    start: int
    end: int


def entities(tags: Sequence[str]) -> list[Entity]:
    """Return the entities of a sentence in order; an I- that continues no entity begins one."""
    return strict_entities(repaired(tags))


def strict_entities(tags: Sequence[str]) -> list[Entity]:
    """Return the entities of a sentence in order: a B- and all following I- of its type."""
    spans: list[Entity] = []
    for index, (begins, kind, continues) in enumerate(_parse(tags)):
        if begins:
            spans.append(Entity(kind, index, index + 1))
        elif continues and spans and spans[-1].end == index:
            spans[-1] = spans[-1]._replace(end=index + 1)
    return spans


def stray(tags: Sequence[str]) -> list[int]:
    """Return the index of every I- that continues no entity: the tag before it is not B- or I- of its type."""
    parsed = enumerate(_parse(tags))
    return [index for index, (begins, kind, continues) in parsed if kind and not begins and not continues]


def repaired(tags: Sequence[str]) -> list[str]:
    """Replace every I- that continues no entity by B-."""
    indices = set(stray(tags))
    return [f"B-{tag[2:]}" if index in indices else tag for index, tag in enumerate(tags)]


def entity_counts(
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    read: Callable[[Sequence[str]], list[Entity]] = entities,
) -> dict[str, Counts]:
    """Counts of every entity type; `read` is `entities` or `strict_entities`."""
    check_paired(hypotheses, references)
    correct: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    gold: Counter[str] = Counter()
    for number, (tags, true) in enumerate(zip(hypotheses, references, strict=True), 1):
        if len(tags) != len(true):
            raise ValueError(f"sentence {number}: {len(tags)} tags for {len(true)} words")
        spans, true_spans = set(read(tags)), set(read(true))
        predicted.update(span.kind for span in spans)
        gold.update(span.kind for span in true_spans)
        correct.update(span.kind for span in spans & true_spans)
    return {kind: Counts(correct[kind], predicted[kind], gold[kind]) for kind in sorted(predicted | gold)}


def entity_scores(
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    read: Callable[[Sequence[str]], list[Entity]] = entities,
) -> dict[str, Score]:
    """Micro-averaged precision, recall and F1 over entities of all types."""
    counts = sum(entity_counts(hypotheses, references, read).values(), Counts())
    scheme = "BIO strict" if read is strict_entities else "BIO"
    values = {"scheme": scheme, "entities": counts.gold, "sentences": len(references)}
    how = Message("micro over entities, {scheme}, {entities:,} entities, {sentences:,} sentences", **values)
    return counts.scores(how)


def _parse(tags: Sequence[str]) -> Iterator[tuple[bool, str, bool]]:
    """Yield of every tag: True if it begins an entity, its type ("" for O), True if it continues the tag before."""
    before = ""
    for index, tag in enumerate(tags):
        mark, hyphen, kind = tag.partition("-")
        if tag != OUTSIDE and not (mark in ("B", "I") and hyphen and kind):
            raise ValueError(f"word {index + 1} has the tag {tag!r}: a tag is O, B-type or I-type")
        yield mark == "B", kind, mark == "I" and kind == before
        before = kind


# ---- short answers, as in SQuAD (Rajpurkar et al. 2016, section 6.1; and 2018)
#
# exact match   100 if the answer equals one of the gold answers, else 0
# F1            maximum over the gold answers of  2 common / (words of the answer + words of the gold answer)
#               common: the words in both, with multiplicity
#
# Texts are compared without case, punctuation, the articles a, an and the, and extra spaces. A question may have no
# answer: then the empty answer is correct. A text that is empty after normalisation, like "The", is an empty answer.
#
# The numbers equal those of the official evaluate-v2.0.py, and of evaluate-v1.1.py if every question has an answer.
# They are made for English: articles of other languages stay, and a text without spaces is one word, so that F1 equals
# exact match. The official script of MLQA (Lewis et al. 2020) differs: it knows articles of other languages, removes
# the punctuation of all scripts and splits Chinese into characters.


ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """Lowercase, then remove punctuation, articles and extra spaces."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def answer_exact(answer: str, golds: Sequence[str]) -> float:
    """1 if the answer equals a gold answer, else 0; without gold answers, 1 if it is empty."""
    return float(normalize(answer) in _accepted(golds))


def answer_f1(answer: str, golds: Sequence[str]) -> float:
    """Maximum word F1 of the answer and a gold answer, 0 to 1."""
    words, scores = normalize(answer).split(), []
    for gold in (text.split() for text in _accepted(golds)):
        common = (Counter(words) & Counter(gold)).total()
        scores.append(2 * common / (len(words) + len(gold)) if words or gold else 1.0)
    return max(scores)


def answer_scores(answers: Sequence[str], golds: Sequence[Sequence[str]]) -> dict[str, Score]:
    """Means over the questions as `exact` and `f1`; `golds` are the gold answers of each, empty if it has none.

    If some questions have an answer and some have none, the means over each group are added: a model that never answers
    is always correct on the second group.
    """
    check_paired(answers, golds)
    exact = [answer_exact(answer, gold) for answer, gold in zip(answers, golds, strict=True)]
    f1 = [answer_f1(answer, gold) for answer, gold in zip(answers, golds, strict=True)]
    answerable = [any(gold) for gold in golds]
    groups = {"": [True] * len(golds)}
    if len(set(answerable)) == 2:
        groups |= {Message("answerable"): answerable, Message("unanswerable"): [not has for has in answerable]}
    scores: dict[str, Score] = {}
    for group, members in groups.items():
        count = sum(members)
        signature = Message("SQuAD, English, {count:,} questions", count=count)
        if group:
            signature = Message("SQuAD, English, {count:,} {group} questions", count=count, group=group)
        for key, name, values in (("exact", "exact match", exact), ("f1", "F1", f1)):
            total = sum(value for value, member in zip(values, members, strict=True) if member)
            scores[f"{key} {group}".strip()] = Score(name, 100.0 * total / count, signature)
    return scores


def _accepted(golds: Sequence[str]) -> list[str]:
    """Return the gold answers, normalised, without empty ones; the empty answer if there is no other."""
    return [text for text in map(normalize, golds) if text] or [""]
