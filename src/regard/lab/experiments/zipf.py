"""Zipf's law, and n-grams of one to seven words.

Order the words of a text by frequency. Zipf's law says that the word of rank r has the frequency

    f(r) = C / r^a,   a about 1,   log f = log C - a log r

so a plot with two logarithmic axes is a straight line of slope -a. A few words make up most of a text, and most words
are rare. Word pairs and triples are ordered alike, with a flatter slope: most of them occur once. That is why long
n-grams need much text: a model of seven words has rarely seen the six words before. The n-gram models here are smoothed
(modified Kneser-Ney), so a longer one falls back to a shorter one where it has no counts.
"""

import math
from collections import Counter

import numpy as np
import torch

from regard.lab.english import split_pages, words_of
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.models.ngram import NGram

FIRST, LAST = 10, 1000
"""The slope is fitted between these ranks: the first few words and the rare ones are off the line in every text."""
GRAMS = {"words": (1, 2000), "pairs": (2, 10_000), "triples": (3, 10_000)}
"""n, and the last rank that is drawn."""
ORDERS = (1, 2, 3, 5, 7)
SHARES = (0.05, 0.2, 1.0)


def ranked_counts(words: list[str], n: int) -> list[int]:
    """Counts of the n-grams, the most frequent first."""
    return sorted(Counter(zip(*(words[k:] for k in range(n)), strict=False)).values(), reverse=True)


def slope(counts: list[int]) -> float:
    """Slope of log frequency over log rank, least squares with equal weight for equal steps of log rank."""
    ranks = np.unique(np.geomspace(FIRST, LAST, 50).round().astype(int))
    return float(np.polyfit(np.log(ranks), np.log([counts[rank - 1] for rank in ranks]), 1)[0])


def perplexity(order: int, train: torch.Tensor, test: torch.Tensor, vocabulary: int) -> float:
    """Perplexity of an n-gram model of `train` on `test`."""
    return math.exp(-float(NGram.count(train.numpy(), order, vocabulary).log_probs(test).mean()))


class Zipf(Experiment):
    """Rank and frequency of n-grams; perplexity of n-gram models over their order and the amount of text."""

    name = "zipf"
    topic = "text"
    title = Text("Zipf's law and long n-grams", "齐普夫定律与多元语法")
    questions = (
        Question(
            "004:231, 004:233",
            Text("Does text follow Zipf's law?", "文本服从齐普夫定律吗？"),
            Text("Most texts follow Zipf's law.", "文本数据的分布大部分遵循齐普夫定律。"),
        ),
        Question(
            "004:231",
            Text("Do longer n-grams help if there is much text?", "语料很多时，更长的 n 元语法有帮助吗？"),
            Text(
                "With a large corpus longer n-grams can make modelling simpler; some models use seven words.",
                "在有大量语料的情况下采用多元词可能使建模更加简单（有些广告模型会用到 7 元词）。",
            ),
        ),
    )
    hypothesis = Text(
        "Word frequencies fall with their rank with a slope near minus one; longer n-grams gain more with more text.",
        "词频随排名下降，双对数斜率接近负一；语料越多，更长的 n 元语法收益越大。",
    )
    varied = Text(
        "words, pairs and triples; the order of the model and the amount of text",
        "词、二元组、三元组；模型阶数与语料量",
    )
    measured = Text(
        "slope of log frequency over log rank; perplexity of the pages that were held out",
        "对数频率对对数排名的斜率；留出页面上的困惑度",
    )
    refuted_if = Text(
        "the slope of words is not near minus one, or the gain of long n-grams does not grow with the text",
        "词的斜率远离负一，或多元语法的收益不随语料增长",
    )
    panels = (
        Panel(
            "frequency",
            Text("Zipf's law", "齐普夫定律"),
            Text("rank", "排名"),
            Text("share of the text", "占文本的比例"),
            log="xy",
            names={
                "words": Text("words", "词"),
                "pairs": Text("word pairs", "二元组"),
                "triples": Text("word triples", "三元组"),
            },
        ),
        Panel(
            "slope",
            Text("slopes and n-grams that occur once", "斜率与只出现一次的比例"),
            Text("n-gram", "n 元组"),
            Text("slope, or share", "斜率或比例"),
            kind="bars",
            names={
                "words": Text("words", "词"),
                "pairs": Text("word pairs", "二元组"),
                "triples": Text("word triples", "三元组"),
                "slope": Text("minus the slope", "斜率的相反数"),
                "once": Text("share that occurs once", "只出现一次的比例"),
            },
        ),
        Panel(
            "perplexity",
            Text("n-gram models of more and more text", "语料逐渐增多的 n 元语法模型"),
            Text("order n", "阶数 n"),
            Text("perplexity", "困惑度"),
            names={
                "0.05": Text("one twentieth of the text", "二十分之一的语料"),
                "0.2": Text("one fifth of the text", "五分之一的语料"),
                "1.0": Text("all text", "全部语料"),
            },
        ),
    )
    papers = ("Zipf 1949", "Chen and Goodman 1998")
    seconds = 1

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        train, test = ([word for page in part for word in words_of(page)] for part in split_pages(seed, 0.1))
        for name, (n, last) in GRAMS.items():
            counts = ranked_counts(train, n)
            for rank in np.unique(np.geomspace(1, last, 20).round().astype(int)):
                record("frequency", name, int(rank), counts[rank - 1] / len(train))
            record("slope", "slope", name, -slope(counts))
            record("slope", "once", name, counts.count(1) / len(counts))
        vocabulary = {word: number for number, word in enumerate(sorted({*train, *test}))}
        ids, test_ids = (torch.tensor([vocabulary[word] for word in text]) for text in (train, test))
        for share in SHARES:
            part = ids[: round(len(ids) * share)]
            for order in ORDERS:
                record("perplexity", str(share), order, perplexity(order, part, test_ids, len(vocabulary)))

    def judge(self, results: Results) -> Verdict:
        words = results.values("slope", "slope", "words")
        few, much = (self.gains(results, str(share)) for share in (SHARES[0], SHARES[-1]))
        near_one = min(words) > 0.7 and max(words) < 1.3
        return Verdict(
            decide(near_one and above(much, few), not near_one or above(few, much)),
            Text(
                "The slope is {words:.2f} for words, {pairs:.2f} for pairs and {triples:.2f} for triples; "
                "{once:.0%} of the triples occur once. From order {low:.0f} to {high:.0f} the perplexity falls by "
                "{few:.1%} with one twentieth of the text and by {much:.1%} with all of it, where order {best:.0f} is "
                "the best.",
                "词的斜率为 {words:.2f}，二元组 {pairs:.2f}，三元组 {triples:.2f}；{once:.0%} 的三元组只出现一次。"
                "阶数从 {low:.0f} 增到 {high:.0f} 时，二十分之一语料的困惑度下降 {few:.1%}，全部语料下降 {much:.1%}，"
                "此时最好的阶数是 {best:.0f}。",
            ),
            {
                "words": -results.mean("slope", "slope", "words"),
                "pairs": -results.mean("slope", "slope", "pairs"),
                "triples": -results.mean("slope", "slope", "triples"),
                "once": results.mean("slope", "once", "triples"),
                "low": 2,
                "high": 7,
                "best": min(ORDERS, key=lambda order: results.mean("perplexity", str(SHARES[-1]), order)),
                "few": sum(few) / len(few),
                "much": sum(much) / len(much),
            },
        )

    def gains(self, results: Results, share: str) -> list[float]:
        """By how much the perplexity falls from order 2 to order 7, for each seed."""
        pairs = zip(*(results.values("perplexity", share, order) for order in (2, 7)), strict=True)
        return [1 - high / low for low, high in pairs]
