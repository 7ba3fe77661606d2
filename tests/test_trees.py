"""Trees come back from brackets and tokens as they were, and out of any tokens comes a tree over the words."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import UserError
from regard.trees import (
    Tree,
    base_label,
    from_tokens,
    leaves,
    linearize,
    normalize,
    numbered,
    parsed,
    strip_tags,
    to_brackets,
    walk,
    words,
)

MODEST = settings(max_examples=150)
NAMES = st.sampled_from(["S", "NP", "VP", "NP-SBJ", "PP=2", "-X-", "ROOT"])
WORDS = st.text(st.characters(exclude_characters="() \t\r\n", exclude_categories=["Cs"]), min_size=1, max_size=4)
LEAVES = st.builds(Tree, st.sampled_from(["NN", "VBZ", "-LRB-", ".", "XX", "-NONE-"]), st.just(()), WORDS)
PHRASES = st.recursive(
    LEAVES,
    lambda inner: st.builds(Tree, NAMES, st.lists(inner, min_size=1, max_size=4).map(tuple)),
    max_leaves=12,
)
ROOTED = st.lists(PHRASES, min_size=1, max_size=2).map(lambda children: Tree("ROOT", tuple(children)))
TOKENS = st.lists(st.sampled_from(["(S", "(NP", "(VP", ")S", ")NP", ")VP", "XX", "XX", "NN", "(", ")"]), max_size=40)
SENTENCES = st.lists(WORDS, min_size=1, max_size=8)

SEVERAL_LINES = """
(ROOT
  (S
    (NP-SBJ (PRP It))
    (VP
      (VBZ works))
    (. .)))

( (S (NP-SBJ-1 (PRP We)) (VP (VBP try) (S (NP-SBJ (-NONE- *-1)) (VP (TO to)))) (. .)) )
(TOP (NP=2 (-LRB- -LRB-) (NN x)))(S1 (X (NN y)))
"""


def one(text: str) -> Tree:
    (tree,) = parsed(text.splitlines())
    return tree


def test_brackets_over_several_lines_and_several_on_one() -> None:
    first, second, third, fourth = parsed(SEVERAL_LINES.split("\n"))
    assert first == one("(ROOT (S (NP-SBJ (PRP It)) (VP (VBZ works)) (. .)))")
    assert (second.label, words(second)) == ("", ["We", "try", "*-1", "to", "."])
    assert (third.label, words(third)) == ("TOP", ["-LRB-", "x"])
    assert [leaf.label for leaf in leaves(fourth)] == ["NN"]
    assert [line for line, _ in numbered(SEVERAL_LINES.split("\n"))] == [2, 9, 10, 10]


@MODEST
@given(st.lists(ROOTED, min_size=1, max_size=3))
def test_written_and_read_again_is_the_same(trees: list[Tree]) -> None:
    assert list(parsed(map(to_brackets, trees))) == trees
    a_bracket_a_line = " ".join(map(to_brackets, trees)).replace("(", "\n(")
    assert list(parsed(a_bracket_a_line.split("\n"))) == trees


def test_what_is_written() -> None:
    text = "(ROOT (S (NP (NN cat)) (. .)))"
    assert to_brackets(one(text)) == text
    assert to_brackets(one("((S (NN a)))")) == "( (S (NN a)))" and one("( (S (NN a)))").label == ""
    assert to_brackets(Tree("NN", (), "f(x)")) == "(NN f-LRB-x-RRB-)"
    assert one("(NN no\u00a0break\u3000here)").word == "no\u00a0break\u3000here", "only ASCII blanks end a word"


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("(S\n(NP (NN a))", 1, "does not end"),
        ("(S (NN a)))", 1, "outside of all brackets"),
        ("(S (NN a))\nNN", 2, "outside of all brackets"),
        ("\n(S (NN a b))", 2, "'b' is a second word"),
        ("(S\n(NN a)\nb)", 3, "stands beside a bracket"),
        ("(NN a (NN b))", 1, "a bracket after the word 'a'"),
        ("(S\n(NP ) (NN a))", 2, "holds nothing"),
        ("()", 1, "holds nothing"),
    ],
)
def test_brackets_that_make_no_tree_are_named_by_their_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(UserError) as error:
        list(parsed(text.splitlines(), "bank.ptb"))
    assert error.value.problem.startswith(f"bank.ptb, line {line}: ") and problem in error.value.problem
    assert error.value.remedy


@pytest.mark.parametrize(
    ("label", "expected"),
    [("NP-SBJ-1", "NP"), ("PP=2", "PP"), ("NP-SBJ=2", "NP"), ("-LRB-", "-LRB-"), ("WHNP", "WHNP"), ("", "")],
)
def test_labels_lose_their_functions(label: str, expected: str) -> None:
    assert base_label(label) == expected


def test_cleaning_by_hand() -> None:
    *_, traced, _, _ = parsed(SEVERAL_LINES.splitlines())
    clean = normalize(traced)
    assert clean == one("(ROOT (S (NP (PRP We)) (VP (VBP try) (S (VP (TO to)))) (. .)))")
    assert normalize(one("(S (NP (NN a)))")) == one("(ROOT (S (NP (NN a))))")
    assert normalize(one("( (NP (NN a)) (. .))")) == one("(ROOT (NP (NN a)) (. .))")
    assert normalize(one("(ROOT (NP (NP (NN a))))")) == one("(ROOT (NP (NP (NN a))))"), "phrases of one child are kept"
    assert normalize(one("(ROOT (S (NP (-NONE- *)) (VP (-NONE- *T*))))")) is None
    assert normalize(one("(NN a)")) == one("(ROOT (NN a))")


@MODEST
@given(ROOTED)
def test_cleaning_takes_traces_and_functions_and_nothing_else(tree: Tree) -> None:
    clean = normalize(tree)
    kept = [leaf for leaf in leaves(tree) if leaf.label != "-NONE-"]
    if clean is None:
        assert not kept
        return
    assert leaves(clean) == kept and clean.label == "ROOT"
    assert all(node.label in ("S", "NP", "VP", "PP", "-X-", "ROOT") for node, _ in walk(clean) if node.children)
    again = normalize(clean)
    assert again == clean


def test_linearised_as_the_paper_shows() -> None:
    tree = one("(ROOT (S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .)))")
    assert " ".join(linearize(tree)) == "(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S"
    assert " ".join(linearize(tree, "tags")) == "(S (NP NNP )NP (VP VBZ (NP DT NN )NP )VP . )S"
    assert " ".join(linearize(tree, "words")) == "(S (NP John )NP (VP has (NP a dog )NP )VP . )S"
    with pytest.raises(ValueError, match="normalize it first"):
        linearize(one("(S (NN a))"))


@MODEST
@given(ROOTED)
def test_built_undoes_linearised(tree: Tree) -> None:
    assert from_tokens(linearize(tree, "tags"), words(tree)) == (tree, False)
    untagged, repaired = from_tokens(linearize(tree), words(tree))
    assert not repaired and words(untagged) == words(tree) and linearize(untagged) == linearize(tree)
    assert {leaf.label for leaf in leaves(untagged)} == {"XX"}
    copied, repaired = from_tokens(linearize(tree, "words"), words(tree))
    assert not repaired and strip_tags(copied) == strip_tags(tree) == untagged


@MODEST
@given(TOKENS, SENTENCES)
def test_any_tokens_give_a_proper_tree_over_exactly_the_words(tokens: list[str], sentence: list[str]) -> None:
    tree, repaired = from_tokens(tokens, sentence)
    assert words(tree) == sentence and tree.label == "ROOT" and tree.children
    assert all(node.children or node.word for node, _ in walk(tree)), "no phrase is empty"
    assert repaired == (linearize(tree, "tags") != tokens), "what was said as it is needed no repair"
    assert from_tokens(linearize(tree, "tags"), sentence) == (tree, False)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ("(S (NP XX )NP (VP XX XX", "(ROOT (S (NP (XX a)) (VP (XX b) (XX c))))"),  # closed at the end
        ("(S (NP XX (VP XX XX )S", "(ROOT (S (NP (XX a) (VP (XX b) (XX c)))))"),  # closed with what they stand in
        ("(S (NP XX )VP XX )NP XX )S )S", "(ROOT (S (NP (XX a) (XX b)) (XX c)))"),  # closes nothing
        ("(S (NP )NP XX (VP XX XX )VP )S", "(ROOT (S (XX a) (VP (XX b) (XX c))))"),  # holds nothing
        ("(S XX XX XX XX (NP XX )NP )S", "(ROOT (S (XX a) (XX b) (XX c)))"),  # more than there are words
        ("(S (NP XX )NP XX )S", "(ROOT (S (NP (XX a)) (XX b) (XX c)))"),  # fewer: they belong to the sentence
        ("(S XX (NP XX", "(ROOT (S (XX a) (NP (XX b) (XX c))))"),  # fewer, and a phrase is open
        ("(S XX )S XX", "(ROOT (S (XX a)) (XX b) (XX c))"),  # fewer, and the last one stands alone
        ("", "(ROOT (XX a) (XX b) (XX c))"),
    ],
)
def test_repairs_by_hand(tokens: str, expected: str) -> None:
    assert from_tokens(tokens.split(), ["a", "b", "c"]) == (one(expected), True)


def test_a_tree_needs_a_word_and_may_be_deep() -> None:
    with pytest.raises(ValueError, match="over no words"):
        from_tokens(["(S", "XX", ")S"], [])
    deep, repaired = from_tokens(["(S"] * 5000 + ["XX"], ["a"])
    assert repaired and words(deep) == ["a"] and len(linearize(deep)) == 10001
    assert words(one(to_brackets(deep))) == ["a"] and normalize(deep) is not None
