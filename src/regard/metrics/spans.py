"""Spans of text: F1 of whole entities in BIO and similar tags, and exact match and F1 of short answers.

    Ada    Lovelace  met  Babbage  in  London
    B-PER  I-PER     O    B-PER    O   B-LOC        ->   (PER, 0, 2), (PER, 3, 4), (LOC, 5, 6)
    B-PER  E-PER     O    S-PER    O   S-LOC             the same in BIOES

    BIO, IOB2    B-x begins an entity of type x, I-x continues it, O is outside (Tjong Kim Sang and Veenstra 1999)
    IOB1         I-x also begins one; B-x begins one only directly after another of its type (Ramshaw and Marcus 1995)
    BIOES        also IOBES: E-x is the last word of several, S-x an entity of one word
    BILOU        L-x and U-x in place of E-x and S-x (Ratinov and Roth 2009)
    BMES         M-x in place of I-x, as in Chinese corpora; also without types, for the words of a text
    IOE          I-x continues an entity, E-x ends it

An entity is correct if its type, first and last word are (CoNLL-2003, Tjong Kim Sang and De Meulder 2003, section 2).

A tagger that decides word by word may continue an entity that did not begin, or not end one. There are two conventions,
both with the scores of the package seqeval:

    entities          an I-x or E-x that continues nothing begins an entity, and an entity ends where the next tag does
                      not continue it: conlleval, and the default of seqeval
    strict_entities   what is not complete is no entity: mode="strict", scheme=IOB2, IOBES or BILOU in seqeval
"""

import math
import re
import string
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from regard.messages import Message
from regard.metrics.classification import Counts
from regard.metrics.score import Score, check_paired

OUTSIDE = "O"
UNTYPED = "_"
"""The type of entities whose tags have none: B, I, O."""
SCHEMES = {"BIO": "BI", "IOE": "IE", "BIOES": "BIES", "BILOU": "BILU", "BMES": "BMES"}
"""The marks of each scheme; the first one that has all marks of some tags is theirs."""
ROLES = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S"}
"""What a mark says in BIOES."""


class Entity(NamedTuple):
    """Words `start` up to, not including, `end` are of type `kind`."""

    kind: str
    start: int
    end: int


def scheme_of(tags: Collection[str]) -> str | None:
    """The scheme of a set of tags, for example "BIOES"; None if they do not mark entities. Tags without types (B, I, O)
    must include B, because single letters may be any classes."""
    inside = [tag.partition("-") for tag in tags if tag != OUTSIDE]
    marks, typed = {mark for mark, _, _ in inside}, {bool(kind) for _, _, kind in inside}
    untyped = typed == {False} and "B" in marks and not any(hyphen for _, hyphen, _ in inside)
    if not (untyped or typed <= {True}):
        return None
    return next((name for name, known in SCHEMES.items() if marks <= set(known)), None)


def gold_scheme(references: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]] = ()) -> str:
    """The scheme of sentences. BIO is IOB1 if an I- of the references begins an entity, and a B- never does, except
    directly after one of its type."""
    scheme = scheme_of({tag for tags in chain(references, hypotheses) for tag in tags})
    if scheme is None:
        raise ValueError(f"the tags are of none of the schemes {', '.join(SCHEMES)}")
    if scheme == "BIO" and any(map(stray, references)):
        begun = (before == kind for tags in references for role, kind, before in _parse(tags) if role == "B")
        return "IOB1" if all(begun) else scheme
    return scheme


def entities(tags: Sequence[str]) -> list[Entity]:
    """Return the entities of a sentence in order; a tag that continues no entity begins one."""
    spans: list[Entity] = []
    for index, (role, kind, before) in enumerate(_parse(tags)):
        if role in ("I", "E") and kind == before:
            spans[-1] = spans[-1]._replace(end=index + 1)
        elif role:
            spans.append(Entity(kind, index, index + 1))
    return spans


def strict_entities(tags: Sequence[str], scheme: str = "BIO") -> list[Entity]:
    """Return the complete entities of a sentence in order: in BIO a B- and all following I- of its type; in BIOES,
    BILOU and BMES they must end with E-, or be one S-."""
    if scheme in ("IOB1", "IOE"):  # nothing is incomplete
        return entities(tags)
    roles = [role for role, _, _ in _parse(tags)]
    return [
        entity
        for entity in entities(tags)
        if roles[entity.start] in ("B", "S") and (scheme == "BIO" or roles[entity.end - 1] in ("E", "S"))
    ]


def stray(tags: Sequence[str]) -> list[int]:
    """Return the index of every I- or E- that continues no entity."""
    parsed = enumerate(_parse(tags))
    return [index for index, (role, kind, before) in parsed if role in ("I", "E") and kind != before]


def entity_counts(
    hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]], strict: bool = False
) -> dict[str, Counts]:
    """Counts of every entity type by `entities`, or by `strict_entities`."""
    check_paired(hypotheses, references)
    scheme = gold_scheme(references, hypotheses) if strict else ""
    correct: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    gold: Counter[str] = Counter()
    for number, (tags, true) in enumerate(zip(hypotheses, references, strict=True), 1):
        if len(tags) != len(true):
            raise ValueError(f"sentence {number}: {len(tags)} tags for {len(true)} words")
        spans, true_spans = (set(strict_entities(s, scheme) if scheme else entities(s)) for s in (tags, true))
        predicted.update(span.kind for span in spans)
        gold.update(span.kind for span in true_spans)
        correct.update(span.kind for span in spans & true_spans)
    return {kind: Counts(correct[kind], predicted[kind], gold[kind]) for kind in sorted(predicted | gold)}


def entity_scores(
    hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]], strict: bool = False
) -> dict[str, Score]:
    """Micro-averaged precision, recall and F1 over entities of all types."""
    counts = sum(entity_counts(hypotheses, references, strict).values(), Counts())
    scheme = gold_scheme(references, hypotheses) + " strict" * strict
    values = {"scheme": scheme, "entities": counts.gold, "sentences": len(references)}
    how = Message("micro over entities, {scheme}, {entities:,} entities, {sentences:,} sentences", **values)
    return counts.scores(how)


def _parse(tags: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield of every tag: its role in BIOES ("" for O), its type, and the type of the entity open before it ("")."""
    before = ""
    for index, tag in enumerate(tags):
        mark, hyphen, kind = tag.partition("-")
        if tag != OUTSIDE and (mark not in ROLES or (hyphen and not kind)):
            raise ValueError(f"word {index + 1} has the tag {tag!r}: a tag is O, B-type, I-type or similar")
        role, kind = ROLES.get(mark, ""), kind or UNTYPED
        yield role, kind, before
        before = kind if role in ("B", "I") else ""


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


def best_threshold(margins: Sequence[float], right: Sequence[float], answerable: Sequence[bool]) -> tuple[float, float]:
    """The threshold with the highest mean score, and this score (the search of the official script of SQuAD 2.0).

    margins      how much better no answer is than the best answer; a question is answered if its margin + threshold < 0
    right        the score of each best answer; not answering scores 1 if there is no answer, else 0
    answerable   True for questions with an answer
    """
    order = sorted(range(len(margins)), key=margins.__getitem__)
    score = best = float(sum(not has for has in answerable))  # nothing is answered
    limit = -math.inf
    for number, index in enumerate(order):
        score += right[index] - (not answerable[index])
        is_last = number + 1 == len(order) or margins[order[number + 1]] > margins[index]
        if is_last and score > best:
            following = margins[order[number + 1]] if number + 1 < len(order) else margins[index] + 1
            best, limit = score, (margins[index] + following) / 2
    return -limit, best / len(margins)


def _accepted(golds: Sequence[str]) -> list[str]:
    """Return the gold answers, normalised, without empty ones; the empty answer if there is no other."""
    return [text for text in map(normalize, golds) if text] or [""]
