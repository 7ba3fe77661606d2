"""The best tree is the one that trying all trees finds, and the one of networkx."""

from itertools import product

import networkx as nx  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.tasks.spanning_tree import best_tree, greedy_heads
from regard.trees import find_cycle


def is_tree(heads: tuple[int, ...] | list[int]) -> bool:
    """One word depends on the root, and every word leads to it."""
    for word in range(1, len(heads) + 1):
        steps = 0
        while word and steps <= len(heads):
            word, steps = heads[word - 1], steps + 1
        if word:
            return False
    return list(heads).count(0) == 1


def total(scores: np.ndarray, heads: tuple[int, ...] | list[int]) -> float:
    return float(sum(scores[word, head] for word, head in enumerate(heads)))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(words=st.integers(1, 5), spread=st.sampled_from([1e-3, 1.0, 100.0]), seed=st.integers(0, 2**32 - 1))
def test_the_best_tree_is_the_one_that_trying_all_finds(words: int, spread: float, seed: int) -> None:
    scores = spread * np.random.default_rng(seed).standard_normal((words, words + 1))
    trees = [heads for heads in product(range(words + 1), repeat=words) if is_tree(heads)]
    assert len(trees) == words ** (words - 1), "Cayley's formula, for every root"
    assert tuple(best_tree(scores)) == max(trees, key=lambda heads: total(scores, heads))


@pytest.mark.parametrize("words", [6, 12])
def test_the_best_tree_of_networkx(words: int) -> None:
    rng = np.random.default_rng(words)
    for _ in range(3):
        scores = rng.standard_normal((words, words + 1))
        best = -np.inf
        for root in range(1, words + 1):  # each word as the only root
            graph = nx.DiGraph()
            for word in range(1, words + 1):
                heads = [0] if word == root else [head for head in range(1, words + 1) if head != word]
                graph.add_weighted_edges_from((head, word, scores[word - 1, head]) for head in heads)
            tree = nx.maximum_spanning_arborescence(graph, preserve_attrs=False)
            best = max(best, sum(scores[word - 1, head] for head, word in tree.edges))
        found = best_tree(scores)
        assert is_tree(found)
        assert total(scores, found) == pytest.approx(best)


def test_cycles_inside_of_cycles() -> None:
    scores = np.array([[0, 0, 9, 1, 0], [0, 9, 0, 1, 1], [1, 8, 8, 0, 7], [0, 1, 1, 8, 0]], dtype=float)
    assert not is_tree(greedy_heads(scores))
    trees = [heads for heads in product(range(5), repeat=4) if is_tree(heads)]
    assert total(scores, best_tree(scores)) == max(total(scores, heads) for heads in trees)


def test_small_sentences_and_own_heads() -> None:
    assert best_tree(np.zeros((0, 1))) == greedy_heads(np.zeros((0, 1))) == []
    assert best_tree(np.array([[-5.0, 99.0]])) == greedy_heads(np.array([[-5.0, 99.0]])) == [0], (
        "no word is its own head"
    )
    two_roots = np.array([[5.0, 0.0, 1.0], [5.0, 2.0, 0.0]])
    assert greedy_heads(two_roots) == [0, 0] and best_tree(two_roots) == [0, 1]
    lowest = float(np.finfo(np.float32).min)
    assert best_tree(np.array([[1.0, lowest, 0.0], [0.0, 1.0, lowest]])) == [0, 1], "masked scores"


def test_equal_scores_are_a_tree_too() -> None:
    assert is_tree(best_tree(np.zeros((30, 31))))


def test_find_cycle() -> None:
    assert find_cycle([-1, 0, 1, 2]) == []
    assert sorted(find_cycle([-1, 0, 3, 2])) == [2, 3]
    assert sorted(find_cycle([-1, 2, 3, 4, 2])) == [2, 3, 4]
