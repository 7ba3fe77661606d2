"""How good an output is: lists in, a number and its signature out."""

from regard.metrics.answers import answer_scores
from regard.metrics.brackets import bracket_scores
from regard.metrics.classification import (
    accuracy,
    binary_scores,
    macro_scores,
    matthews,
    micro_scores,
    pearson,
    spearman,
)
from regard.metrics.entities import entity_scores
from regard.metrics.score import Score, exact_match, perplexity
from regard.metrics.significance import Comparison, compare
from regard.metrics.translation import bleu, chrf, corpus_scores, ter

__all__ = [
    "Comparison",
    "Score",
    "accuracy",
    "answer_scores",
    "binary_scores",
    "bleu",
    "bracket_scores",
    "chrf",
    "compare",
    "corpus_scores",
    "entity_scores",
    "exact_match",
    "macro_scores",
    "matthews",
    "micro_scores",
    "pearson",
    "perplexity",
    "spearman",
    "ter",
]
