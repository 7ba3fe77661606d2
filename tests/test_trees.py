"""Trees come back from brackets and tokens as they were, and out of any tokens comes a tree over the words."""

import lzma
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.data.corpora import Corpus, read_pairs
from regard.data.treebanks import is_treebank, read_trees
from regard.errors import UserError
from regard.trees import (
    Tree,
    as_pair,
    bare,
    built,
    cleaned,
    leaves,
    linearised,
    numbered,
    parsed,
    walk,
    words,
    written,
)
from regard.trees import untagged as remove_tags

MODEST = settings(deadline=None, max_examples=150, derandomize=True, database=None)
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


def test_a_file_of_trees_is_a_corpus_of_sentences_and_tokens(tmp_path: Path) -> None:
    traces = "( (NP-SBJ (-NONE- *)) )\n"
    for name, opener in (("some.ptb", open), ("some.mrg.xz", lzma.open)):
        with opener(tmp_path / name, "wt", encoding="utf-8") as stream:
            stream.write(SEVERAL_LINES + traces)
        corpus = Corpus(file=name)
        pairs, trees = list(read_pairs(corpus, tmp_path)), list(read_trees(corpus, tmp_path))
        assert is_treebank(corpus) and [pair[:2] for pair in pairs] == [as_pair(tree) for tree in trees]
        assert [pair.line for pair in pairs] == [2, 9, 10, 10]
        assert pairs[1][:2] == ("We try to .", "(S (NP XX )NP (VP XX (S (VP XX )VP )S )VP XX )S")
        assert pairs[2].src == "( x" and words(trees[2]) == ["-LRB-", "x"], "a model reads what people write"
    assert not is_treebank(Corpus(file="pairs.tsv")) and not is_treebank(Corpus(builtin="dates", part="valid"))
    with pytest.raises(ValidationError, match="has no columns"):
        Corpus(file="some.ptb", src_column=0)


def test_the_grammar_that_comes_along_makes_one_tree_for_a_sentence() -> None:
    corpora = [Corpus(builtin="trees", part=part) for part in ("train", "valid", "test")]
    sentences = [[tuple(words(tree)) for tree in read_trees(corpus, Path())] for corpus in corpora]
    assert [len(part) for part in sentences] == [len(set(part)) for part in sentences] == [10_000, 300, 1_000]
    assert not set(sentences[0]) & set(sentences[1]) and not set(sentences[0]) & set(sentences[2])
    assert max(map(len, sentences[0])) <= 12
    trees = list(read_trees(corpora[2], Path()))
    seen: dict[tuple[str, ...], list[str]] = {}
    for tree in trees:  # no two trees over the same parts of speech: all of it can be known
        tags = tuple(leaf.word if leaf.label in ("IN", "WP") else leaf.label for leaf in leaves(tree))
        assert seen.setdefault(tags, linearised(tree)) == linearised(tree)
    assert cleaned(tree) == tree and [pair[:2] for pair in read_pairs(corpora[2], Path())][-1] == as_pair(tree)


@MODEST
@given(st.lists(ROOTED, min_size=1, max_size=3))
def test_written_and_read_again_is_the_same(trees: list[Tree]) -> None:
    assert list(parsed(map(written, trees))) == trees
    a_bracket_a_line = " ".join(map(written, trees)).replace("(", "\n(")
    assert list(parsed(a_bracket_a_line.split("\n"))) == trees


def test_what_is_written() -> None:
    text = "(ROOT (S (NP (NN cat)) (. .)))"
    assert written(one(text)) == text
    assert written(one("((S (NN a)))")) == "( (S (NN a)))" and one("( (S (NN a)))").label == ""
    assert written(Tree("NN", (), "f(x)")) == "(NN f-LRB-x-RRB-)"
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
    assert bare(label) == expected


def test_cleaning_by_hand() -> None:
    *_, traced, _, _ = parsed(SEVERAL_LINES.splitlines())
    clean = cleaned(traced)
    assert clean == one("(ROOT (S (NP (PRP We)) (VP (VBP try) (S (VP (TO to)))) (. .)))")
    assert cleaned(one("(S (NP (NN a)))")) == one("(ROOT (S (NP (NN a))))")
    assert cleaned(one("( (NP (NN a)) (. .))")) == one("(ROOT (NP (NN a)) (. .))")
    assert cleaned(one("(ROOT (NP (NP (NN a))))")) == one("(ROOT (NP (NP (NN a))))"), "phrases of one child are kept"
    assert cleaned(one("(ROOT (S (NP (-NONE- *)) (VP (-NONE- *T*))))")) is None
    assert cleaned(one("(NN a)")) == one("(ROOT (NN a))")


@MODEST
@given(ROOTED)
def test_cleaning_takes_traces_and_functions_and_nothing_else(tree: Tree) -> None:
    clean = cleaned(tree)
    kept = [leaf for leaf in leaves(tree) if leaf.label != "-NONE-"]
    if clean is None:
        assert not kept
        return
    assert leaves(clean) == kept and clean.label == "ROOT"
    assert all(node.label in ("S", "NP", "VP", "PP", "-X-", "ROOT") for node, _ in walk(clean) if node.children)
    again = cleaned(clean)
    assert again == clean


def test_linearised_as_the_paper_shows() -> None:
    tree = one("(ROOT (S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .)))")
    assert " ".join(linearised(tree)) == "(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S"
    assert " ".join(linearised(tree, "tags")) == "(S (NP NNP )NP (VP VBZ (NP DT NN )NP )VP . )S"
    assert " ".join(linearised(tree, "words")) == "(S (NP John )NP (VP has (NP a dog )NP )VP . )S"
    with pytest.raises(ValueError, match="clean it first"):
        linearised(one("(S (NN a))"))


@MODEST
@given(ROOTED)
def test_built_undoes_linearised(tree: Tree) -> None:
    assert built(linearised(tree, "tags"), words(tree)) == (tree, False)
    untagged, repaired = built(linearised(tree), words(tree))
    assert not repaired and words(untagged) == words(tree) and linearised(untagged) == linearised(tree)
    assert {leaf.label for leaf in leaves(untagged)} == {"XX"}
    copied, repaired = built(linearised(tree, "words"), words(tree))
    assert not repaired and remove_tags(copied) == remove_tags(tree) == untagged


@MODEST
@given(TOKENS, SENTENCES)
def test_any_tokens_give_a_proper_tree_over_exactly_the_words(tokens: list[str], sentence: list[str]) -> None:
    tree, repaired = built(tokens, sentence)
    assert words(tree) == sentence and tree.label == "ROOT" and tree.children
    assert all(node.children or node.word for node, _ in walk(tree)), "no phrase is empty"
    assert repaired == (linearised(tree, "tags") != tokens), "what was said as it is needed no repair"
    assert built(linearised(tree, "tags"), sentence) == (tree, False)


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
    assert built(tokens.split(), ["a", "b", "c"]) == (one(expected), True)


def test_a_tree_needs_a_word_and_may_be_deep() -> None:
    with pytest.raises(ValueError, match="over no words"):
        built(["(S", "XX", ")S"], [])
    deep, repaired = built(["(S"] * 5000 + ["XX"], ["a"])
    assert repaired and words(deep) == ["a"] and len(linearised(deep)) == 10001
    assert words(one(written(deep))) == ["a"] and cleaned(deep) is not None
