"""Maximum spanning tree of a sentence: the best set of heads that is a tree with one root (Chu and Liu, Edmonds).

    y* = argmax_y  sum_i s(i, y_i)        over all y in which every word leads to the root, and one word has it as head

If every word takes its best head, the result may have cycles. The algorithm (Chu and Liu 1965; Edmonds 1967; for
parsing McDonald et al. 2005) takes the best heads; if there is a cycle C, it makes one node c of it and solves the
smaller problem:

    s'(v, c) = max_{u in C} s(v, u)                       a word outside depends on the best word of the cycle
    s'(c, v) = max_{u in C} s(u, v) - s(u, head of u)     the cycle is broken at u, which takes v as its head instead

One root: a constant is subtracted from all scores of the root as a head. It is larger than the difference of any two
trees, so the best tree uses the root as few times as possible, which is once.

W words; node 0 is the root and node i word i. s has a row for each word and a column for each head.
"""

import numpy as np
import numpy.typing as npt

from regard.trees import find_cycle

Array = npt.NDArray[np.float64]


def best_tree(scores: Array) -> list[int]:
    """s (W, W + 1), where s[i, j] scores node j as the head of word i + 1 -> the head of each word. A word is never its
    own head, whatever its score."""
    size = len(scores)
    if not size:
        return []
    square = np.full((size + 1, size + 1), -np.inf)
    square[1:] = scores
    np.fill_diagonal(square, -np.inf)
    finite = square[1:][np.isfinite(square[1:])]
    square[1:, 0] -= 1 + size * (finite.max() - finite.min())
    return arborescence(square)[1:]


def greedy_heads(scores: Array) -> list[int]:
    """s (W, W + 1) -> the best head of each word by itself; together they need not be a tree."""
    own = np.eye(len(scores), len(scores) + 1, 1, dtype=np.bool_)
    return [int(head) for head in np.where(own, -np.inf, scores).argmax(axis=1)] if len(scores) else []


def arborescence(scores: Array) -> list[int]:
    """s (N, N) -> the head of each node in the best tree with root 0; the root has no head and gets -1."""
    heads = [-1, *(int(head) for head in scores[1:].argmax(axis=1))]
    cycle = find_cycle(heads)
    if not cycle:
        return heads
    outside = [node for node in range(len(scores)) if node not in cycle]
    entering = scores[cycle][:, outside] - scores[cycle, [heads[node] for node in cycle]][:, None]
    leaving = scores[outside][:, cycle]
    contracted = np.full((len(outside) + 1, len(outside) + 1), -np.inf)  # the cycle is the last node
    contracted[:-1, :-1] = scores[outside][:, outside]
    contracted[-1, :-1], contracted[:-1, -1] = entering.max(axis=0), leaving.max(axis=1)
    smaller = arborescence(contracted)
    for index, node in enumerate(outside[1:], 1):
        head = smaller[index]
        heads[node] = outside[head] if head < len(outside) else cycle[int(leaving[index].argmax())]
    heads[cycle[int(entering[:, smaller[-1]].argmax())]] = outside[smaller[-1]]
    return heads
