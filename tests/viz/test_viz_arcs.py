"""Arcs above words: known drawings, every word and relation shown, safe SVG."""

from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from regard.viz.arcs import arcs_svg, arcs_text, arrange
from regard.viz.cells import width
from regard.viz.content import DependencyTree

WORDS = ["Ada", "saw", "the", "old", "dog", "."]
HEADS = [2, 0, 5, 5, 2, 2]
RELATIONS = ["nsubj", "root", "det", "amod", "obj", "punct"]


def test_a_known_drawing() -> None:
    assert arcs_text(["The", "dogs", "slept", "."], [2, 3, 0, 3], ["det", "nsubj", "root", "punct"], 80).split(
        "\n"
    ) == [
        "              root",
        " ┌det─┐┌nsubj┐│┌punct┐",
        " ▼    │▼     │▼│     ▼",
        "The  dogs   slept    .",
    ]
    assert arcs_text(["猫", "睡", "了"], [2, 0, 2], ["nsubj", "root", "aux"], 80).split("\n") == [
        "       root",
        "┌nsubj┐│┌aux┐",
        "▼     │▼│   ▼",
        "猫    睡    了",
    ]
    assert arcs_text(["Yes"], [0], ["root"], 80).split("\n") == [" root", " ▼", "Yes"]
    assert arcs_text([], [], [], 80) == ""


def test_a_wide_tree_has_a_line_for_each_word() -> None:
    lines = arcs_text(WORDS, HEADS, RELATIONS, 20).split("\n")
    assert lines[0].split() == ["1", "Ada", "nsubj", "2", "saw"]
    assert lines[1].split() == ["2", "saw", "root", "0"]
    assert len(lines) == len(WORDS)


@settings(deadline=None, derandomize=True)
@given(heads=st.integers(1, 8).flatmap(lambda size: st.lists(st.integers(0, size), min_size=size, max_size=size)))
def test_any_heads_can_be_drawn(heads: list[int]) -> None:
    heads = [0 if head == word else head for word, head in enumerate(heads, 1)]
    words, relations = [f"w{word}" for word in range(len(heads))], [f"r{word}" for word in range(len(heads))]
    drawn = arcs_text(words, heads, relations, 1000)
    assert drawn.split("\n")[-1].split() == words
    assert drawn.count("▼") == len(heads), "one arrow for each word"
    assert max(map(width, drawn.split("\n"))) <= arrange(words, heads, relations).columns
    assert ElementTree.fromstring(arcs_svg(words, heads, relations)) is not None


def test_arcs_of_a_tree_do_not_touch() -> None:
    layout = arrange(WORDS, HEADS, RELATIONS)
    ends = [column for arc in layout.arcs for column in (arc.start, arc.end)] + [layout.root_columns[1]]
    assert len(set(ends)) == len(ends)
    for arc in layout.arcs:
        inside = [other for other in layout.arcs if arc.start < other.start and other.end < arc.end]
        assert all(other.level < arc.level for other in inside)
        assert arc.end - arc.start - 1 >= width(arc.name), "its name fits"


def test_text_in_a_picture_is_only_text() -> None:
    picture = arcs_svg(["<script>", "a&b"], [2, 0], ["<x>", "root"])
    assert "<script>" not in picture
    texts = [item.text for item in ElementTree.fromstring(picture).iter() if item.tag.endswith("text")]
    assert texts == ["<x>", "root", "<script>", "a&b"]


def test_a_tree_is_drawn_by_its_words_heads_and_relations() -> None:
    tree = DependencyTree(WORDS, HEADS, RELATIONS)
    assert tree.svg == arcs_svg(WORDS, HEADS, RELATIONS) == tree.to_json()["picture"]
    assert tree.draw(1000) == arcs_text(WORDS, HEADS, RELATIONS, 1000)
