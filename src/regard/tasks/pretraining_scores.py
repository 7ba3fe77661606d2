"""Scores of BERT pretraining: accuracy and perplexity of masked or next tokens, accuracy of next-sentence prediction.

With random negatives, an input of one sentence always gets a second text of another document, so more than half of the
pairs are of two documents. The accuracy of next-sentence prediction is compared with that of always predicting the more
frequent answer. An input without a second text does not count.

M masked tokens or inputs, V vocabulary or the two classes.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from regard.data.arrays import Array
from regard.data.batch import IGNORE
from regard.data.pretraining import RANDOM_NEXT
from regard.data.pretraining_batches import Masking, NextTokens, Objective
from regard.data.settings import DocumentDataSettings
from regard.metrics.score import Score, perplexity
from regard.training.advice import Advice

OBJECTIVES: dict[type[Objective], str] = {Masking: "masked", NextTokens: "next token"}
"""The predicted tokens, in the names of scores."""
NEGATIVE_PAIRS = {"random": "of two documents", "document": "of two places of a document", "swapped": "swapped"}
"""The pairs in which the second text does not follow the first, in words."""
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
    """Inputs whose second text does not follow the first."""

    def __add__(self, other: "Answers") -> "Answers":
        return Answers(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def judge(logits: Tensor, labels: Tensor) -> tuple[float, int, int]:
    """-log p of the labels, correct predictions, and number of labels: logits (M, V), labels (M,)."""
    labelled = labels != IGNORE
    nll = F.cross_entropy(logits.float(), labels, ignore_index=IGNORE, reduction="sum")
    return float(nll), int(((logits.argmax(dim=-1) == labels) & labelled).sum()), int(labelled.sum())


def check_next_labels(labels: Array, data: DocumentDataSettings) -> tuple[str, list[Advice]]:
    """The share of pairs whose second text does not follow the first; advice if there are few others, or few pairs."""
    pairs = labels[labels != IGNORE]
    share = float((pairs == RANDOM_NEXT).mean()) if len(pairs) else 0.0
    finding = f"{share:.1%} of {len(pairs):,} pairs are {NEGATIVE_PAIRS[data.negatives]}; always the more frequent "
    finding += f"answer is right in {max(share, 1 - share):.1%}"
    single = 1 - len(pairs) / len(labels)
    if single:
        finding += f"; {single:.1%} of the inputs have no second text"
    if share <= MAX_RANDOM_NEXT and single <= MAX_RANDOM_NEXT:
        return finding, []
    effect = "gets a second text of another document" if data.negatives == "random" else "has no second text"
    problem = f"most inputs have one sentence only, which {effect}"
    remedy = f"raise data.max_length (now {data.max_length}), join short documents, or write data.next_sentence=false"
    return finding, [Advice(problem, remedy)]


def scores_of(
    answers: Answers, objective: type[Objective] = Masking, how: str = "", negatives: str = "random"
) -> list[Score]:
    """Accuracies in percent and the perplexity of the predicted tokens."""
    how = f"; {how}" if how else ""
    name, words = OBJECTIVES[objective], f"{answers.words:,} words{how}"
    scores = [
        Score(f"{name} accuracy", 100 * answers.correct / max(1, answers.words), words),
        Score(f"{name} perplexity", perplexity(answers.nll, max(1, answers.words)), words),
    ]
    if answers.inputs:
        share = answers.random_next / answers.inputs
        pairs = f"{answers.inputs:,} pairs, {share:.1%} of them {NEGATIVE_PAIRS[negatives]}{how}"
        scores += [
            Score("next sentence accuracy", 100 * answers.next_correct / answers.inputs, pairs),
            Score("next sentence majority", 100 * max(share, 1 - share), "accuracy of always the more frequent answer"),
        ]
    return scores
