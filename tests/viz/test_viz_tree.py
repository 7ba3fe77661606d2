"""Trees are drawn with every word under its phrase, in any script, whatever the width and the depth."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from regard.trees import Tree, leaves, parsed, to_brackets, walk, words
from regard.viz.cells import visible, width
from regard.viz.content import PhraseTree
from regard.viz.tree import arranged, outermost, tree_svg, tree_text, with_tags

MODEST = settings(max_examples=80)
WORDS = st.sampled_from(["the", "a", "注意", "é", "dog-house", "👩‍👧", ".", "x\x1b[31m"])
LEAVES = st.builds(Tree, st.just("XX"), st.just(()), WORDS)
PHRASES = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        Tree, st.sampled_from(["S", "NP", "WHADVP"]), st.lists(inner, min_size=1, max_size=4).map(tuple)
    ),
    max_leaves=10,
)
TREES = PHRASES.map(lambda phrase: Tree("ROOT", (phrase,)))


def one(text: str) -> Tree:
    (tree,) = parsed([text])
    return tree


CAT = one("(ROOT (S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT a) (NN dog))) (. .)))")


def test_a_tree_as_it_is_shown_in_the_file() -> None:
    assert tree_text(CAT, 80).splitlines() == [
        "             S",
        "   ┌─────────┴┬────────┐",
        "   │          VP       │",
        "   │       ┌──┴──┐     │",
        "   NP      │     NP    │",
        " ┌─┴──┐    │   ┌─┴─┐   │",
        "the  cat  saw  a  dog  .",
    ]
    assert tree_text(CAT, 20).splitlines() == ["S", "├─ NP  the cat", "├─ VP", "│  ├─ saw", "│  └─ NP  a dog", "└─ ."]


def test_wide_characters_take_two_columns_and_wide_names_make_room() -> None:
    drawn = tree_text(one("(ROOT (IP (NP (NN 猫)) (VP (VV 看见) (WHADVP (X 一)) (NP (NN 狗)))))"), 80).splitlines()
    assert drawn[-1] == "猫  看见    一    狗"
    assert drawn[-3] == "NP   │    WHADVP  NP"
    assert drawn[-2] == "│    │      │     │"


def test_several_phrases_or_a_word_alone_and_nothing() -> None:
    assert tree_text(one("(ROOT (NP (X a)) (NP (X b)))"), 80).splitlines()[0] == " ROOT"
    assert tree_text(one("(ROOT (X a))"), 80) == "a"
    assert tree_text(Tree("ROOT"), 80) == ""


@MODEST
@given(TREES)
def test_every_name_stands_where_it_was_put_and_nothing_overlaps(tree: Tree) -> None:
    spots, columns = arranged(outermost(tree), 2)
    assert all(spot.left >= 0 and spot.left + width(spot.name) <= columns for spot in spots)
    for level in range(spots[-1].level + 1):
        row = sorted((spot for spot in spots if spot.level == level), key=lambda spot: spot.left)
        assert all(a.left + width(a.name) + 2 <= b.left for a, b in pairwise(row))
    drawn = tree_text(tree, 1000).splitlines()
    assert drawn[-1].split() == [visible(word) for word in words(tree)]
    assert len(drawn) == 2 * spots[-1].level + 1 and all(width(line) <= columns for line in drawn)
    labels = [node.label for node, opens in walk(tree) if opens and node.children and node.label != "ROOT"]
    assert sorted(re.findall(r"WHADVP|NP|S", "".join(drawn[:-1]))) == sorted(labels)


@MODEST
@given(TREES)
def test_a_narrow_drawing_and_a_picture_hold_every_word_and_phrase(tree: Tree) -> None:
    narrow = tree_text(tree, 0)
    shown = [part for part in re.split(r"[│├└─ \n]+", narrow) if part]
    labels = [node.label for node, opens in walk(tree) if opens and node.children and node.label != "ROOT"]
    assert sorted(shown) == sorted([*labels, *(visible(word) for word in words(tree))])
    picture = ET.fromstring(tree_svg(tree))
    texts = [element.text for element in picture.iter() if element.tag.endswith("text")]
    assert sorted(map(str, texts)) == sorted(shown)
    assert len([element for element in picture.iter() if element.tag.endswith("path")]) == len(texts) - 1
    assert len(leaves(tree)) == len(texts) - len(labels)


def test_trees_deeper_than_python_calls_go_are_drawn() -> None:
    deep = Tree("X", (), "x")
    for _ in range(2000):
        deep = Tree("A", (deep,))
    assert tree_text(deep, 80).count("A") == 2000
    assert tree_text(deep, 0).count("A") == 2000
    assert tree_svg(deep).count("<path") == 2000


def test_parts_of_speech_are_drawn_as_phrases() -> None:
    (tree,) = parsed(["(ROOT (S (NP (NNP John)) (VP (VBZ sees) (NP (NNP Bill)))))"])
    tagged = with_tags(tree)
    assert to_brackets(tagged) == "(ROOT (S (NP (NNP ( John))) (VP (VBZ ( sees)) (NP (NNP ( Bill))))))"
    assert [word for word in ("NNP", "VBZ", "John") if word in tree_svg(tagged)] == ["NNP", "VBZ", "John"]
    assert "NNP" not in tree_svg(tree) and "NNP" in PhraseTree(tree, "", tagged=True).draw(80)
