"""Scores of BERT pretraining: accuracy and perplexity of masked tokens, accuracy of next-sentence prediction.

M masked tokens or inputs, V vocabulary or the two classes.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import IGNORE
from regard.metrics.score import Score, perplexity


@dataclass(frozen=True)
class Answers:
    """Results of both objectives on some documents: summed -log p, correct predictions, and number of targets."""

    nll: float = 0.0
    correct: int = 0
    words: int = 0
    next_nll: float = 0.0
    next_correct: int = 0
    inputs: int = 0

    def __add__(self, other: "Answers") -> "Answers":
        return Answers(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def judge(logits: Tensor, labels: Tensor) -> tuple[float, int, int]:
    """-log p of the labels, correct predictions, and number of labels: logits (M, V), labels (M,)."""
    labelled = labels != IGNORE
    nll = F.cross_entropy(logits.float(), labels, ignore_index=IGNORE, reduction="sum")
    return float(nll), int(((logits.argmax(dim=-1) == labels) & labelled).sum()), int(labelled.sum())


def scores_of(answers: Answers, how: str = "") -> list[Score]:
    """Accuracies in percent and the perplexity of masked tokens."""
    how = f"; {how}" if how else ""
    words = f"{answers.words:,} words{how}"
    scores = [
        Score("masked accuracy", 100 * answers.correct / max(1, answers.words), words),
        Score("masked perplexity", perplexity(answers.nll, max(1, answers.words)), words),
    ]
    if answers.inputs:
        pairs = f"{answers.inputs:,} pairs, half of them of two documents{how}"
        scores.append(Score("next sentence accuracy", 100 * answers.next_correct / answers.inputs, pairs))
    return scores
