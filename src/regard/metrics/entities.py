"""Named entities: spans as tags and back, and precision, recall and F1 of whole entities.

    Ada    Lovelace  met  Babbage  in  London
    B-PER  I-PER     O    B-PER    O   B-LOC        ->   (PER, 0, 2), (PER, 3, 4), (LOC, 5, 6)

BIO, or IOB2 (Tjong Kim Sang and Veenstra 1999): B-x begins an entity of type x, I-x goes on with it, O is outside. An
entity counts as right when type, first and last word all are, and not at all otherwise (CoNLL-2003, Tjong Kim Sang and
De Meulder 2003, section 2).

A tagger that decides word by word also writes an I-x that goes on with nothing. Two readings of it are in use,
and the scores by either are those of the package seqeval:

    entities          it begins an entity, as conlleval has it and seqeval does unless told otherwise
    strict_entities   it belongs to none: seqeval's mode="strict", scheme=IOB2
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from regard.metrics.classification import Counts
from regard.metrics.score import Score, check_paired

OUTSIDE = "O"


class Entity(NamedTuple):
    """Words `start` up to, not including, `end` are of type `kind`."""

    kind: str
    start: int
    end: int


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of a sentence in order; an I- that goes on with nothing begins one."""
    return strict_entities(repaired(tags))


def strict_entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of a sentence in order, each a B- and all I- of its type that follow."""
    found: list[Entity] = []
    for place, (begins, kind, goes_on) in enumerate(_read(tags)):
        if begins:
            found.append(Entity(kind, place, place + 1))
        elif goes_on and found and found[-1].end == place:
            found[-1] = found[-1]._replace(end=place + 1)
    return found


def tagged(spans: Iterable[Entity], length: int) -> list[str]:
    """Entities as the tags of a sentence of `length` words; those that overlap or stand outside it are refused."""
    tags = [OUTSIDE] * length
    for kind, start, end in spans:
        if not 0 <= start < end <= length:
            raise ValueError(f"the entity {kind} from {start} to {end} does not lie in a sentence of {length} words")
        if any(tag != OUTSIDE for tag in tags[start:end]):
            raise ValueError(f"the entity {kind} from {start} to {end} overlaps another: BIO has one tag a word")
        tags[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
    return tags


def stray(tags: Sequence[str]) -> list[int]:
    """The places of every I- that goes on with nothing: before it stands neither B- nor I- of its type."""
    return [place for place, (begins, kind, goes_on) in enumerate(_read(tags)) if kind and not begins and not goes_on]


def repaired(tags: Sequence[str]) -> list[str]:
    """The tags with every stray I- made the B- that it stands for; what follows it then goes on with something."""
    places = set(stray(tags))
    return [f"B-{tag[2:]}" if place in places else tag for place, tag in enumerate(tags)]


def entity_counts(
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    read: Callable[[Sequence[str]], list[Entity]] = entities,
) -> dict[str, Counts]:
    """What was found of each type, by name; `read` says what an entity is: `entities` or `strict_entities`."""
    check_paired(hypotheses, references)
    right: Counter[str] = Counter()
    found: Counter[str] = Counter()
    gold: Counter[str] = Counter()
    for number, (tags, true) in enumerate(zip(hypotheses, references, strict=True), 1):
        if len(tags) != len(true):
            raise ValueError(f"sentence {number}: {len(tags)} tags for {len(true)} words")
        spans, true_spans = set(read(tags)), set(read(true))
        found.update(span.kind for span in spans)
        gold.update(span.kind for span in true_spans)
        right.update(span.kind for span in spans & true_spans)
    return {kind: Counts(right[kind], found[kind], gold[kind]) for kind in sorted(found | gold)}


def entity_scores(
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    read: Callable[[Sequence[str]], list[Entity]] = entities,
) -> dict[str, Score]:
    """Precision, recall and F1 over entities of all types together (micro)."""
    counts = sum(entity_counts(hypotheses, references, read).values(), Counts())
    way = "BIO strict" if read is strict_entities else "BIO"
    return counts.scores(f"micro over entities, {way}, {counts.gold:,} entities, {len(references):,} sentences")


def _read(tags: Sequence[str]) -> Iterator[tuple[bool, str, bool]]:
    """For each tag whether it begins an entity, of what type ("" for O), and whether it goes on with the tag before."""
    before = ""
    for place, tag in enumerate(tags):
        mark, hyphen, kind = tag.partition("-")
        if tag != OUTSIDE and not (mark in ("B", "I") and hyphen and kind):
            raise ValueError(f"word {place + 1} has the tag {tag!r}: a tag is O, B-type or I-type")
        yield mark == "B", kind, mark == "I" and kind == before
        before = kind
