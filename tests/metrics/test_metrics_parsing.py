"""Brackets against what EVALB itself prints, and against a slow count after section 7 of its README."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.metrics.classification import Counts
from regard.metrics.parsing import BracketCounts, bracket_counts, bracket_scores, brackets
from regard.trees import Tree, from_tokens, linearize, normalize, parsed, words

MODEST = settings(max_examples=100)
LABELS = st.sampled_from(["S", "NP", "NP-SBJ", "PP=2", "ADVP", "PRT", "TOP"])
LEAVES = st.builds(Tree, st.sampled_from(["NN", "VB", ",", ".", "-NONE-"]), st.just(()), st.sampled_from(["a", "b"]))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.builds(Tree, LABELS, st.lists(inner, min_size=1, max_size=4).map(tuple)),
    max_leaves=9,
).map(lambda tree: Tree("ROOT", (tree,)))

GOLD = """
(TOP (S (NP-SBJ (DT The) (NN cat)) (VP (VBD sat) (PRT (RP down)) (PP-LOC (IN on) (NP (DT the) (NN mat)))) (. .)))
(TOP (S (`` ``) (NP (PRP I)) (VP (VBD left) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))) ('' '') (. .)))
(TOP (NP (NP (DT the) (NN man))))
(TOP (S (NP=2 (NNS Dogs)) (, ,) (ADVP (RB often)) (, ,) (VP (VBP bark)) (. .)))
(TOP (FRAG (NP (NN Rain)) (. .)))
(TOP (X (: --)))
(TOP (S (NP (PRP It)) (VP (VBZ is) (ADJP (JJ good))) (. !)))
"""
FOUND = """
(TOP (S (NP (DT The) (NN cat)) (VP (VBD sat) (ADVP (RB down)) (PP (IN on) (NP (DT the) (NN mat) (. .))))))
(TOP (S (`` ``) (NP (PRP I)) (VP (VBN left)) ('' '') (. .)))
(TOP (NP (NP (NP (DT the) (NN man)))))
(TOP (S (NP (NNS Dogs) (, ,) (ADVP (RB often) (, ,))) (VP (VB bark)) (. .)))
(TOP (FRAG (NP (NNP Snow)) (. .)))
(TOP (X (: --)))
(TOP (S (NP (PRP It)) (VP (VBZ is) (ADJP (JJ good))) (NN !)))
"""


def read(text: str) -> list[Tree]:
    return list(parsed(text.splitlines()))


def retagged(tree: Tree, tags: list[str]) -> Tree:
    if not tree.children:
        return Tree(tags.pop(0), (), tree.word)
    return Tree(tree.label, tuple(retagged(child, tags) for child in tree.children))


def pruned(tree: Tree) -> Tree | None:
    """Section 7, 1): deleted words go, and then whatever dominates nothing."""
    if not tree.children:
        return None if tree.label in (",", ".", "-NONE-") else tree
    children = [kept for kept in map(pruned, tree.children) if kept]
    return Tree(tree.label, tuple(children)) if children else None


def spans(tree: Tree, start: int) -> tuple[list[tuple[str, int, int]], int]:
    """The phrases of a pruned tree with their spans, and where it ends."""
    if not tree.children:
        return [], start + 1
    found, end = [], start
    for child in tree.children:
        inner, end = spans(child, end)
        found += inner
    label = tree.label.replace("=", "-").split("-")[0]
    return found + [(label, start, end)] * (label not in ("TOP", "ROOT")), end


def slow(found: Tree, gold: Tree) -> tuple[str, int, int, int]:
    ours, theirs = pruned(found), pruned(gold)
    if ours is None:
        return "skipped", 0, 0, 0
    if theirs is None or words(ours) != words(theirs):
        return "errors", 0, 0, 0
    left, right = spans(theirs, 0)[0], 0
    total = len(left)
    for label, start, end in spans(ours, 0)[0]:
        same = ("ADVP", "PRT") if label in ("ADVP", "PRT") else (label,)
        match = next((bracket for bracket in left if bracket[0] in same and bracket[1:] == (start, end)), None)
        if match:
            left.remove(match)
            right += 1
    return "valid", right, len(spans(ours, 0)[0]), total


def test_the_numbers_are_those_that_evalb_prints() -> None:
    """From evalb -p COLLINS.prm: a complete match though a full stop moved, a doubled NP, an ADVP too far left, and
    three sentences that do not count: another word, nothing but punctuation, and punctuation tagged as a noun."""
    counts = bracket_counts(read(FOUND), read(GOLD))
    assert counts == BracketCounts(
        Counts(14, 16, 15), valid=4, complete=2, errors=2, skipped=1, tagged=14, tagged_correct=11
    )
    scores = bracket_scores(read(FOUND), read(GOLD))
    printed = {"precision": 87.50, "recall": 93.33, "f1": 90.32, "complete": 50.00, "tagging": 78.57}
    assert {name: round(score.value, 2) for name, score in scores.items()} == printed
    assert scores["f1"].signature == "EVALB, COLLINS.prm, 4 sentences, 2 errors and 1 skipped left out"
    by_sentence = [bracket_counts([a], [b]).brackets for a, b in zip(read(FOUND), read(GOLD), strict=True)]
    assert by_sentence[:4] == [Counts(6, 6, 6), Counts(3, 3, 3), Counts(2, 3, 2), Counts(3, 4, 4)]


@MODEST
@given(TREES, TREES)
def test_counts_equal_the_slow_ones(found: Tree, gold: Tree) -> None:
    for other in (gold, found):
        counts = bracket_counts([found], [other])
        state, *numbers = slow(found, other)
        assert getattr(counts, state) == 1 and counts.valid + counts.errors + counts.skipped == 1
        assert [counts.brackets.correct, counts.brackets.predicted, counts.brackets.gold] == numbers


@MODEST
@given(TREES, st.lists(LABELS, min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_counts_of_trees_over_the_same_words_equal_the_slow_ones(gold: Tree, labels: list[str], draw: Random) -> None:
    """Other trees over the gold words: what they share is seldom nothing."""
    tokens = linearize(gold, "tags")
    changed = [token if draw.random() > 0.2 else token[0] + draw.choice(labels) for token in tokens]
    keep = [new if old[0] in "()" else old for old, new in zip(tokens, changed, strict=True)]
    found = from_tokens(keep, words(gold)).tree
    state, *numbers = slow(found, gold)
    counts = bracket_counts([found], [gold])
    assert getattr(counts, state) == 1 and state != "errors"
    assert [counts.brackets.correct, counts.brackets.predicted, counts.brackets.gold] == numbers


@MODEST
@given(TREES)
def test_a_tree_without_tags_is_judged_with_those_of_the_gold_tree(gold: Tree) -> None:
    clean = normalize(gold)
    if clean is not None:
        untagged = retagged(clean, ["XX"] * len(words(clean)))
        tagged, without = bracket_counts([clean], [gold]), bracket_counts([untagged], [gold])
        assert (without.brackets, without.complete, without.tagged) == (tagged.brackets, tagged.complete, 0)
        assert tagged.tagged == tagged.tagged_correct
        assert tagged.brackets.f1 == 1.0 or not tagged.brackets.gold


def test_missing_tags_are_wrong_where_others_are_given() -> None:
    (gold,) = read("(ROOT (S (NP (NN a)) (VP (VB b)) (. c)))")
    (found,) = read("(ROOT (S (NP (NN a)) (VP (XX b)) (XX c)))")
    counts = bracket_counts([found], [gold])
    assert counts.brackets == Counts(3, 3, 3) and (counts.tagged, counts.tagged_correct) == (2, 1)
    assert "tagging" not in bracket_scores(read("(ROOT (S (XX a) (XX b) (XX c)))"), [gold])


def test_missing_tags_beside_traces_are_those_of_the_gold_tree() -> None:
    (gold,) = read("(ROOT (S (NP (NN a)) (VP (VB b) (, ,) (NP (-NONE- *)))))")
    (found,) = read("(ROOT (S (NP (XX a)) (-NONE- *) (VP (XX b) (XX ,))))")
    counts = bracket_counts([found], [gold])
    assert (counts.valid, counts.errors, counts.brackets) == (1, 0, Counts(3, 3, 3))


def test_brackets_by_hand() -> None:
    (tree,) = read("(S (NP (DT the) (NN cat)) (VP (VBD sat)) (. .))")
    assert brackets(tree) == {("S", 0, 3): 1, ("NP", 0, 2): 1, ("VP", 2, 3): 1}
    (tree,) = read("(NP (NP (NN a)))")
    assert brackets(tree) == {("NP", 0, 1): 2}


def test_depth_is_no_limit() -> None:
    deep = Tree("NN", (), "a")
    for _ in range(5000):
        deep = Tree("S", (deep,))
    assert bracket_counts([deep], [deep]).brackets == Counts(5000, 5000, 5000)


def test_lists_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match="7 hypotheses for 0 references"):
        bracket_counts(read(FOUND), [])
