"""Parsing metrics: brackets of phrases, and attachment scores of dependencies.

Labelled brackets are those of EVALB with the parameters of Collins 1997.

    (S (NP (DT the) (NN cat)) (VP (VBD sat)) (. .))     ->     (S, 0, 3), (NP, 0, 2), (VP, 2, 3)

A bracket is the label of a phrase, its first word and the one after its last. With the brackets of a sentence as
multisets,

    correct = |predicted n gold|,   precision = correct / |predicted|,   recall = correct / |gold|,   F1 of the two

summed over all sentences (PARSEVAL, Black et al. 1991). The rules are those of EVALB and its COLLINS.prm
(Sekine and Collins 1997, README sections 6 and 7):

- words tagged , : `` '' . or -NONE- are removed before spans are counted, and phrases without other words
- the bracket around a sentence does not count, and parts of speech are not brackets
- labels end before "-" or "=": functions and indices do not count
- ADVP and PRT are equal
- a sentence is a complete match if all its brackets are predicted and no others
- a sentence whose remaining words differ from those of the gold tree is an error, and one without any is skipped:
  neither counts. A word tagged as punctuation in only one tree makes such an error

A word that a parser tags XX, because it predicts no parts of speech, gets the gold tag, so that punctuation is removed.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regard.messages import Message, join_messages
from regard.metrics.classification import Counts
from regard.metrics.score import Score, check_paired
from regard.trees import OUTER, TRACE, UNTAGGED, Tree, leaves, walk

DELETED = (TRACE, ",", ":", "``", "''", ".")
SAME = {"PRT": "ADVP"}
Bracket = tuple[str, int, int]


@dataclass(frozen=True)
class BracketCounts:
    """Counts over a corpus, from which the scores are computed."""

    brackets: Counts
    valid: int
    complete: int
    errors: int
    skipped: int
    tagged: int
    tagged_correct: int

    def scores(self) -> dict[str, Score]:
        """Return `precision`, `recall`, `f1`, `complete`, and `tagging` if there are tags, as percentages."""
        omitted = Message("{errors} errors and {skipped} skipped left out", **vars(self))
        left_out = [omitted] if self.errors + self.skipped else []
        signature = join_messages(", ", [Message("EVALB, COLLINS.prm, {valid:,} sentences", **vars(self)), *left_out])
        scores = self.brackets.scores(signature)
        complete = 100.0 * self.complete / self.valid if self.valid else 0.0
        scores["complete"] = Score("complete match", complete, signature)
        if self.tagged:
            value = 100.0 * self.tagged_correct / self.tagged
            words = Message("{tagged:,} words, no punctuation", **vars(self))
            scores["tagging"] = Score("tagging accuracy", value, join_messages(", ", [words, *left_out]))
        return scores


def bracket_counts(hypotheses: Sequence[Tree], references: Sequence[Tree]) -> BracketCounts:
    """Count the brackets, complete matches and tags of parsed sentences against their gold trees."""
    check_paired(hypotheses, references)
    total: Counter[str] = Counter()
    for tree, gold in zip(hypotheses, references, strict=True):
        total.update(bracket_tally(tree, gold))
    return sum_brackets(total)


def sum_brackets(sums: Mapping[str, float]) -> BracketCounts:
    """The counts over a corpus, from the sum of the sentences' tallies."""
    total = Counter({name: int(value) for name, value in sums.items()})
    brackets = Counts(total["correct"], total["predicted"], total["gold"])
    names = ("valid", "complete", "errors", "skipped", "tagged", "tagged_correct")
    return BracketCounts(brackets, *(total[name] for name in names))


def bracket_scores(hypotheses: Sequence[Tree], references: Sequence[Tree]) -> dict[str, Score]:
    """The scores that EVALB prints under "All": `precision`, `recall`, `f1`, `complete` and `tagging`."""
    return bracket_counts(hypotheses, references).scores()


def counts_by_label(hypotheses: Sequence[Tree], references: Sequence[Tree]) -> dict[str, Counts]:
    """Counts of the brackets of every label, by label, over the sentences that are neither errors nor skipped."""
    check_paired(hypotheses, references)
    correct, predicted, gold = Counter[str](), Counter[str](), Counter[str]()
    for tree, true in zip(hypotheses, references, strict=True):
        if "valid" in bracket_tally(tree, true):
            tags = _tags(leaves(tree), [leaf.label for leaf in leaves(true) if leaf.label != TRACE])
            actual, expected = brackets(tree, tags), brackets(true)
            for counter, counted in ((correct, actual & expected), (predicted, actual), (gold, expected)):
                counter.update(label for label, _, _ in counted.elements())
    return {label: Counts(correct[label], predicted[label], gold[label]) for label in sorted(predicted | gold)}


def brackets(tree: Tree, tags: Sequence[str] | None = None) -> Counter[Bracket]:
    """Count the brackets of a tree; `tags` replace the tags of the tree."""
    leaf_tags = iter(tags if tags is not None else [leaf.label for leaf in leaves(tree)])
    counts: Counter[Bracket] = Counter()
    starts: list[int] = []
    position = 0  # of the next word, without removed words
    for node, opens in walk(tree):
        if not node.children:
            position += next(leaf_tags) not in DELETED
        elif opens:
            starts.append(position)
        else:
            start, label = starts.pop(), re.split("[-=]", node.label, maxsplit=1)[0]
            if start < position and label not in OUTER and label not in DELETED:
                counts[SAME.get(label, label), start, position] += 1
    return counts


def bracket_tally(tree: Tree, gold: Tree) -> dict[str, int]:
    """The brackets, complete matches and tags of one sentence."""
    words, gold_words = leaves(tree), leaves(gold)
    gold_tags = [leaf.label for leaf in gold_words]
    tags = _tags(words, [tag for tag in gold_tags if tag != TRACE])
    counted = [(leaf, tag) for leaf, tag in zip(words, tags, strict=True) if tag not in DELETED]
    gold_counted = [leaf for leaf in gold_words if leaf.label not in DELETED]
    if not counted:
        return {"skipped": 1}
    if [leaf.word for leaf, _ in counted] != [leaf.word for leaf in gold_counted]:
        return {"errors": 1}
    predicted, expected = brackets(tree, tags), brackets(gold)
    correct_tags = [leaf.label == true.label for (leaf, _), true in zip(counted, gold_counted, strict=True)]
    if all(leaf.label == UNTAGGED for leaf in words):
        correct_tags = []
    return {
        "correct": (predicted & expected).total(),
        "predicted": predicted.total(),
        "gold": expected.total(),
        "valid": 1,
        "complete": int(predicted == expected),
        "tagged": len(correct_tags),
        "tagged_correct": sum(correct_tags),
    }


def _tags(words: Sequence[Tree], gold_tags: Sequence[str]) -> list[str]:
    """Return the tags of words, with the gold tag for XX if the sentences are equally long without traces."""
    indices = [index for index, leaf in enumerate(words) if leaf.label != TRACE]
    tags = [leaf.label for leaf in words]
    if len(indices) == len(gold_tags):
        for index, true in zip(indices, gold_tags, strict=True):
            tags[index] = true if tags[index] == UNTAGGED else tags[index]
    return tags


# ---- dependencies
#
# UAS    unlabelled attachment score: share of the words with the right head
# LAS    labelled attachment score: share of the words with the right head and the right relation
#
# as in the CoNLL 2018 shared task (Zeman et al. 2018, section 5.1): the scores are those of its official script
# conll18_ud_eval.py, if the words are given. Punctuation counts; subtypes of relations (nsubj:pass) are ignored.
# Scores of the Penn Treebank often leave out punctuation.


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
    signature = Message("CoNLL 2018, punctuation included, {count:,} words", count=len(arcs))
    labelled = Message("CoNLL 2018, punctuation included, subtypes ignored, {count:,} words", count=len(arcs))
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
    return zip(parse.heads, map(universal, parse.relations), strict=True)
