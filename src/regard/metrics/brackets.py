"""How well sentences are parsed: labelled brackets as EVALB counts them, with the parameters of Collins 1997.

    (S (NP (DT the) (NN cat)) (VP (VBD sat)) (. .))     ->     (S, 0, 3), (NP, 0, 2), (VP, 2, 3)

A bracket is a phrase's label, its first word and the one after its last. With those of a sentence as bags, in which a
bracket stands as often as the tree has it,

    right = |found n gold|,     precision = right / |found|,     recall = right / |gold|,     F1 of the two

summed over all sentences (PARSEVAL, Black et al. 1991). What counts is what EVALB and its COLLINS.prm have settled
(Sekine and Collins 1997, README sections 6 and 7):

- words tagged , : `` '' . or -NONE- are taken out before spans are counted, and phrases that held nothing else
- the bracket around a sentence does not count, whatever it is called, nor do parts of speech, which are no brackets
- labels end before "-" or "=": functions and indices do not count
- ADVP and PRT are the same
- a sentence is a complete match if all its brackets are found and no others
- a sentence whose words, of those that are left, are not those of the gold tree is an error, and one without any is
  skipped: neither counts. A word tagged as punctuation in one tree alone makes such an error

A word that a parser tags XX, because it gives no parts of speech, is given the gold one, or punctuation would stay.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from regard.metrics.classification import Counts
from regard.metrics.score import Score, check_paired
from regard.trees import OUTER, TRACE, UNTAGGED, Tree, leaves, walk

DELETED = (TRACE, ",", ":", "``", "''", ".")
SAME = {"PRT": "ADVP"}

Bracket = tuple[str, int, int]


@dataclass(frozen=True)
class BracketCounts:
    """Everything counted over a corpus; the scores follow from it."""

    brackets: Counts
    valid: int
    complete: int
    errors: int
    skipped: int
    tagged: int
    tagged_right: int

    def scores(self) -> dict[str, Score]:
        """`precision`, `recall`, `f1`, `complete`, and `tagging` where there were tags to judge, as percentages."""
        left_out = f", {self.errors} errors and {self.skipped} skipped left out" if self.errors + self.skipped else ""
        signature = f"EVALB, COLLINS.prm, {self.valid:,} sentences{left_out}"
        found = self.brackets.scores(signature)
        complete = 100.0 * self.complete / self.valid if self.valid else 0.0
        found["complete"] = Score("complete match", complete, signature)
        if self.tagged:
            value = 100.0 * self.tagged_right / self.tagged
            found["tagging"] = Score("tagging accuracy", value, f"{self.tagged:,} words, no punctuation{left_out}")
        return found


def bracket_counts(hypotheses: Sequence[Tree], references: Sequence[Tree]) -> BracketCounts:
    """The brackets, complete matches and tags of parsed sentences against their gold trees."""
    check_paired(hypotheses, references)
    total: Counter[str] = Counter()
    for found, gold in zip(hypotheses, references, strict=True):
        total.update(_sentence(found, gold))
    brackets = Counts(total["right"], total["found"], total["gold"])
    names = ("valid", "complete", "errors", "skipped", "tagged", "tagged_right")
    return BracketCounts(brackets, *(total[name] for name in names))


def bracket_scores(hypotheses: Sequence[Tree], references: Sequence[Tree]) -> dict[str, Score]:
    """What EVALB prints under "All": `precision`, `recall`, `f1`, `complete` and `tagging`."""
    return bracket_counts(hypotheses, references).scores()


def brackets(tree: Tree, tags: Sequence[str] | None = None) -> Counter[Bracket]:
    """The brackets of a tree that count, each as often as it stands there; `tags` stand in for the tree's own."""
    given = iter(tags if tags is not None else [leaf.label for leaf in leaves(tree)])
    found: Counter[Bracket] = Counter()
    starts: list[int] = []
    place = 0  # of the next word, counted without those taken out
    for node, opens in walk(tree):
        if not node.children:
            place += next(given) not in DELETED
        elif opens:
            starts.append(place)
        else:
            start, label = starts.pop(), evalb_label(node.label)
            if start < place and label not in OUTER and label not in DELETED:
                found[SAME.get(label, label), start, place] += 1
    return found


def _sentence(found: Tree, gold: Tree) -> dict[str, int]:
    """What one sentence adds to each count."""
    words, gold_words = leaves(found), leaves(gold)
    gold_tags = [leaf.label for leaf in gold_words]
    tags = _tags(words, [tag for tag in gold_tags if tag != TRACE])
    kept = [(leaf, tag) for leaf, tag in zip(words, tags, strict=True) if tag not in DELETED]
    gold_kept = [leaf for leaf in gold_words if leaf.label not in DELETED]
    if not kept:
        return {"skipped": 1}
    if [leaf.word for leaf, _ in kept] != [leaf.word for leaf in gold_kept]:
        return {"errors": 1}
    ours, theirs = brackets(found, tags), brackets(gold)
    counted = {"right": (ours & theirs).total(), "found": ours.total(), "gold": theirs.total()}
    judged = [leaf.label == true.label for (leaf, _), true in zip(kept, gold_kept, strict=True)]
    if all(leaf.label == UNTAGGED for leaf in words):
        judged = []
    return counted | {
        "valid": 1, "complete": int(ours == theirs), "tagged": len(judged), "tagged_right": sum(judged),
    }  # fmt: skip


def _tags(words: Sequence[Tree], gold_tags: Sequence[str]) -> list[str]:
    """The tags of some words, the gold one for XX where the sentences are equally long without their traces."""
    places = [place for place, leaf in enumerate(words) if leaf.label != TRACE]
    tags = [leaf.label for leaf in words]
    if len(places) == len(gold_tags):
        for place, true in zip(places, gold_tags, strict=True):
            tags[place] = true if tags[place] == UNTAGGED else tags[place]
    return tags


def evalb_label(label: str) -> str:
    """Cut a label before "-" or "=", as EVALB does; unlike `trees.bare`, a label that begins so becomes ""."""
    return label.split("-")[0].split("=")[0]
