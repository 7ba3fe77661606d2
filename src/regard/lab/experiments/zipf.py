"""Zipf's law, and n-grams of one to seven words.

Order the words of a text by frequency. Zipf's law says that the word of rank r has the frequency

    f(r) = C / r^a,   a about 1,   log f = log C - a log r

so a plot with two logarithmic axes is a straight line of slope -a. A few words make up most of a text, and most words
are rare. Word pairs and triples are ordered alike, with a flatter slope: most of them occur once. That is why long
n-grams need much text: a model of seven words has rarely seen the six words before. The n-gram models here are smoothed
(modified Kneser-Ney), so a longer one falls back to a shorter one where it has no counts.
"""

import math
import statistics
from collections import Counter

import numpy as np
import torch

from regard.lab.english import split_pages, words_of
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.models.ngram import NGram


def slope(counts: list[int]) -> float:
    """Slope of log frequency over log rank, least squares with equal weight for equal steps of log rank.

    The first few words and the rare ones are off the line in every text, so ranks 10 to 1000 are fitted.
    """
    ranks = np.unique(np.geomspace(10, 1000, 50).round().astype(int))
    return float(np.polyfit(np.log(ranks), np.log([counts[rank - 1] for rank in ranks]), 1)[0])


def measure(seed: int, effort: Effort, record: Record) -> None:
    train, test = ([word for page in part for word in words_of(page)] for part in split_pages(seed, 0.1))
    for name, n, last in (("words", 1, 2000), ("pairs", 2, 10_000), ("triples", 3, 10_000)):
        counts = sorted(Counter(zip(*(train[k:] for k in range(n)), strict=False)).values(), reverse=True)
        for rank in np.unique(np.geomspace(1, last, 20).round().astype(int)):
            record("frequency", name, int(rank), counts[rank - 1] / len(train))
        record("slope", "slope", name, -slope(counts))
        record("slope", "once", name, counts.count(1) / len(counts))
    vocabulary = {word: number for number, word in enumerate(sorted({*train, *test}))}
    ids, test_ids = (torch.tensor([vocabulary[word] for word in text]) for text in (train, test))
    for share in (0.05, 0.2, 1.0):
        part = ids[: round(len(ids) * share)].numpy()
        for order in (1, 2, 3, 5, 7):
            log_probs = NGram.count(part, order, len(vocabulary)).log_probs(test_ids)
            record("perplexity", str(share), order, math.exp(-float(log_probs.mean())))


def judge(results: Results) -> Verdict:
    words = results.values("slope", "slope", "words")
    few, much = (
        [1 - high / low for low, high in zip(*(results.values("perplexity", share, n) for n in (2, 7)), strict=True)]
        for share in ("0.05", "1.0")
    )
    near_one = min(words) > 0.7 and max(words) < 1.3
    return Verdict(
        decide(near_one and above(much, few), not near_one or above(few, much)),
        {"few": statistics.fmean(few), "much": statistics.fmean(much)},
    )
