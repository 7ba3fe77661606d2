"""The beam as a tree: every continuation that a beam search considered, its scores, and what became of it.

The search (beam.py) calls an observer after each step; `BeamRecorder` is one. It only reads, so that the hypotheses are
the same with and without it.

    node        a token, appended to the hypothesis of its parent
    log_prob    log P(y_t | Y_<t)
    total       log P(Y_<=t), the sum of log_prob from the root to the node
    score       total / lp(t), by which finished hypotheses are ranked

Shapes: B sentences, W hypotheses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from regard.decoding.beam import BeamStep, Candidates
from regard.decoding.hypothesis import NEG_INF, length_penalty

Outcome = Literal["continued", "finished", "truncated", "stopped", "pruned"]
"""continued: in the beam of the next step; finished: ended with the end symbol and counted; truncated: at the maximum
length, or because it looped; stopped: in the beam when nothing better could follow; pruned: others were better."""


@dataclass(frozen=True)
class BeamNode:
    """One candidate of one step; `parent` is the index of its node, None for the first token."""

    step: int
    parent: int | None
    token: int
    log_prob: float
    total: float
    score: float
    outcome: Outcome


@dataclass(frozen=True)
class BeamTree:
    """All nodes in the order of steps, best first in each; and the last node of each hypothesis that was found."""

    nodes: list[BeamNode]
    leaves: list[int | None]

    def path(self, node: int) -> list[int]:
        """The nodes from the first token to `node`."""
        path = [node]
        while (parent := self.nodes[path[-1]].parent) is not None:
            path.append(parent)
        return path[::-1]


class BeamRecorder:
    """An observer that keeps the search of one sentence of the batch."""

    def __init__(self, alpha: float, sentence: int = 0) -> None:
        self.alpha, self.sentence = alpha, sentence
        self.nodes: list[BeamNode] = []
        self._beam: list[int | None] = [None]  # the node of each hypothesis of the last step
        self._steps = 0

    def __call__(self, step: BeamStep) -> None:
        rows = (step.sentences == self.sentence).nonzero()[:, 0].tolist()
        if not rows:
            return  # the sentence is done and no longer in the batch
        row = rows[0]
        ended, beam = _pairs(step.ended, row), _pairs(step.beam, row)
        cut = step.cut[row].tolist() if step.cut is not None else [False] * len(beam)
        continues = step.continues[row].tolist()
        next_beam: list[int | None] = [None] * len(beam)
        penalty = float(length_penalty(torch.tensor(self._steps + 1), self.alpha))
        for (parent, token), number in _pairs(step.candidates, row).items():
            total = float(step.candidates.log_prob[row, number])
            outcome: Outcome = "finished" if (parent, token) in ended else "pruned"
            if (parent, token) in beam:
                place = beam[parent, token]
                outcome = "truncated" if cut[place] else "continued" if continues[place] else "stopped"
                next_beam[place] = len(self.nodes)
            above = self._beam[parent]
            before = self.nodes[above].total if above is not None else 0.0
            self.nodes.append(BeamNode(self._steps, above, token, total - before, total, total / penalty, outcome))
        self._beam, self._steps = next_beam, self._steps + 1

    def tree(self, outputs: Sequence[tuple[Sequence[int], bool]], eos: int) -> BeamTree:
        """The tree, with the leaf of each output of the search: its tokens, and True if it is finished."""
        tree = BeamTree(self.nodes, [])
        by_tokens = {
            tuple(self.nodes[place].token for place in tree.path(number)): number
            for number, node in enumerate(self.nodes)
            if node.outcome in ("finished", "truncated")
        }
        for tokens, finished in outputs:
            tree.leaves.append(by_tokens.get((*tokens, *[eos] * finished)))
        return tree


def _pairs(candidates: Candidates, row: int) -> dict[tuple[int, int], int]:
    """The place of each used candidate of a sentence by its parent and token, which no two share."""
    columns = (candidates.log_prob[row].tolist(), candidates.parents[row].tolist(), candidates.tokens[row].tolist())
    return {
        (parent, token): place
        for place, (total, parent, token) in enumerate(zip(*columns, strict=True))
        if total != NEG_INF
    }
