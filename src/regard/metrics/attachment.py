"""Dependency metrics: attachment scores as in the CoNLL 2018 shared task (Zeman et al. 2018, section 5.1).

    UAS    unlabelled attachment score: share of the words with the right head
    LAS    labelled attachment score: share of the words with the right head and the right relation

They are those of the official script conll18_ud_eval.py, if the words are given. Punctuation counts. Subtypes of
relations are ignored: nsubj:pass is nsubj. (Scores of the Penn Treebank often leave out punctuation.)
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from regard.metrics.classification import Counts
from regard.metrics.score import Score, check_paired


class Parse(NamedTuple):
    """The head of each word, from 1 and 0 for the root, and the relation to it."""

    heads: Sequence[int]
    relations: Sequence[str]


Arc = tuple[int, str]
"""The head of a word and its relation without subtype."""


def universal(relation: str) -> str:
    """A relation without its subtype: nsubj:pass -> nsubj."""
    return relation.split(":")[0]


def attachment_scores(hypotheses: Sequence[Parse], references: Sequence[Parse]) -> dict[str, Score]:
    """`uas` and `las` in percent, over all words."""
    arcs = list(paired_arcs(hypotheses, references))
    heads = sum(arc[0] == gold[0] for arc, gold in arcs)
    both = sum(arc == gold for arc, gold in arcs)
    signature = f"CoNLL 2018, punctuation included, {len(arcs):,} words"
    labelled = signature.replace("included,", "included, subtypes ignored,")
    total = max(1, len(arcs))
    return {"uas": Score("UAS", 100 * heads / total, signature), "las": Score("LAS", 100 * both / total, labelled)}


def counts_by_relation(hypotheses: Sequence[Parse], references: Sequence[Parse]) -> dict[str, Counts]:
    """Counts of every relation, by its name; an arc is correct if head and relation are."""
    arcs = list(paired_arcs(hypotheses, references))
    predicted, gold = Counter(arc[1] for arc, _ in arcs), Counter(true[1] for _, true in arcs)
    correct = Counter(true[1] for arc, true in arcs if arc == true)
    return {name: Counts(correct[name], predicted[name], gold[name]) for name in sorted(predicted | gold)}


def paired_arcs(hypotheses: Sequence[Parse], references: Sequence[Parse]) -> Iterator[tuple[Arc, Arc]]:
    """The predicted and the true arc of every word."""
    check_paired(hypotheses, references)
    for number, (parse, gold) in enumerate(zip(hypotheses, references, strict=True), 1):
        if len(parse.heads) != len(gold.heads):
            raise ValueError(f"sentence {number}: {len(parse.heads)} heads for {len(gold.heads)} words")
        yield from zip(arcs_of(parse), arcs_of(gold), strict=True)


def arcs_of(parse: Parse) -> Iterator[Arc]:
    """The arc of every word."""
    return zip(parse.heads, map(universal, parse.relations), strict=True)
