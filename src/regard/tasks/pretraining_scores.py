"""Scores of BERT pretraining: accuracy and perplexity of masked tokens, accuracy of next-sentence prediction.

An input of one sentence always gets a second text of another document, so more than half of the pairs are of two
documents. The accuracy of next-sentence prediction is compared with that of always predicting the more frequent answer.

M masked tokens or inputs, V vocabulary or the two classes.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from regard.data.arrays import Array
from regard.data.batch import IGNORE
from regard.data.pretraining import RANDOM_NEXT
from regard.metrics.score import Score, perplexity
from regard.training.advice import Advice

MAX_RANDOM_NEXT = 0.7
"""Share of the pairs of two documents that is usual; it is 0.5 to 0.57 with inputs of 64 tokens or more."""


@dataclass(frozen=True)
class Answers:
    """Results of both objectives on some documents: summed -log p, correct predictions, and number of targets."""

    nll: float = 0.0
    correct: int = 0
    words: int = 0
    next_nll: float = 0.0
    next_correct: int = 0
    inputs: int = 0
    random_next: int = 0
    """Inputs whose second text is of another document."""

    def __add__(self, other: "Answers") -> "Answers":
        return Answers(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def judge(logits: Tensor, labels: Tensor) -> tuple[float, int, int]:
    """-log p of the labels, correct predictions, and number of labels: logits (M, V), labels (M,)."""
    labelled = labels != IGNORE
    nll = F.cross_entropy(logits.float(), labels, ignore_index=IGNORE, reduction="sum")
    return float(nll), int(((logits.argmax(dim=-1) == labels) & labelled).sum()), int(labelled.sum())


def check_next_labels(labels: Array, max_length: int) -> tuple[str, list[Advice]]:
    """The share of pairs of two documents; advice if there are few others."""
    share = float((labels == RANDOM_NEXT).mean())
    finding = f"{share:.1%} of {len(labels):,} pairs are of two documents; always the more frequent answer is right in "
    finding += f"{max(share, 1 - share):.1%}"
    if share <= MAX_RANDOM_NEXT:
        return finding, []
    problem = "most inputs have one sentence only, which gets a second text of another document"
    remedy = f"raise data.max_length (now {max_length}), join short documents, or write data.next_sentence=false"
    return finding, [Advice(problem, remedy)]


def scores_of(answers: Answers, how: str = "") -> list[Score]:
    """Accuracies in percent and the perplexity of masked tokens."""
    how = f"; {how}" if how else ""
    words = f"{answers.words:,} words{how}"
    scores = [
        Score("masked accuracy", 100 * answers.correct / max(1, answers.words), words),
        Score("masked perplexity", perplexity(answers.nll, max(1, answers.words)), words),
    ]
    if answers.inputs:
        share = answers.random_next / answers.inputs
        pairs = f"{answers.inputs:,} pairs, {share:.1%} of them of two documents{how}"
        scores += [
            Score("next sentence accuracy", 100 * answers.next_correct / answers.inputs, pairs),
            Score("next sentence majority", 100 * max(share, 1 - share), "accuracy of always the more frequent answer"),
        ]
    return scores
