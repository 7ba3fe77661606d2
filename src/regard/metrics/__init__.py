"""How good an output is: lists in, a number and its signature out."""

from regard.metrics.score import Score, exact_match, perplexity
from regard.metrics.significance import Comparison, compare
from regard.metrics.translation import bleu, chrf, corpus_scores, ter

__all__ = ["Comparison", "Score", "bleu", "chrf", "compare", "corpus_scores", "exact_match", "perplexity", "ter"]
